// HostTensor: a dense row-major tensor in host memory with element access; the evaluator's input and output.
#pragma once

#include <vector>

#include "core/device/buffer.h"
#include "core/types/shape.h"

namespace lockstep::compiler {

// Copies share the bytes; only the maker of a tensor writes it.
struct HostTensor {
  DType dtype = DType::f32;
  Shape shape;
  Buffer data;

  int64_t size() const { return numel(shape); }  // elements
  size_t bytes() const { return size() * size_of(dtype); }
  double at(int64_t i) const { return get_double(dtype, data.data(), i); }  // element i in row-major order
  int64_t int_at(int64_t i) const { return get_int(dtype, data.data(), i); }
  void set(int64_t i, double value) { set_double(dtype, data.data(), i, value); }
  void set_int_at(int64_t i, int64_t value) { set_int(dtype, data.data(), i, value); }
};

HostTensor make_tensor(DType dtype, const Shape& shape);  // zeroed
// Rounded to dtype. InternalError if the number of values is not numel(shape).
HostTensor from_values(DType dtype, const Shape& shape, const std::vector<double>& values);
// Wrapped to dtype.
HostTensor from_ints(DType dtype, const Shape& shape, const std::vector<int64_t>& values);
std::vector<double> to_doubles(const HostTensor& tensor);
std::vector<int64_t> to_ints(const HostTensor& tensor);
bool same_bytes(const HostTensor& a, const HostTensor& b);  // dtype, shape and every bit

}  // namespace lockstep::compiler
