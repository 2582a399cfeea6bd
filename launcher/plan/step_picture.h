// Draws a step: time to the right, a row for computation and one for each route of collectives, and below it
// an enlargement of the step's end.
#pragma once

#include <string>

#include "launcher/plan/timeline.h"

namespace lockstep::launcher {

struct PictureWords {
  std::string title, below;
};
// SVG. `first_backward`: of the body's calls (first_backward_call). Parts of one collective are one bar.
// If more than two bars share two pixels, they are drawn by their shares of that time. Equal arguments give
// equal bytes.
std::string step_picture(const compiler::StepProgram& program, const Timeline& timeline, int first_backward,
                         const PictureWords& words);

}  // namespace lockstep::launcher
