// Escapes text for HTML, SVG and XML.
#pragma once

#include <string>

namespace lockstep {

// For text between tags and in an attribute within double quotes. Escapes & < > " and writes forbidden
// characters as numbers (printable in text.h).
std::string escaped_markup(const std::string& text);

}  // namespace lockstep
