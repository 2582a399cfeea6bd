// What a replay leaves of its last step for a comparison: a tape of its micro-batches, one value of it, or a
// tensor of the state after it.
#pragma once

#include <string>
#include <vector>

#include "compiler/step_tape.h"
#include "core/base/json.h"
#include "launcher/loop/workload.h"

namespace lockstep::launcher {

// Files below a folder that all ranks see.
struct KeepOfReplay {
  std::string folder;        // "": nothing is kept
  std::string tensor;        // of the state: a checkpoint of it alone; "": the tape
  bool before = false;       // of the state that the step starts from, else of that after it
  int64_t micro_batch = -1;  // -1: hashes of all values; else the bytes of one, which is at `place`
  int64_t place = 0;
};
Json to_json(const KeepOfReplay& keep);
KeepOfReplay keep_of_replay(const Json& json);

// Before the step runs; the state is what the step starts from. Collective.
void keep_before(const KeepOfReplay& keep, compiler::Step& step, const compiler::StepInput& fed,
                 Workload& work);
// After it. Collective.
void keep_after(const KeepOfReplay& keep, int64_t step, Workload& work);

// What keep_before left of the tape: by micro-batch, then in the order of computing; of ranks along
// model dims the first one's part.
std::vector<compiler::TapedValue> read_tape(const std::string& folder);
std::vector<std::byte> read_taped_value(const std::string& folder);

}  // namespace lockstep::launcher
