// Parses the header of a .npy array, a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3,
// 4), }.
#pragma once

#include <string>
#include <string_view>

#include "core/types/shape.h"

namespace lockstep::launcher::data {

struct NpyHeader {
  std::string type;  // "f4": a plain number in this machine's byte order
  int64_t width = 0;
  Shape shape;
};
// UserError naming `path` for a header of another form, Fortran order, foreign byte order, and a type that is
// not a plain number. Reads the text once.
NpyHeader parse_npy_header(std::string_view text, const std::string& path);

}  // namespace lockstep::launcher::data
