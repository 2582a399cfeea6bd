// Span: a range of bytes in a region of a program's memory.
#pragma once

#include <compare>
#include <cstdint>

namespace lockstep::compiler {

struct Span {
  int region = -1;
  int64_t offset = 0, bytes = 0;
  bool there() const { return region >= 0; }
  Span part(int64_t from, int64_t size) const { return {region, offset + from, size}; }
  auto operator<=>(const Span&) const = default;
};

}  // namespace lockstep::compiler
