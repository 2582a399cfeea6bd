// The metrics of a step that say what its loss is divided by.
#pragma once

#include <string>
#include <string_view>

#include "core/ir/graph.h"

namespace lockstep {

// "tokens" of the loss's first term, "tokens.2" of its second. The later ones are not among
// StepResult::metrics, and no metric of a user's has their names.
inline std::string count_metric(size_t term) {
  return term ? "tokens." + std::to_string(term + 1) : "tokens";
}
inline bool is_later_count(std::string_view metric) {
  return metric.starts_with("tokens.") && metric.size() > 7 &&
         metric.find_first_not_of("0123456789", 7) == std::string_view::npos;
}

// Whether a traced step ended before, with its loss: what is written into it now would be lost.
inline bool has_ended(const Graph& step) {
  return step.find_output("loss") != kNoValue && step.find_output(count_metric(0)) != kNoValue;
}

}  // namespace lockstep
