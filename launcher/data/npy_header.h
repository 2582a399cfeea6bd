// What the header of a .npy array says: a literal of Python, {'descr': '<f4', 'fortran_order': False,
// 'shape': (3, 4), }.
#pragma once

#include <string>
#include <string_view>

#include "core/types/shape.h"

namespace lockstep::launcher::data {

struct NpyHeader {
  std::string type;  // "f4": a plain number in this machine's order of bytes
  int64_t width = 0;
  Shape shape;
};
// UserError naming `path` for a header that is not of this form, Fortran's order, another order of bytes, and
// a type that is no plain number. Walks through the text once.
NpyHeader parse_npy_header(std::string_view text, const std::string& path);

}  // namespace lockstep::launcher::data
