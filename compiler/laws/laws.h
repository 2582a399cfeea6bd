// The laws that every row of the op table obeys on its samples.
#pragma once

#include <optional>
#include <string>

#include "compiler/laws/case.h"

namespace lockstep::compiler::laws {

// nullopt: it says nothing of this case; "": it holds; else what is wrong, in words.
using Verdict = std::optional<std::string>;

// One: what the row infers is what the reference evaluator gives.
Verdict inference_equals_run(const Case& made);
// Two: the expansion into primitives computes what the row's own formula says.
Verdict expansion_equals_reference(const Case& made);
// Three: the gradient is a central difference in a random direction, in f64, and is the same when it is the
// only one wanted. `integral`: at whole numbers.
Verdict gradient_equals_difference(const Case& made, bool integral = false);
// And so is the gradient of the gradient, with respect to the inputs and to the gradients that come to the
// op.
Verdict second_gradient_equals_difference(const Case& made);
// Four: every split that the placement rule allows gives the unsplit result, on 1, 2 and 3 ranks, balanced
// and uneven. `splits` counts them.
Verdict splits_equal_whole(const Case& made, size_t* splits = nullptr);
// Five, of one backend: `given` are its outputs.
std::string equals_reference(const Case& made, const std::vector<HostTensor>& given);

}  // namespace lockstep::compiler::laws
