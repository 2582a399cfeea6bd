// OpenBody: a step's micro-batch in single ops, with its values as outputs in the order in which they are
// made: what is looked at to find where something goes wrong.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/runtime/step.h"
#include "core/nn/state.h"

namespace lockstep::compiler {

struct OpenBody {
  Graph graph;
  std::vector<NodeId> made_by;             // per output: the node of `graph`
  std::map<size_t, std::string> gradient;  // output -> FQN of the parameter whose gradient it is
  CompileOptions options;                  // that it is lowered for
  std::shared_ptr<const KernelSet> kernels;
  Device* device = nullptr;

  // Of an output: the op as people say it, "mul", and "mul at gpt.cpp:31 (blocks.0.norm1)".
  std::string op(size_t output) const;
  std::string op_and_place(size_t output) const;
  // ", the gradient of token.weight", or "".
  std::string gradient_words(size_t output) const;
};

// Of the step's floats, or of all that it computes. Compiles kernels of single ops. Collective. UserError on
// all ranks where one does not compile.
enum class Opened { floats, all };
OpenBody open_body(const Step& step, const State& state, Opened what);
// Step::inspect of it: runs the micro-batches of `input` again from the state as it is; nothing is written.
void inspect(Step& step, const StepInput& input, const OpenBody& body, const Step::Visit& visit);

}  // namespace lockstep::compiler
