// An exception of a user's own program that nobody caught: its type, its text, and where it was thrown.
#pragma once

#include <exception>
#include <string>

namespace lockstep::launcher {

// "std::runtime_error: no such column", "int: 42", "geometry::Bad" for a type of which nothing more is known.
std::string exception_text(std::exception_ptr failure);

// To be called by a terminate handler, while the frames that threw still stand: " (thrown at loop.cpp:12)"
// where the program has debugging information (-g), else " (thrown in step(int))", else "".
std::string where_thrown();

}  // namespace lockstep::launcher
