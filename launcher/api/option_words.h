// What is said of a config's keys, in the words of a program's options.
#pragma once

#include <string>

namespace lockstep {

// A sentence about keys of a config, about options: "train.steps" is "steps".
std::string in_options(std::string text);

}  // namespace lockstep
