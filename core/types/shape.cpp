// Shapes: counts, strides, text.
#include "core/types/shape.h"

#include <algorithm>
#include <string>

namespace lockstep {

int64_t numel(const Shape& shape) {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  return n;
}
int64_t bytes_of(DType dtype, const Shape& shape) {
  return numel(shape) * static_cast<int64_t>(size_of(dtype));
}
bool is_countable(DType dtype, const Shape& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  auto bytes = static_cast<int64_t>(size_of(dtype));
  return std::none_of(shape.begin(), shape.end(),
                      [&](int64_t size) { return __builtin_mul_overflow(bytes, size, &bytes); });
}
std::vector<int64_t> row_major_strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}
std::string shape_text(DType dtype, const Shape& shape) {
  std::string out(name(dtype));
  out += '[';
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i) out += ',';
    out += std::to_string(shape[i]);
  }
  return out + ']';
}

}  // namespace lockstep
