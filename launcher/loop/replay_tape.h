// Data of a replay's last step for comparisons: a tape of its micro-batches, one value of the tape, or a
// tensor of the state. A tape has the hash of every computed value, in order.
#pragma once

#include <string>
#include <vector>

#include "compiler/compile/step_tape.h"
#include "core/base/json.h"
#include "launcher/loop/workload.h"

namespace lockstep::launcher {

// Files in a folder that all ranks see.
struct KeepOfReplay {
  std::string folder;        // "": keep nothing
  std::string tensor;        // a tensor of the state, kept as a checkpoint; "": the tape
  bool before = false;       // from the state before the step, else after it
  int64_t micro_batch = -1;  // -1: hashes of all values; else the bytes of the value at `place`
  int64_t place = 0;
};
Json to_json(const KeepOfReplay& keep);
KeepOfReplay keep_of_replay(const Json& json);

// Call before the step, with the state that it starts from. Collective.
void keep_before(const KeepOfReplay& keep, compiler::Step& step, const compiler::StepInput& fed,
                 Workload& work);
// Call after the step. Collective.
void keep_after(const KeepOfReplay& keep, int64_t step, Workload& work);

// Reads the tape left by keep_before: by micro-batch, then in order of computation; for ranks along model
// dims only the first one's part.
std::vector<compiler::TapedValue> read_tape(const std::string& folder);
std::vector<std::byte> read_taped_value(const std::string& folder);

}  // namespace lockstep::launcher
