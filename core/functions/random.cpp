// Random distributions computed from uniform numbers.
#include "core/functions/random.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/normal_tail.h"
#include "core/functions/creation.h"
#include "core/functions/norms.h"
#include "core/functions/operators.h"
#include "core/functions/order.h"
#include "core/functions/pointwise.h"
#include "core/functions/reduce.h"
#include "core/functions/shape.h"
#include "core/ops/checks.h"
#include "core/types/below.h"

namespace lockstep {

using namespace functions;

namespace {
Tensor draw(OpId op, Tensor beside, Shape shape) {
  const int64_t stream = stream_of(*beside.builder(), "/random.", {ops::rng_uniform, ops::rng_bits});
  return apply1(op,
                {scalar(beside, "rng.seed", DType::i64), scalar(beside, "rng.step", DType::i64),
                 scalar(beside, "rng.sample", DType::i64)},
                {{"shape", shape}, {"stream", stream}});
}
void need_shape(std::string_view name, const Tensor& beside, const Shape& shape, DType dtype, Here at) {
  need(name, {beside}, at);
  if (shape.empty()) refuse(name, {beside}, at, "shape [] has no dim that counts samples");
  if (!is_float(dtype)) refuse(name, {beside}, at, str("dtype is ", lockstep::name(dtype), ", needs floats"));
}
constexpr double kInfinity = std::numeric_limits<double>::infinity();
Tensor unit(Tensor beside, const Shape& shape) { return draw(ops::rng_uniform, beside, shape); }
}  // namespace

Tensor dropout(Tensor x, double p, Here at) {
  need("dropout", {x}, at);
  if (p == 0) return x;
  const int64_t stream = stream_of(*x.builder(), "/dropout.", {ops::dropout});
  return apply1(ops::dropout,
                {x, scalar(x, "rng.seed", DType::i64), scalar(x, "rng.step", DType::i64),
                 scalar(x, "rng.sample", DType::i64)},
                {{"p", p}, {"stream", stream}}, at);
}
namespace {
// x times a dropout mask over its first `dims` dims.
Tensor dropped(std::string_view name, Tensor x, double p, int64_t dims, Here at) {
  need_floats(name, {x}, at);
  if (x.ndim() < dims) refuse(name, {x}, at, str("input is ", x.text(), ", needs ", dims, " or more dims"));
  if (p == 0) return x;
  InFunction line(x, at);
  const Shape shape = x.shape();
  Tensor left = dropout(full(x, Shape(shape.begin(), shape.begin() + dims), 1, DType::f32), p);
  Tensor v = rules::wide(x);
  return convert(v * broadcast_dims(convert(left, v.dtype()), shape, counted(0, dims)), x.dtype());
}
}  // namespace
Tensor dropout_channels(Tensor x, double p, Here at) { return dropped("dropout_channels", x, p, 2, at); }
Tensor dropout_samples(Tensor x, double p, Here at) { return dropped("dropout_samples", x, p, 1, at); }
Tensor uniform(Tensor beside, Shape shape, double lo, double hi, DType dtype, Here at) {
  need_shape("uniform", beside, shape, dtype, at);
  if (!(lo <= hi) || !std::isfinite(hi - lo))
    refuse("uniform", {beside}, at,
           str("bounds are ", lo, " and ", hi, "; the lower comes first, and both are finite"));
  for (double number : {lo, hi, hi - lo})
    if (!Number(number).fits(DType::f32))
      refuse("uniform", {beside}, at,
             str("bounds are ", number_text(lo), " and ", number_text(hi), ", hi - lo is ",
                 number_text(hi - lo), ": numbers are drawn in f32, which does not hold ",
                 number_text(number), "; draw between 0 and 1, convert it to f64, and scale it there"));
  const DType drawn = dtype == DType::f64 ? DType::f32 : dtype;
  const double most = most_of_uniform(lo, hi, dtype);
  if (lo < hi && most < lo)
    refuse(
        "uniform", {beside}, at,
        str("no number of ", name(drawn), " exists from ", number_text(lo), " to before ", number_text(hi)));
  InFunction line(beside, at);
  Tensor u = unit(beside, shape);
  if (lo == 0 && hi == 1 && drawn == DType::f32) return convert(u, dtype);
  Tensor x = convert(lo == 0 && hi == 1 ? u : u * (hi - lo) + lo, drawn);
  return convert(lo < hi ? minimum(x, full_like(x, most)) : x, dtype);  // since rounding could reach hi
}
Tensor randn(Tensor beside, Shape shape, DType dtype, Here at) {
  need_shape("randn", beside, shape, dtype, at);
  InFunction line(beside, at);
  Tensor u = unit(beside, shape), v = unit(beside, shape);
  return convert(sqrt(-2.0 * log(1.0 - u)) * cos(v * 6.283185307179586476925), dtype);
}
namespace {
// Evaluates NormalTail::past(s) by Clenshaw's recurrence.
Tensor past(const NormalTail::Series& series, const Tensor& rarer) {
  const double half = (series.high - series.low) / 2;
  Tensor z = series.root ? sqrt(rarer + series.shift) : rarer;
  Tensor t = (z - (series.low + half)) * (1 / half), later, last;
  for (size_t k = series.coefficients.size(); k-- > 1;) {
    Tensor sum =
        last.defined() ? t * last * 2 + series.coefficients[k] : full_like(t, series.coefficients[k]);
    if (later.defined()) sum = sum - later;
    later = last, last = sum;
  }
  Tensor sum = last.defined() ? t * last + series.coefficients[0] : full_like(t, series.coefficients[0]);
  return (later.defined() ? sum - later : sum) * rarer;
}
}  // namespace
Tensor truncated_normal(Tensor beside, Shape shape, double mean, double deviation, double lo, double hi,
                        DType dtype, Here at) {
  need_shape("truncated_normal", beside, shape, dtype, at);
  if (!(lo < hi && deviation > 0))
    refuse("truncated_normal", {beside}, at,
           str("bounds are ", lo, " and ", hi, ", the deviation ", deviation,
               "; the lower comes first, and the deviation is positive"));
  const double from = (lo - mean) / deviation, to = (hi - mean) / deviation;
  const double near = from >= 0 ? lo : hi, least = from >= 0 ? from : -to;
  if (least == kInfinity || std::isnan(from) || std::isnan(to) ||
      below(std::nextafter(hi, kInfinity), DType::f32) < lo)
    refuse("truncated_normal", {beside}, at,
           str("mean ", number_text(mean), ", deviation ", number_text(deviation), ", bounds ",
               number_text(lo), " and ", number_text(hi), ": no number of f32 exists there"));
  InFunction line(beside, at);
  Tensor x;
  if (least >= 0) {
    const NormalTail tail(least, from >= 0 ? to : -from);
    Tensor rarer = -log1p(unit(beside, shape) * -tail.inside());
    x = past(tail.series(), rarer) * (from >= 0 ? deviation : -deviation) + near;
  } else {
    auto share = [&](double bound) { return std::erf((bound - mean) / (deviation * std::sqrt(2.0))); };
    Tensor y = unit(beside, shape) * (share(hi) - share(lo)) + share(lo);
    if (from < -5 || to > 5) y = clamp(y, -0x1.fffffep-1, 0x1.fffffep-1);  // whose inverse is finite
    x = erfinv(y) * (deviation * std::sqrt(2.0)) + mean;
  }
  const auto bound = [](double v) {
    const double held = static_cast<float>(v);
    return held == 0 || std::isinf(held) ? held : v;
  };
  return convert(clamp(x, bound(lo), bound(hi)), dtype);
}
Tensor bernoulli(Tensor p, Here at) {
  need_floats("bernoulli", {p}, at);
  need_shape("bernoulli", p, p.shape(), p.dtype(), at);
  InFunction line(p, at);
  return convert(unit(p, p.shape()) < convert(p, DType::f32), p.dtype());
}
Tensor bernoulli(Tensor beside, Shape shape, double p, DType dtype, Here at) {
  need_shape("bernoulli", beside, shape, dtype, at);
  if (!(p >= 0 && p <= 1))
    refuse("bernoulli", {beside}, at, str("p is ", p, ", needs a probability between 0 and 1"));
  InFunction line(beside, at);
  return convert(unit(beside, shape) < p, dtype);
}
Tensor randint(Tensor beside, Shape shape, int64_t lo, int64_t hi, DType dtype, Here at) {
  need_shape("randint", beside, shape, DType::f32, at);
  if (dtype != DType::i32 && dtype != DType::i64)
    refuse("randint", {beside}, at, str("dtype is ", name(dtype), ", needs i32 or i64"));
  const uint64_t count = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo);
  if (!(lo < hi) || count > uint64_t{1} << 32)
    refuse("randint", {beside}, at, str("from ", lo, " to ", hi, ": needs 1 to 2^32 numbers"));
  for (int64_t bound : {lo, hi - 1}) (void)held("randint", beside, bound, dtype, at);
  InFunction line(beside, at);
  Tensor wide = convert(draw(ops::rng_bits, beside, shape), DType::u64) * count;
  Tensor place = convert(bitwise_right_shift(wide, 32), DType::i64);
  return convert(place + lo, dtype);
}
Tensor random_bits(Tensor beside, Shape shape, Here at) {
  need_shape("random_bits", beside, shape, DType::f32, at);
  InFunction line(beside, at);
  return draw(ops::rng_bits, beside, shape);
}
Tensor rrelu(Tensor x, double lo, double hi, Here at) {
  need_floats("rrelu", {x}, at);
  need_shape("rrelu", x, x.shape(), x.dtype(), at);
  if (!(lo <= hi)) refuse("rrelu", {x}, at, str("bounds are ", lo, " and ", hi, "; the lower comes first"));
  InFunction line(x, at);
  Tensor v = rules::wide(x), slope = convert(unit(x, x.shape()) * (hi - lo) + lo, v.dtype());
  return convert(where(v >= 0, v, v * slope), x.dtype());
}
namespace {
// Gumbel noise -log(-log(u)), u uniform in (0, 1): the argmax of log-probabilities plus this noise is a
// sample from them.
Tensor gumbel(Tensor beside, const Shape& shape) {
  return -log(-log(clamp(unit(beside, shape), 0x1p-25, 1)));
}
// The numbers of a tensor that is computed only from constants; else empty.
std::vector<double> constants_of(const Graph& graph, ValueId v) {
  if (!graph[v].producer.valid()) return {};
  const Node& node = graph.producer(v);
  if (node.op == ops::full) return {number_of(node.attrs, "value", graph[v].dtype).real()};
  if (node.op != ops::concat && node.op != ops::reshape && node.op != ops::broadcast &&
      node.op != ops::permute && node.op != ops::convert)
    return {};
  std::vector<double> out;
  for (ValueId input : node.inputs) {
    const std::vector<double> part = constants_of(graph, input);
    if (part.empty()) return {};
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}
}  // namespace
Tensor multinomial(Tensor p, int64_t count, bool again, Here at) {
  need_floats("multinomial", {p}, at);
  need_shape("multinomial", p, p.shape(), p.dtype(), at);
  if (p.ndim() < 2 || count < 1 || (!again && count > p.size(-1)))
    refuse("multinomial", {p}, at,
           str(count, " of ", p.text(), ": needs [samples, ..., n], and 1 to n places, or `again`"));
  const std::vector<double> weights = constants_of(p.builder()->graph, p.id());
  for (const double weight : weights)
    if (!(weight >= 0 && std::isfinite(weight)))
      refuse("multinomial", {p}, at,
             str("a constant weight of ", p.text(), " is ", number_text(weight),
                 ", needs a finite number, 0 or more"));
  if (!weights.empty() && std::ranges::all_of(weights, [](double weight) { return weight == 0; }))
    refuse("multinomial", {p}, at,
           str("all weights of ", p.text(), " are the constant 0; one of a row at least is above 0"));
  InFunction line(p, at);
  Tensor v = convert(p, DType::f32), chances = log(where(v > 0, v, full_like(v, 0)));
  if (!again) return topk(chances + gumbel(p, p.shape()), count, -1).indices;
  Shape each = p.shape();
  each.insert(each.end() - 1, count);
  std::vector<int64_t> kept = counted(0, p.ndim() - 1);
  kept.push_back(p.ndim());
  return argmax(broadcast_dims(chances, each, kept) + gumbel(p, each), -1);
}
Tensor gumbel_softmax(Tensor x, double temperature, bool hard, int dim, Here at) {
  need_floats("gumbel_softmax", {x}, at);
  need_shape("gumbel_softmax", x, x.shape(), x.dtype(), at);
  const int d = static_cast<int>(dim_of("gumbel_softmax", x, dim, at));
  if (!(temperature > 0))
    refuse("gumbel_softmax", {x}, at, str("temperature is ", temperature, ", needs a positive number"));
  InFunction line(x, at);
  Tensor noise = gumbel(x, x.shape()), v = rules::wide(x);
  Tensor y = softmax((v + convert(noise, v.dtype())) * (1 / temperature), d);
  if (hard) {
    Tensor hit = equal(iota_like(y, d), max_with_index(y, d, true).indices);
    y = y + stop_gradient(convert(hit, y.dtype()) - y);
  }
  return convert(y, x.dtype());
}

}  // namespace lockstep
