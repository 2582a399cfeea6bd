// check_op: the laws of the op table for one op, as a program of one's own asks for them.
#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/target.h"

namespace lockstep::compiler {

struct OpCheck {
  struct Failure {
    std::string law;   // "gradient", "splits", "native", ...
    std::string of;    // "mine::gelu3, sample 0: f32[3,5]"
    std::string what;  // in words: what was given and what is right
  };
  std::vector<std::string> laws;  // those that were tried, with the number of cases: "gradient: 2"
  std::vector<Failure> failures;
  bool ok() const { return failures.empty(); }
  std::string text() const;  // one line per failure; what was tried where there is none
};

// Tries a row of the op table, registered or built in, on each of its samples, in f32 and in every other
// float dtype that its type rule takes:
//   types       what it infers is what its formula gives
//   expansion   its expansion computes what its formula says
//   gradient    equals a finite difference in f64; and so does the gradient's gradient
//   splits      every split that its placement allows gives the unsplit result, on 1, 2 and 3 ranks
//   native, eager   the target's kernels and calls compute what the formula says, with 1 and 2 threads the
//   same bits
// A law that it has no piece for is not tried. `target`: null for the CPU. UserError when no op has the name,
// or it has no samples.
OpCheck check_op(const std::string& name, const Target* target = nullptr);

}  // namespace lockstep::compiler
