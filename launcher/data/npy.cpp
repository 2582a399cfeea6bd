// Reads .npy arrays.
#include "launcher/data/npy.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "core/base/error.h"
#include "core/reading/one_line.h"
#include "core/types/half.h"
#include "launcher/data/npy_header.h"

namespace lockstep::launcher::data {

namespace {
[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw UserError(str("data.paths: ", one_line(path), " ", what));
}

// The header text and the start of the rows of an array that occupies `size` bytes from `base` on.
std::pair<std::string, int64_t> header_of(const Source& source, int64_t base, int64_t size) {
  auto from_base = [&](int64_t most) {
    std::vector<std::byte> out(std::min(most, size));
    source.bytes.read(base, out.data(), static_cast<int64_t>(out.size()));
    return out;
  };
  const std::vector<std::byte> head = from_base(12);
  auto byte = [&](size_t i) { return static_cast<uint8_t>(head[i]); };
  if (head.size() < 10 || std::memcmp(head.data(), "\x93NUMPY", 6) != 0)
    refuse(source.path, "is no .npy array; numpy.save writes one");
  const bool wide = byte(6) >= 2;
  if (byte(6) < 1 || byte(6) > 3 || (wide && head.size() < 12))
    refuse(source.path, str("has version ", int{byte(6)}, " of the .npy format; 1, 2 and 3 are read"));
  uint64_t bytes = byte(8) | byte(9) << 8;
  if (wide) bytes |= static_cast<uint64_t>(byte(10)) << 16 | static_cast<uint64_t>(byte(11)) << 24;
  const int64_t begin = (wide ? 12 : 10) + static_cast<int64_t>(bytes);
  constexpr int64_t kMost = 1 << 16;
  if (begin > kMost || begin > size) refuse(source.path, "has a header that is cut off");
  const std::vector<std::byte> all = from_base(begin);
  return {std::string(reinterpret_cast<const char*>(all.data()) + (wide ? 12 : 10), bytes), base + begin};
}
}  // namespace

NpyFile::NpyFile(const std::string& path) : source_(Source::text(path)) {
  read_header(0, source_.bytes.size());
}

NpyFile::NpyFile(const std::string& path, const NpzMember& member, std::vector<SummedBytes> sums)
    : source_(Source::text(path)) {
  if (!member.packed) {
    source_.sums = std::move(sums);
    read_header(member.begin, member.size);
    return;
  }
  source_.bytes = FileBytes(path, unpacked(source_.bytes, member, path));
  source_.tokens = source_.bytes.size();
  read_header(0, source_.bytes.size());
}

void NpyFile::read_header(int64_t base, int64_t size) {
  const std::string& path = source_.path;
  const auto [header, begin] = header_of(source_, base, size);
  begin_ = begin;
  const NpyHeader said = parse_npy_header(header, path);
  type_ = said.type, width_ = said.width, shape_ = said.shape;
  if (shape_.empty()) refuse(path, "is a single number; its first dim counts samples");
  for (size_t d = 1; d < shape_.size(); ++d)
    if (__builtin_mul_overflow(row_, shape_[d], &row_)) refuse(path, "has a shape beyond 2^63 elements");
  int64_t need = 0;
  if (__builtin_mul_overflow(row_ * width_, shape_[0], &need) || need > base + size - begin_)
    refuse(path, str("has ", base + size - begin_, " bytes of elements, fewer than its shape ", str(shape_),
                     " of ", type_, " needs"));
}

std::vector<std::byte> NpyFile::raw(int64_t i, size_t elements) const {
  std::vector<std::byte> out(elements * static_cast<size_t>(width_));
  source_.bytes.read(begin_ + i * row_ * width_, out.data(), static_cast<int64_t>(out.size()));
  return out;
}

namespace {
template <class From>
double number(From value) {
  if constexpr (std::is_same_v<From, f16>)
    return static_cast<double>(static_cast<float>(value));
  else
    return static_cast<double>(value);
}
// Integers are printed with all digits.
template <class From>
std::string shown(From value) {
  if constexpr (std::is_integral_v<From>)
    return std::to_string(value);
  else
    return str(number(value));
}
template <class From, class To, class Each>
void each(const std::vector<std::byte>& raw, std::span<To> out, const Each& convert) {
  for (size_t k = 0; k < out.size(); ++k) {
    From value;
    std::memcpy(&value, raw.data() + k * sizeof(From), sizeof(From));
    out[k] = convert(value);
  }
}
// Calls `with` with a value of the type's C++ type.
template <class With>
void by_type(const std::string& type, const With& with) {
  if (type == "f4") return with(float{});
  if (type == "f8") return with(double{});
  if (type == "f2") return with(f16{});
  if (type == "u1" || type == "b1") return with(uint8_t{});
  if (type == "i1") return with(int8_t{});
  if (type == "u2") return with(uint16_t{});
  if (type == "i2") return with(int16_t{});
  if (type == "u4") return with(uint32_t{});
  if (type == "i4") return with(int32_t{});
  return with(int64_t{});
}
}  // namespace

void NpyFile::read(int64_t i, std::span<float> out) const {
  const std::vector<std::byte> bytes = raw(i, out.size());
  const bool image = type_ == "u1";
  by_type(type_, [&](auto of) {
    using From = decltype(of);
    each<From>(bytes, out, [&](From value) {
      const auto wide = static_cast<float>(number(value));
      return image ? wide / 255.0f : wide;
    });
  });
}

void NpyFile::read(int64_t i, std::span<int32_t> out) const {
  const std::vector<std::byte> bytes = raw(i, out.size());
  size_t at = 0;
  by_type(type_, [&](auto of) {
    using From = decltype(of);
    each<From>(bytes, out, [&](From value) {
      const double wide = number(value);
      const int64_t sample = i + static_cast<int64_t>(at++) / std::max<int64_t>(1, row_);
      if (wide < std::numeric_limits<int32_t>::min() || wide > std::numeric_limits<int32_t>::max())
        refuse(source_.path, str("has ", shown(value), " in sample ", sample, ", beyond a 32-bit integer"));
      return static_cast<int32_t>(wide);
    });
  });
}

}  // namespace lockstep::launcher::data
