// Names of the step metrics that report the divisor of its loss.
#pragma once

#include <string>
#include <string_view>

#include "core/ir/graph.h"

namespace lockstep {

// "tokens" for the loss's first term, "tokens.2" for its second. StepResult::metrics leaves out all but the
// first, and users cannot use the names for metrics.
inline std::string count_metric(size_t term) {
  return term ? "tokens." + std::to_string(term + 1) : "tokens";
}
inline bool is_later_count(std::string_view metric) {
  return metric.starts_with("tokens.") && metric.size() > 7 &&
         metric.find_first_not_of("0123456789", 7) == std::string_view::npos;
}

// Whether a traced step has already ended with its loss; nodes that are added now would be lost.
inline bool has_ended(const Graph& step) {
  return step.find_output("loss") != kNoValue && step.find_output(count_metric(0)) != kNoValue;
}

}  // namespace lockstep
