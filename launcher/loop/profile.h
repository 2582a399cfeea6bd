// Profile: traces some steps of a run over all ranks: host work, computation and communication.
#pragma once

#include <memory>
#include <string>

#include "compiler/runtime/step.h"
#include "compiler/runtime/step_recorder.h"
#include "core/mesh/array.h"
#include "launcher/report/chrome_trace.h"

namespace lockstep::launcher {

inline constexpr int kTracedRanks = 8;  // the first ones; the others run the same steps but write nothing

struct ProfileOptions {
  std::string name, dir;  // of the run, and its folder
  int64_t first = 0;      // first step of this start
  int64_t steps = 0;      // traced steps, from the third on, when libraries are loaded; 0: none
  int64_t last = 0;       // of the run
};

class Profile {
 public:
  Profile(ProfileOptions options, const LiveMesh& mesh);
  bool wants(int64_t step) const { return step >= from_ && step <= to_; }
  // Called before and after each traced step, on every rank; ranks synchronize before the first. `end` writes
  // the file after the last traced step or the run's last step, and returns its path (on rank 0; else "").
  // Collective.
  void begin(int64_t step);
  void add(const compiler::StepResult& result, const compiler::Step& step);
  std::string end(int64_t step, bool last);

 private:
  void add_spans(const compiler::TracedStep& step, int first_backward);
  void add_flights(compiler::TracedStep step);

  ProfileOptions options_;
  const LiveMesh& mesh_;
  int64_t from_, to_;
  double origin_ = 0, began_ = 0, ran_ = 0;  // steady clock
  std::unique_ptr<ChromeTrace> trace_;
};

// The end of a collective from the flight record if the device's queue did not record it; else the end of the
// step's wait for it.
void fill_ends(compiler::TracedStep& step);

}  // namespace lockstep::launcher
