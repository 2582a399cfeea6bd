// check_op: checks the laws of the op table for one op, for a user's own ops.
#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/target.h"

namespace lockstep::compiler {

struct OpCheck {
  struct Failure {
    std::string law;   // "gradient", "splits", "native", ...
    std::string of;    // "mine::gelu3, sample 0: f32[3,5]"
    std::string what;  // the value found and the expected value, in words
  };
  std::vector<std::string> laws;  // the laws that were checked, with their numbers of cases: "gradient: 2"
  std::vector<Failure> failures;
  bool ok() const { return failures.empty(); }
  std::string text() const;  // one line per failure; without failures, the laws that were checked
};

// Checks a row of the op table, registered or built in, on each of its samples, in f32 and in every other
// float dtype that its type rule accepts:
//   - types: the inferred types are those of its formula's results
//   - expansion: its expansion computes the same as its formula
//   - gradient: equals a finite difference in f64, and so does the gradient's gradient
//   - splits: every split that its placement allows gives the unsplit result, on 1, 2 and 3 ranks
//   - native, eager: the target's kernels and calls compute the same as the formula, and have the same bits
//     with 1 and 2 threads
// A law is skipped if the row lacks the part that it needs. `target`: null for the CPU. UserError if no op
// has the name, or if it has no samples.
OpCheck check_op(const std::string& name, const Target* target = nullptr);

}  // namespace lockstep::compiler
