// Tiling: a tensor's chunks cover it exactly, without overlap and without a gap.
#pragma once

#include <string>
#include <vector>

#include "core/types/box.h"

namespace lockstep::checkpoint {

// DamagedError beginning with `where` that names a box outside `shape`, two overlapping boxes, or an
// uncovered box. Boxes without elements are allowed only for a tensor without elements.
void check_tiling(const Shape& shape, const std::vector<Box>& boxes, const std::string& where);

// What is left of `from` without `part` (which lies inside it), as boxes.
std::vector<Box> subtract(const Box& from, const Box& part);

}  // namespace lockstep::checkpoint
