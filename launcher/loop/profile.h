// Profile: some steps of a run as one trace of all ranks: what the host does, what computes, what travels.
#pragma once

#include <memory>
#include <string>

#include "compiler/runtime/step.h"
#include "compiler/runtime/step_recorder.h"
#include "core/mesh/array.h"
#include "launcher/report/chrome_trace.h"

namespace lockstep::launcher {

inline constexpr int kTracedRanks = 8;  // the first ones; the others run the same steps, and write nothing

struct ProfileOptions {
  std::string name, dir;  // of the run, and its folder
  int64_t first = 0;      // step of this start
  int64_t steps = 0;      // that are traced, from the third on: libraries are loaded then; 0: none
  int64_t last = 0;       // of the run
};

class Profile {
 public:
  Profile(ProfileOptions options, const LiveMesh& mesh);
  bool wants(int64_t step) const { return step >= from_ && step <= to_; }
  // Before and after a step that is wanted, on every rank; the first one begins together. `end` writes the
  // file once the last one is over, or where the run ends with this step, and returns its path then (on rank
  // 0; else ""). Collective.
  void begin(int64_t step);
  void add(const compiler::StepResult& result, const compiler::Step& step);
  std::string end(int64_t step, bool last);

 private:
  void add_spans(const compiler::TracedStep& step, int first_backward);
  void add_flights(compiler::TracedStep step);

  ProfileOptions options_;
  const LiveMesh& mesh_;
  int64_t from_, to_;
  double origin_ = 0, began_ = 0, ran_ = 0;  // by the steady clock
  std::unique_ptr<ChromeTrace> trace_;
};

// Where the flight record says when a collective ended that the device's queue did not tell; else where the
// step had waited for it.
void fill_ends(compiler::TracedStep& step);

}  // namespace lockstep::launcher
