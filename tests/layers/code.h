// C++ as text: what is left of a file for those who look for a word of code in it.
#pragma once

#include <string>

namespace lockstep::layers {

// The text without comments, strings and character literals; lines stay where they are.
std::string code_of(const std::string& text);

}  // namespace lockstep::layers
