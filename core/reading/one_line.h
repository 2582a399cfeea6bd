// Prints foreign names and words within one line.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// Like printable() (core/base/text.h), but also writes line ends and tabs as \n and \t, so that a name with a
// line end cannot start a new log line. Use it for names, not for text with intended line ends such as an
// error of several lines.
std::string one_line(std::string_view text);

}  // namespace lockstep
