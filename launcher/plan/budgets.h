// What a rank takes under values of compile.memory_budget, and what each costs: bytes against milliseconds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::launcher {

// A config planned with one value of compile.memory_budget.
struct PlanBudget {
  std::string word;        // "none", "26MiB", "full": the value
  int64_t bytes = 0;       // that the fullest rank takes, with bounds of what libraries take
  int64_t arena = 0;       // of these, of activations, workspaces and copies: what the budget bounds
  double step_s = 0;       // predicted; 0 without a prediction
  int64_t values = 0;      // that backward computes again
  double more_flops = 0;   // of the step's own, for them
  bool offload = false;    // with moments on the host (optim.offload), which the config has on the device
  bool copies = false;     // with compile.offload_activations, which the config is without
  int64_t away = 0;        // values that wait in the host's memory
  int64_t away_bytes = 0;  // that go there, and come back, in each micro-batch
  bool as_it_is() const { return !offload && !copies; }
  std::string name() const {
    return offload ? word + ", optim.offload" : copies ? word + ", compile.offload_activations" : word;
  }
};

// From "none" to "full", the arenas falling: both ends, and up to four between them at even distances of
// arenas. One row where a full recomputation saves nothing. `planned` plans the config with such values, each
// on its own: both ends, then all between them.
using PlanWords = std::function<std::vector<PlanBudget>(const std::vector<std::string>& words)>;
std::vector<PlanBudget> plan_budgets(const PlanWords& planned);

std::string away_words(const PlanBudget& budget);  // "31 values, 12.00 MiB", "nothing"
// A heading and a table of them.
std::string budgets_text(const std::vector<PlanBudget>& budgets);
// "+3.1 %" of the first row's time, or "-" without a prediction.
std::string more_time(const PlanBudget& budget, const PlanBudget& first);

}  // namespace lockstep::launcher
