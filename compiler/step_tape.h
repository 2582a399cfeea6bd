// StepTape: what the micro-batches of a step compute, value by value in single ops. Two tapes side by side
// name the first batch field or op that comes out otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/runtime/step.h"
#include "core/nn/state.h"

namespace lockstep::compiler {

struct TapedValue {
  int64_t micro_batch = 0;
  int64_t place = 0;  // in the order of computing; below 0: a field of the batch, the last one -1
  std::string made;   // what it is, with all that decides it: "sum {dim=0} f32[4,16]": equal in equal graphs
  std::string words;  // for people: "mul at gpt.cpp:31 (blocks.0.norm1)", "field \"ids\""
  DType dtype = DType::f32;
  Shape shape;
  uint64_t hash = 0;  // of its bytes
};
// Calls `visit` with each value of this rank's micro-batches, and its bytes on the host until the call
// returns: fields of the batch, then what is computed of them; behind all micro-batches, on the first rank,
// the definitions of what follows them, clipping and updates, which have no bytes. The state is as it is, and
// is not changed. Collective over the state's mesh. UserError on all ranks where memory is out or a kernel
// does not compile.
using TapeVisit = std::function<void(const TapedValue& value, const std::byte* data)>;
void tape_step(Step& step, const StepInput& input, const State& state, const TapeVisit& visit);

}  // namespace lockstep::compiler
