// A step as a picture: time to the right, a row for what is computed and one for each way that collectives
// go, and below it the end of the step enlarged.
#pragma once

#include <string>

#include "launcher/plan/timeline.h"

namespace lockstep::launcher {

struct PictureWords {
  std::string title, below;
};
// SVG. `first_backward`: of the body's calls (first_backward_call). Parts of one collective are one bar.
// Where more than two bars share two pixels, they are drawn by their shares of that time. The same bytes for
// the same arguments.
std::string step_picture(const compiler::StepProgram& program, const Timeline& timeline, int first_backward,
                         const PictureWords& words);

}  // namespace lockstep::launcher
