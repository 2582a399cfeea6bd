// StepTape: a record of what the micro-batches of a step compute, value by value in single ops. A comparison
// of two tapes names the first batch field or op that differs.
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
  int64_t place = 0;  // in the order of computation; negative: a field of the batch, the last one -1
  // Its definition, with all that decides it: "sum {dim=0} f32[4,16]"; equal in equal graphs.
  std::string made;
  std::string words;  // for display: "mul at gpt.cpp:31 (blocks.0.norm1)", "field \"ids\""
  DType dtype = DType::f32;
  Shape shape;
  uint64_t hash = 0;  // of its bytes
};
// Calls `visit` with each value of this rank's micro-batches, and its bytes, which are on the host until the
// call returns. First come the fields of the batch, then the values computed from them. After all
// micro-batches, on the first rank, come the definitions of later nodes, clipping and updates, without bytes.
// The state is not changed. Collective over the state's mesh. UserError on all ranks if there is not enough
// memory, or a kernel does not compile.
using TapeVisit = std::function<void(const TapedValue& value, const std::byte* data)>;
void tape_step(Step& step, const StepInput& input, const State& state, const TapeVisit& visit);

}  // namespace lockstep::compiler
