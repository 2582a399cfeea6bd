// Converts integers and doubles to elements of a dtype.
#include "core/types/number.h"

#include <bit>
#include <cmath>
#include <limits>

#include "core/base/text.h"

namespace lockstep {

namespace {
bool is_signed(DType dtype) { return dtype == DType::i32 || dtype == DType::i64; }
}  // namespace

Number Number::beyond(double value) {
  Number out(value);
  out.kind_ = Kind::beyond;
  return out;
}

int64_t Number::bits() const {
  if (is_integer()) return static_cast<int64_t>(whole_);
  return real_ < 0 ? static_cast<int64_t>(real_) : static_cast<int64_t>(static_cast<uint64_t>(real_));
}

double Number::real(DType dtype) const {
  if (!is_integer()) return real_;
  if (dtype == DType::f64)
    return kind_ == Kind::negative ? static_cast<double>(static_cast<int64_t>(whole_))
                                   : static_cast<double>(whole_);
  const double exact = real();  // up to 2^53
  if (std::fabs(exact) < 0x1p53) return exact;
  return kind_ == Kind::negative ? static_cast<float>(static_cast<int64_t>(whole_))
                                 : static_cast<float>(whole_);
}

bool Number::fits(DType dtype) const {
  if (is_float(dtype) || is_float8(dtype)) {
    const double written = real(dtype);
    if (written == 0 || !std::isfinite(written)) return true;
    char bytes[8];
    set_double(dtype, bytes, 0, written);
    const double held = get_double(dtype, bytes, 0);
    return held != 0 && (std::isfinite(held) || is_float8(dtype));
  }
  if (kind_ == Kind::beyond) return false;
  if (dtype == DType::boolean) return is_integer() ? whole_ <= 1 : real_ == 0 || real_ == 1;
  const int digits = static_cast<int>(8 * size_of(dtype)) - (is_signed(dtype) ? 1 : 0);
  if (kind_ == Kind::real)  // NaN is in no range
    return real_ >= (is_signed(dtype) ? -std::ldexp(1.0, digits) : 0.0) && real_ < std::ldexp(1.0, digits) &&
           real_ == std::trunc(real_);
  if (kind_ == Kind::negative)
    return is_signed(dtype) &&
           static_cast<int64_t>(whole_) >=
               (digits == 63 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << digits));
  return digits == 64 || whole_ >> digits == 0;
}

Number Number::in(DType dtype) const {
  if (is_float(dtype) || is_float8(dtype)) return real(dtype);
  if (is_integer()) return *this;
  const int64_t whole = bits();
  return real_ < 0 ? Number(whole) : Number(static_cast<uint64_t>(whole));
}

std::string Number::text() const {
  if (kind_ == Kind::whole) return str(whole_);
  if (kind_ == Kind::negative) return str(static_cast<int64_t>(whole_));
  if (std::isnan(real_)) return "NaN";
  return number_text(real_);
}

bool Number::same_bits(const Number& other) const {
  return kind_ == other.kind_ && whole_ == other.whole_ &&
         std::bit_cast<uint64_t>(real_) == std::bit_cast<uint64_t>(other.real_);
}

DType dtype_for(const Number& number, DType instead_of) {
  for (DType dtype : {DType::i32, DType::i64, DType::u64})
    if (!is_float(instead_of) && number.is_integer() && number.fits(dtype)) return dtype;
  return number.fits(DType::f32) ? DType::f32 : DType::f64;
}

}  // namespace lockstep
