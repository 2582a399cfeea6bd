// Fills initial values, run by run, in the boxes that this rank holds.
#include "core/nn/init.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/normal_tail.h"
#include "core/base/philox.h"
#include "core/ops/held_number.h"
#include "core/types/below.h"

namespace lockstep {

namespace {
using Kind = Init::Kind;

// Calls put(i, value) for elements [begin, end), counted from global index `first`; Philox gives four numbers
// per block.
template <class Put>
void each_normal(uint64_t seed, uint64_t stream, const Init& init, int64_t first, int64_t begin, int64_t end,
                 const Put& put) {
  constexpr int64_t kBlocks = 256;
  float values[4 * kBlocks];
  const int64_t to = first + end;
  for (int64_t quad = (first + begin) >> 2; quad << 2 < to; quad += kBlocks) {
    philox::normals(seed, stream, 0, static_cast<uint64_t>(quad), std::min(kBlocks, ((to + 3) >> 2) - quad),
                    values);
    const int64_t last = std::min(4 * (quad + kBlocks), to);
    for (int64_t i = std::max(4 * quad, first + begin); i < last; ++i) {
      const double value = init.std * values[i - 4 * quad];
      put(i - first, static_cast<float>(init.mean == 0 ? value : init.mean + value));
    }
  }
}
// The same with put(i, word), the 32 bits of each element.
template <class Put>
void each_word(uint64_t seed, uint64_t stream, int64_t first, int64_t begin, int64_t end, const Put& put) {
  for (int64_t quad = (first + begin) >> 2; quad << 2 < first + end; ++quad) {
    auto words = philox::words(seed, stream, 0, static_cast<uint64_t>(quad));
    for (int64_t i = std::max(4 * quad, first + begin); i < std::min(4 * quad + 4, first + end); ++i)
      put(i - first, words[i & 3]);
  }
}

// Elements that one thread writes at a time; a value depends only on its index.
constexpr int64_t kChunk = 1 << 16;

int64_t places(const Shape& shape) {
  int64_t count = 1;
  for (size_t d = 2; d < shape.size(); ++d) count *= shape[d];
  return count;
}
// The init with its deviation or bounds computed for this shape, without a fan.
Init scaled(Init init, const Shape& shape) {
  if (init.fan == Fan::none) return init;
  const auto in = static_cast<double>(shape[1] * places(shape)),
             out = static_cast<double>(shape[0] * places(shape));
  const double fan = init.fan == Fan::in ? in : init.fan == Fan::out ? out : (in + out) / 2;
  init.std /= std::sqrt(fan);
  init.hi = init.std * std::sqrt(3.0);
  init.lo = -init.hi;
  init.fan = Fan::none;
  return init;
}

// x with erf(x) = y, by Newton's method from an approximation with elementary functions (Winitzki, 2008).
double inverse_erf(double y) {
  const double w = std::log((1 - y) * (1 + y)), a = 0.147, b = 2 / (a * 3.14159265358979323846) + w / 2;
  double x = std::copysign(std::sqrt(std::sqrt(b * b - w / a) - b), y);
  for (int step = 0; step < 4; ++step) x -= (std::erf(x) - y) * std::exp(x * x) * 0.88622692545275801365;
  return x;
}
// Bounds on one side of the mean are a tail, where erf may be 1 in every digit and has no usable inverse.
std::optional<NormalTail> tail_of(const Init& init) {
  const double from = (init.lo - init.mean) / init.std, to = (init.hi - init.mean) / init.std;
  if (from < 0 && to > 0) return std::nullopt;
  return from >= 0 ? NormalTail(from, to) : NormalTail(-to, -from);
}
double truncated(const Init& init, const std::optional<NormalTail>& tail, uint32_t word) {
  if (tail) {
    const double u = (static_cast<double>(word) + 0.5) * 0x1p-32;
    const double past = init.std * tail->past(-std::log1p(-u * tail->inside()));
    return std::clamp(init.lo >= init.mean ? init.lo + past : init.hi - past, init.lo, init.hi);
  }
  auto below = [&](double x) { return std::erf((x - init.mean) / (init.std * std::sqrt(2.0))); };
  const double from = below(init.lo), to = below(init.hi), u = (static_cast<double>(word) + 0.5) * 0x1p-32;
  return std::clamp(init.mean + init.std * std::sqrt(2.0) * inverse_erf(from + u * (to - from)), init.lo,
                    init.hi);
}

// Gram-Schmidt on the rows of a normal matrix, twice per row: the second pass removes the rounding error of
// the first. The result is row-major in `shape`; the rows are its columns if it has fewer columns.
std::vector<double> orthogonal(const Shape& shape, uint64_t seed, uint64_t stream) {
  const int64_t rows = shape[0], columns = numel(shape) / rows;
  const bool wide = rows <= columns;
  const int64_t count = wide ? rows : columns, length = wide ? columns : rows;
  std::vector<double> q(count * length);
  for (int64_t i = 0; i < count * length; ++i)
    q[i] = philox::normal(seed, stream, 0, static_cast<uint64_t>(i));
  for (int64_t i = 0; i < count; ++i) {
    double* row = q.data() + i * length;
    auto dot = [&](const double* other) {
      double sum = 0;
      for (int64_t k = 0; k < length; ++k) sum += row[k] * other[k];
      return sum;
    };
    std::vector<double> shares(i);
    for (int pass = 0; pass < 2; ++pass) {
#pragma omp parallel for schedule(static) if (i * length > kChunk)
      for (int64_t j = 0; j < i; ++j) shares[j] = dot(q.data() + j * length);
      for (int64_t j = 0; j < i; ++j)
        for (int64_t k = 0; k < length; ++k) row[k] -= shares[j] * q[j * length + k];
    }
    const double norm = std::sqrt(dot(row));
    for (int64_t k = 0; k < length; ++k) row[k] /= norm;
  }
  if (wide) return q;
  std::vector<double> turned(q.size());
  for (int64_t i = 0; i < count; ++i)
    for (int64_t k = 0; k < length; ++k) turned[k * count + i] = q[i * length + k];
  return turned;
}

double dirac(const Shape& shape, int64_t groups, int64_t i) {
  int64_t inner = places(shape), out = i / (shape[1] * inner), in = i / inner % shape[1], middle = 0;
  for (size_t d = 2; d < shape.size(); ++d) middle = middle * shape[d] + shape[d] / 2;
  return out % (shape[0] / groups) == in && i % inner == middle ? 1 : 0;
}

// Which elements of a matrix are 0: in each column those with the smallest random bits, as many as the share
// requires. The bits are drawn for another step than the numbers, so they are independent.
std::vector<bool> zeros_of(const Shape& shape, double share, uint64_t seed, uint64_t stream) {
  const int64_t rows = shape[0], columns = shape[1],
                zeros = static_cast<int64_t>(std::ceil(share * static_cast<double>(rows)));
  std::vector<bool> out(rows * columns);
  std::vector<std::pair<uint32_t, int64_t>> order(rows);
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t i = row * columns + column;
      order[row] = {philox::bits(seed, stream, 1, static_cast<uint64_t>(i)), i};
    }
    std::partial_sort(order.begin(), order.begin() + zeros, order.end());
    for (int64_t k = 0; k < zeros; ++k) out[order[k].second] = true;
  }
  return out;
}

// The rule of an init that is not an independent random number per element.
std::optional<Init::Elements> rule(const Init& init, const Array& array, uint64_t seed, uint64_t stream) {
  const Shape& shape = array.shape;
  switch (init.kind) {
    case Kind::zeros:
    case Kind::ones:
      return [value = init.kind == Kind::ones ? 1.0 : 0.0](int64_t) { return value; };
    case Kind::constant:
      return [value = init.number.real(array.dtype)](int64_t) { return value; };
    case Kind::orthogonal:
      return [whole = orthogonal(shape, seed, stream), gain = init.factor](int64_t i) {
        return gain * whole[i];
      };
    case Kind::eye:
      return [columns = shape[1]](int64_t i) { return i / columns == i % columns ? 1.0 : 0.0; };
    case Kind::dirac:
      return
          [shape, groups = static_cast<int64_t>(init.factor)](int64_t i) { return dirac(shape, groups, i); };
    case Kind::sparse:
      return [zeros = zeros_of(shape, init.factor, seed, stream), std = init.std, seed, stream](int64_t i) {
        return zeros[i] ? 0.0 : std * philox::normal(seed, stream, 0, static_cast<uint64_t>(i));
      };
    case Kind::elements:
      return *init.element;
    default:
      return {};
  }
}

std::string misfit_of_dtype(const Init& init, DType dtype) {
  if (init.kind == Kind::constant && !init.number.fits(dtype))
    return str("starts as ", not_held(init.number, dtype));
  const bool whole = init.kind == Kind::zeros || init.kind == Kind::ones || init.kind == Kind::constant ||
                     init.kind == Kind::eye || init.kind == Kind::dirac || init.kind == Kind::elements;
  if (!whole && (is_integer(dtype) || dtype == DType::boolean))
    return str("starts by numbers with a fraction, and is ", name(dtype), "; take a dtype of floats");
  return "";
}
std::string misfit_of_shape(const Init& init, const Shape& shape) {
  const bool dims = init.fan != Fan::none || init.kind == Kind::orthogonal || init.kind == Kind::dirac;
  if (dims && shape.size() < 2)
    return str("starts by a rule for weights of 2 or more dims, and has ", shape.size());
  if (init.kind == Kind::eye && shape.size() != 2)
    return str("starts as an identity, which has 2 dims, and has ", shape.size());
  if (init.kind == Kind::sparse && shape.size() != 2)
    return str("starts with zeros in each column of a matrix, which has 2 dims, and has ", shape.size());
  if (const auto groups = static_cast<int64_t>(init.factor);
      init.kind == Kind::dirac && (groups < 1 || shape[0] % groups))
    return str("starts as a dirac of ", groups, " groups, which do not divide ", shape[0], " outputs");
  return "";
}
std::string misfit_of_numbers(const Init& init, DType dtype) {
  if (init.kind == Kind::sparse && !(init.factor >= 0 && init.factor <= 1))
    return str("starts with a share of zeros of ", init.factor, ", which must be between 0 and 1");
  if (init.kind == Kind::uniform && (!(init.lo <= init.hi) || !std::isfinite(init.hi - init.lo)))
    return str("starts uniform between ", init.lo, " and ", init.hi,
               "; the lower comes first, and both are finite");
  if (init.kind == Kind::uniform && most_of_uniform(init.lo, init.hi, dtype) < init.lo)
    return str("starts uniform from ", number_text(init.lo), " to before ", number_text(init.hi),
               ", where no number of ", name(dtype), " exists; move the bounds apart");
  if (init.kind == Kind::truncated_normal) {
    if (!(init.lo < init.hi && init.std > 0))
      return str("starts normal with deviation ", init.std, " between ", init.lo, " and ", init.hi,
                 "; the deviation is positive, the lower bound comes first");
    const double away = std::max((init.lo - init.mean) / init.std, (init.mean - init.hi) / init.std);
    if (std::isnan(away) || away == std::numeric_limits<double>::infinity())
      return str("starts normal around ", init.mean, " with deviation ", init.std, " between ", init.lo,
                 " and ", init.hi, ", where no number exists; move the bounds nearer to the mean");
  }
  if (init.kind == Kind::elements && (!init.element || !*init.element))
    return "starts by a function that is empty";
  return "";
}
}  // namespace

namespace init {
double leaky_relu_gain(double slope) { return std::sqrt(2 / (1 + slope * slope)); }
Init xavier_normal(double gain) { return {.kind = Kind::normal, .std = gain, .fan = Fan::mean}; }
Init xavier_uniform(double gain) { return {.kind = Kind::uniform, .std = gain, .fan = Fan::mean}; }
Init kaiming_normal(double gain, Fan fan) { return {.kind = Kind::normal, .std = gain, .fan = fan}; }
Init kaiming_uniform(double gain, Fan fan) { return {.kind = Kind::uniform, .std = gain, .fan = fan}; }
}  // namespace init

std::string misfit(const Init& init, const Shape& shape, DType dtype) {
  std::string words = misfit_of_dtype(init, dtype);
  if (words.empty()) words = misfit_of_shape(init, shape);
  return words.empty() ? misfit_of_numbers(init, dtype) : words;
}

namespace {
// Draws the values on the array's device. Returns false if the device cannot draw this kind.
bool draw_there(Array& array, const Init& init, uint64_t seed, uint64_t stream) {
  Device* const device = array.device();
  Draws* const draws = device ? device->draws() : nullptr;
  const bool normal = init.kind == Kind::normal;
  if (!draws || array.dtype != DType::f32 || !(normal || init.kind == Kind::uniform)) return false;
  auto* data = reinterpret_cast<float*>(array.on(*device));
  std::vector<DrawRun> runs;
  for (const auto& piece : array.pieces)
    for_each_run(piece.global, whole(array.shape), piece.frame(array.local_shape),
                 [&](int64_t global, int64_t local, int64_t count) {
                   runs.push_back({data + local, count, static_cast<uint64_t>(global)});
                 });
  draws->draw({normal ? Draw::Kind::normal : Draw::Kind::uniform, seed, stream, normal ? init.mean : init.lo,
               normal ? init.std : init.hi - init.lo,
               normal ? std::numeric_limits<float>::infinity()
                      : static_cast<float>(most_of_uniform(init.lo, init.hi, DType::f32))},
              runs);
  array.device_wrote(*device);
  return true;
}
}  // namespace

void fill(Array& array, const Init& asked, uint64_t seed) {
  LS_CHECK(array.data || array.local_bytes() == 0, array.fqn, " is not allocated");
  const uint64_t stream = hash64(array.fqn);
  const Init init = scaled(asked, array.shape);
  if (draw_there(array, init, seed, stream)) return;
  array.host_wrote();
  const auto element = rule(init, array, seed, stream);
  const auto tail = init.kind == Kind::truncated_normal ? tail_of(init) : std::nullopt;
  const double most = init.kind == Kind::uniform ? most_of_uniform(init.lo, init.hi, array.dtype) : 0;
  Box all = whole(array.shape);
  for (const auto& piece : array.pieces)
    for_each_run(
        piece.global, all, piece.frame(array.local_shape), [&](int64_t global, int64_t local, int64_t count) {
          float* f32 = array.dtype == DType::f32 ? array.data.as<float>() + local : nullptr;
          auto put = [&](int64_t i, double value) {
            if (f32)
              f32[i] = static_cast<float>(value);
            else
              set_double(array.dtype, array.data.data(), local + i, value);
          };
          if (init.kind == Kind::constant && !is_float(array.dtype)) {
            for (int64_t i = 0; i < count; ++i)
              set_int(array.dtype, array.data.data(), local + i, init.number.bits());
            return;
          }
          const int64_t chunks = (count + kChunk - 1) / kChunk;
#pragma omp parallel for schedule(static) if (chunks > 1)
          for (int64_t chunk = 0; chunk < chunks; ++chunk) {
            const int64_t begin = chunk * kChunk, end = std::min(count, begin + kChunk);
            if (element)
              for (int64_t i = begin; i < end; ++i) put(i, (*element)(global + i));
            else if (init.kind == Kind::normal)
              each_normal(seed, stream, init, global, begin, end, put);
            else
              each_word(seed, stream, global, begin, end, [&](int64_t i, uint32_t word) {
                const bool uniform = init.kind == Kind::uniform;
                const auto value =
                    static_cast<float>(uniform ? init.lo + (init.hi - init.lo) * philox::uniform(word)
                                               : truncated(init, tail, word));
                put(i, uniform ? std::min<double>(value, most) : value);
              });
          }
        });
}

}  // namespace lockstep
