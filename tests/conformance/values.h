// Values of the conformance cases: typed vectors of small integers, exact in every dtype, and a check that
// says where it failed.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "core/types/dtype.h"

namespace lockstep::conformance {

// Elements of one dtype, read and written as integers.
class Values {
 public:
  Values(DType dtype, int64_t count, int64_t fill = 77)
      : dtype_(dtype), count_(count), bytes_(static_cast<size_t>(count) * size_of(dtype) + 1) {
    for (int64_t i = 0; i < count; ++i) set(i, fill);
  }
  template <class Fn>
  static Values made(DType dtype, int64_t count, Fn value) {
    Values out(dtype, count);
    for (int64_t i = 0; i < count; ++i) out.set(i, value(i));
    return out;
  }
  void set(int64_t i, int64_t value) {
    if (is_float(dtype_))
      set_double(dtype_, bytes_.data(), i, static_cast<double>(value));
    else
      set_int(dtype_, bytes_.data(), i, value);
  }
  int64_t at(int64_t i) const {
    return is_float(dtype_) ? static_cast<int64_t>(get_double(dtype_, bytes_.data(), i))
                            : get_int(dtype_, bytes_.data(), i);
  }
  std::byte* data(int64_t offset = 0) {
    return bytes_.data() + offset * static_cast<int64_t>(size_of(dtype_));
  }
  int64_t count() const { return count_; }
  DType dtype() const { return dtype_; }

 private:
  DType dtype_;
  int64_t count_;
  std::vector<std::byte> bytes_;
};

inline void expect(bool ok, const std::string& what) {
  if (!ok) throw std::runtime_error("conformance: " + what);
}
template <class Fn>
void expect_values(const Values& got, Fn wanted, const std::string& what) {
  for (int64_t i = 0; i < got.count(); ++i)
    if (got.at(i) != wanted(i))
      expect(false, str(what, " ", name(got.dtype()), ": element ", i, " of ", got.count(), " is ", got.at(i),
                        ", expected ", wanted(i)));
}

inline constexpr int64_t kSizes[] = {0, 1, 2, 3, 7, 64, 1001, 20011};
// The dtypes of reductions.
inline std::vector<DType>& numbers() {
  static std::vector<DType> all{DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32,
                                DType::i64, DType::u8,  DType::u16,  DType::u32, DType::u64};
  return all;
}

}  // namespace lockstep::conformance
