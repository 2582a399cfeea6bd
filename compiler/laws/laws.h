// The laws that every row of the op table obeys on its samples.
#pragma once

#include <optional>
#include <string>

#include "compiler/laws/case.h"

namespace lockstep::compiler::laws {

// nullopt: the law does not apply to this case; "": it holds; else the fault, in words.
using Verdict = std::optional<std::string>;

// One: the inferred types are those of the reference evaluator's results.
Verdict inference_equals_run(const Case& made);
// Two: the expansion into primitives computes the same as the row's own formula.
Verdict expansion_equals_reference(const Case& made);
// Three: the gradient equals a central difference in a random direction, in f64. It is the same if it is the
// only gradient that is requested. `integral`: at whole numbers.
Verdict gradient_equals_difference(const Case& made, bool integral = false);
// The same for the gradient of the gradient, with respect to the op's inputs and to the gradients of its
// outputs.
Verdict second_gradient_equals_difference(const Case& made);
// Four: every split that the placement rule allows gives the unsplit result, on 1, 2 and 3 ranks, even and
// uneven. `splits` counts them.
Verdict splits_equal_whole(const Case& made, size_t* splits = nullptr);
// Five, for one backend: its outputs `given` equal those of the reference evaluator.
std::string equals_reference(const Case& made, const std::vector<HostTensor>& given);

}  // namespace lockstep::compiler::laws
