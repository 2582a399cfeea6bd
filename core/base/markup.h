// Text within HTML, SVG and XML.
#pragma once

#include <string>

namespace lockstep {

// Between tags, and in an attribute within double quotes: what markup reads as marks is escaped (& < > "),
// and what it forbids is printed as numbers (printable of text.h).
std::string escaped_markup(const std::string& text);

}  // namespace lockstep
