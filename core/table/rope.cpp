// The op row of rotary positions: tables of cosines and sines over tokens or over given positions.
#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ops/rules.h"
#include "core/table/composites.h"

namespace lockstep {

namespace {
using namespace rules;

// The number of elements of a head that rotate: the first `dims`.
int64_t turning(const Attrs& attrs, int64_t head_dim) {
  return attrs.has("dims") ? attrs.integer("dims") : head_dim;
}
Types infer_rope(const InferContext& c) {
  const bool placed = c.attrs.flag("positions");
  expect_count(c, placed ? 2 : 1);
  expect_rank(c, 0, 4, "input");
  expect_float(c, 0);
  const Shape& x = c.in[0].shape;
  const int64_t dims = turning(c.attrs, x[3]);
  if (c.attrs.has("dims") && (dims < 2 || dims > x[3] || dims % 2 != 0))
    c.fail(
        str("dims is ", dims, ", needs an even number of 2 ... ", x[3], ", the head_dim of ", in_text(c, 0)));
  if (dims % 2 != 0)
    c.fail(str("input is ", in_text(c, 0), ": head_dim ", dims, " is odd, and pairs are rotated"));
  if (!(c.attrs.number("theta") > 0))
    c.fail(str("theta is ", c.attrs.number("theta"), ", needs a positive number"));
  (void)c.attrs.flag("inverse");
  if (c.attrs.has("factor") && !(c.attrs.number("factor") > 0))
    c.fail(str("factor is ", c.attrs.number("factor"), ", needs a positive number"));
  if (c.attrs.has("original")) {
    const double low = c.attrs.number("low"), high = c.attrs.number("high");
    if (c.attrs.integer("original") < 1)
      c.fail(str("original is ", c.attrs.integer("original"), ", needs 1 or more tokens"));
    if (!(low > 0 && low < high)) c.fail(str("low is ", low, " and high is ", high, "; need 0 < low < high"));
  }
  if (placed) {
    expect_dtype(c, 1, DType::i32, "positions");
    if (c.in[1].shape != Shape{x[1]} && c.in[1].shape != Shape{x[0], x[1]})
      c.fail(str("positions is ", in_text(c, 1), ", needs ", Shape{x[1]}, " or ", Shape{x[0], x[1]},
                 ", one for each token of ", in_text(c, 0)));
  }
  return {c.in[0]};
}
std::string split_rope(const InferContext& c) {
  if (c.in.size() < 2) return "bThD->bThD";
  return c.in[1].shape.size() == 1 ? "bThD,T->bThD" : "bThD,bT->bThD";
}
// Frequencies in f64. With `original`, those with wavelengths above original / low tokens are divided by the
// factor, those below original / high are not, and those between are interpolated.
Tensor frequencies(const Tensor& x, int64_t half, const Attrs& attrs) {
  Tensor index = iota(x, {half}, 0, DType::f64);
  Tensor f = exp(index * (-std::log(attrs.number("theta")) / static_cast<double>(half)));
  if (!attrs.has("factor")) return f;
  const double factor = attrs.number("factor");
  if (!attrs.has("original")) return f / factor;
  const double low = attrs.number("low"), high = attrs.number("high"),
               waves = static_cast<double>(attrs.integer("original")) / (2 * std::numbers::pi);
  Tensor kept = clamp((f * waves - low) / (high - low), 0, 1);
  return f * kept + (f / factor) * (1.0 - kept);
}
// Angles [T, half] or [B, T, half]: token, or its position, times frequency.
Tensor angles(const Tensor& x, const ExpandContext& c, int64_t half) {
  Tensor frequency = convert(frequencies(x, half, c.attrs), x.dtype());
  if (!c.attrs.flag("positions")) {
    Shape table{x.size(1), half};
    return iota(x, table, 0, x.dtype()) * broadcast_dims(frequency, table, {1});
  }
  Shape table = c.in[1].shape();
  const auto rank = static_cast<int64_t>(table.size());
  table.push_back(half);
  std::vector<int64_t> leading;
  for (int64_t d = 0; d < rank; ++d) leading.push_back(d);
  return broadcast_dims(convert(c.in[1], x.dtype()), table, leading) *
         broadcast_dims(frequency, table, {rank});
}
// Joins two tables or halves of heads along the last dim, as elements i and i + half, or as 2i and 2i + 1.
Tensor in_pairs(const Tensor& first, const Tensor& second, bool neighbours) {
  if (!neighbours) return concat({first, second}, -1);
  Shape both = first.shape();
  both.back() *= 2;
  return reshape(stack({first, second}, first.ndim()), both);
}
// Rotates pair i of a token by its angle: elements i and i + half, or 2i and 2i + 1. It computes whole heads,
// as x times cos plus each pair's partner times +-sin, so that one kernel reads and writes heads.
std::vector<Tensor> rope_expand(const ExpandContext& c) {
  Tensor x = wide(c.in[0]);
  const DType dtype = c.in[0].dtype();
  const int64_t dims = turning(c.attrs, x.size(3)), half = dims / 2;
  const bool neighbours = c.attrs.flag("interleaved"), inverse = c.attrs.flag("inverse");
  Tensor low = neighbours ? slice(x, 3, 0, dims, 2) : slice(x, 3, 0, half),
         high = neighbours ? slice(x, 3, 1, dims, 2) : slice(x, 3, half, dims),
         turning_part = dims == x.size(3) ? x : slice(x, 3, 0, dims);
  Tensor angle = angles(x, c, half), cosine = cos(angle), sine = sin(angle);
  const std::vector<int64_t> places =
      angle.ndim() == 2 ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{0, 1, 3};
  auto table = [&](const Tensor& first, const Tensor& second) {
    return broadcast_dims(in_pairs(first, second, neighbours), turning_part.shape(), places);
  };
  Tensor y =
      convert(turning_part * table(cosine, cosine) +
                  in_pairs(high, low, neighbours) * (inverse ? table(sine, -sine) : table(-sine, sine)),
              dtype);
  return {dims == x.size(3) ? y : concat({y, slice(c.in[0], 3, dims, x.size(3))}, 3)};
}
std::vector<Tensor> rope_vjp(const VjpContext& c) {
  Attrs attrs = c.attrs;
  attrs.set("inverse", !c.attrs.flag("inverse"));
  std::vector<Tensor> in = c.in, out(c.in.size());
  in[0] = c.grad[0];
  out[0] = apply1(ops::rope, in, attrs);
  return out;
}

Attrs turn(double theta, bool inverse) { return {{"theta", theta}, {"inverse", inverse}}; }
Sample more(Types in, std::vector<std::pair<std::string, Attr>> items, double theta = 100) {
  Attrs attrs = turn(theta, false);
  for (const auto& [name, value] : items) attrs.set(name, value);
  Sample out = floats(std::move(in), attrs);
  out.int_hi = 40;
  return out;
}
}  // namespace

std::vector<Op> rope_rows() {
  const TypedShape x = f32({2, 5, 3, 8});
  return {
      {.id = ops::rope,
       .kind = OpKind::composite,
       .attrs = {{"theta", AttrType::number},
                 {"inverse", AttrType::flag, true},
                 {"positions", AttrType::flag, true},
                 {"interleaved", AttrType::flag, true},
                 {"dims", AttrType::integer, true},
                 {"factor", AttrType::number, true},
                 {"low", AttrType::number, true},
                 {"high", AttrType::number, true},
                 {"original", AttrType::integer, true}},
       .infer = infer_rope,
       .split = split_rope,
       .vjp = rope_vjp,
       .expand = rope_expand,
       .linear = {0},
       .samples =
           {floats({f32({2, 5, 3, 4})}, turn(10000, false)), floats({f32({1, 17, 1, 6})}, turn(100, true)),
            floats({f32({3, 1, 2, 2})}, turn(10000, false)), more({x, i32({2, 5})}, {{"positions", true}}),
            more({x, i32({5})}, {{"positions", true}}), more({x}, {{"interleaved", true}}),
            more({x}, {{"dims", 6}}),
            more({x, i32({2, 5})}, {{"positions", true}, {"interleaved", true}, {"dims", 4}}),
            more({x}, {{"factor", 4.0}}),
            more({x, i32({2, 5})},
                 {{"positions", true}, {"factor", 8.0}, {"low", 1.0}, {"high", 4.0}, {"original", 64}})}},
  };
}

}  // namespace lockstep
