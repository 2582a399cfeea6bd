// OpenBody: a step's micro-batch as single ops, with its values as outputs in the order of computation. It is
// used to find where a fault starts.
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
  std::map<size_t, std::string> gradient;  // output -> FQN of the parameter with this gradient
  CompileOptions options;                  // the options for which it is lowered
  std::shared_ptr<const KernelSet> kernels;
  Device* device = nullptr;

  // For an output: the op in readable words, "mul", and "mul at gpt.cpp:31 (blocks.0.norm1)".
  std::string op(size_t output) const;
  std::string op_and_place(size_t output) const;
  // ", the gradient of token.weight", or "".
  std::string gradient_words(size_t output) const;
};

// Opens the step's float values, or all values. Compiles kernels of single ops. Collective. UserError on all
// ranks if one does not compile.
enum class Opened { floats, all };
OpenBody open_body(const Step& step, const State& state, Opened what);
// Step::inspect with it: runs the micro-batches of `input` again from the current state; writes nothing.
void inspect(Step& step, const StepInput& input, const OpenBody& body, const Step::Visit& visit);

}  // namespace lockstep::compiler
