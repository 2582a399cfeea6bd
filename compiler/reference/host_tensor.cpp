// HostTensor: making and reading.
#include "compiler/reference/host_tensor.h"

#include <cstring>

#include "core/base/error.h"

namespace lockstep::compiler {

HostTensor make_tensor(DType dtype, const Shape& shape) {
  HostTensor made{dtype, shape, {}};
  made.data = Buffer(made.bytes());
  return made;
}

HostTensor from_values(DType dtype, const Shape& shape, const std::vector<double>& values) {
  HostTensor made = make_tensor(dtype, shape);
  LS_CHECK(static_cast<int64_t>(values.size()) == made.size(), shape_text(dtype, shape), " from ",
           values.size(), " values");
  for (size_t i = 0; i < values.size(); ++i) made.set(static_cast<int64_t>(i), values[i]);
  return made;
}

HostTensor from_ints(DType dtype, const Shape& shape, const std::vector<int64_t>& values) {
  HostTensor made = make_tensor(dtype, shape);
  LS_CHECK(static_cast<int64_t>(values.size()) == made.size(), shape_text(dtype, shape), " from ",
           values.size(), " values");
  for (size_t i = 0; i < values.size(); ++i) made.set_int_at(static_cast<int64_t>(i), values[i]);
  return made;
}

std::vector<double> to_doubles(const HostTensor& tensor) {
  std::vector<double> values(tensor.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = tensor.at(static_cast<int64_t>(i));
  return values;
}

std::vector<int64_t> to_ints(const HostTensor& tensor) {
  std::vector<int64_t> values(tensor.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = tensor.int_at(static_cast<int64_t>(i));
  return values;
}

bool same_bytes(const HostTensor& a, const HostTensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         (a.bytes() == 0 || std::memcmp(a.data.data(), b.data.data(), a.bytes()) == 0);
}

}  // namespace lockstep::compiler
