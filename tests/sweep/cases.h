// The samples of all rows, one case each.
#pragma once

#include <functional>
#include <vector>

#include "compiler/laws/laws.h"

namespace lockstep::sweep {

using namespace compiler::laws;

// Turns what is wrong into a failure with the case's title. True when the law says something of the case.
bool holds(const Case& made, const Verdict& verdict);

// Calls law(case) for every sample of every swept row, as it is and in the other dtypes, and turns an
// exception into a failure with its title.
void for_each_case(const std::function<void(const Case&)>& law, const std::vector<DType>& others = {});

}  // namespace lockstep::sweep
