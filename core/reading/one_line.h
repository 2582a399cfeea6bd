// Names and words of others within a line of ours.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// As printable() (core/base/text.h), and line ends and tabs as \n and \t: a name with a line end in it
// cannot begin a line of its own in a log. A line end that is meant, as between the lines of an error, is not
// a name's.
std::string one_line(std::string_view text);

}  // namespace lockstep
