// Describes an uncaught exception of a user program: type, text, and where it was thrown.
#pragma once

#include <exception>
#include <string>

namespace lockstep::launcher {

// "std::runtime_error: no such column", "int: 42", "geometry::Bad" for a type without a known text.
std::string exception_text(std::exception_ptr failure);

// Call it from a terminate handler, while the throwing frames still exist: " (thrown at loop.cpp:12)" if the
// program has debug information (-g), else " (thrown in step(int))", else "".
std::string where_thrown();

}  // namespace lockstep::launcher
