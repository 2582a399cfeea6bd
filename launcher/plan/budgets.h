// Budgets: a rank's bytes and step time for several values of compile.memory_budget.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::launcher {

// A config planned with one value of compile.memory_budget.
struct PlanBudget {
  std::string word;        // "none", "26MiB", "full": the value
  int64_t bytes = 0;       // of the fullest rank, including bounds for libraries
  int64_t arena = 0;       // of these: activations, workspaces and copies, which the budget bounds
  double step_s = 0;       // predicted; 0 without a prediction
  int64_t values = 0;      // that backward recomputes
  double more_flops = 0;   // their share of the step's own flops
  bool offload = false;    // with moments on the host (optim.offload), unlike the config
  bool copies = false;     // with compile.offload_activations, unlike the config
  int64_t away = 0;        // values offloaded to host memory
  int64_t away_bytes = 0;  // bytes offloaded and fetched back in each micro-batch
  bool as_it_is() const { return !offload && !copies; }
  std::string name() const {
    return offload ? word + ", optim.offload" : copies ? word + ", compile.offload_activations" : word;
  }
};

// Rows from "none" to "full" with falling arenas: both ends, and up to four evenly spaced arenas between
// them. One row if full recomputation saves nothing. `planned` plans the config separately for each value:
// first both ends, then all between.
using PlanWords = std::function<std::vector<PlanBudget>(const std::vector<std::string>& words)>;
std::vector<PlanBudget> plan_budgets(const PlanWords& planned);

std::string away_words(const PlanBudget& budget);  // "31 values, 12.00 MiB", "nothing"
// A heading and a table of the budgets.
std::string budgets_text(const std::vector<PlanBudget>& budgets);
// "+3.1 %" of the first row's time, or "-" without a prediction.
std::string more_time(const PlanBudget& budget, const PlanBudget& first);

}  // namespace lockstep::launcher
