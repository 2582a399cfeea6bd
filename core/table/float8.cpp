// Op rows of float8 products: quantize, whole and in two halves, scaled_mm, and linear layers that expand
// into them.
#include "core/base/error.h"
#include "core/functions/delayed_float8.h"
#include "core/functions/functions.h"
#include "core/ops/precision.h"
#include "core/ops/rules.h"
#include "core/table/composites.h"

namespace lockstep {

namespace {
using namespace rules;
using Grads = std::vector<Tensor>;

int64_t rows_of(const Shape& shape) { return shape.back() == 0 ? 0 : numel(shape) / shape.back(); }
bool fits(int64_t size) { return size > 0 && size % kFloat8Multiple == 0; }
DType format(const InferContext& c, const char* name) {
  const DType dtype = c.attrs.dtype(name);
  if (!is_float8(dtype)) c.fail(str(name, " is ", lockstep::name(dtype), "; choose f8_e4m3 or f8_e5m2"));
  return dtype;
}
void expect_matrix(const InferContext& c, size_t i, std::string_view role) {
  const Shape& shape = c.in[i].shape;
  if (shape.empty()) c.fail(str(role, " is ", in_text(c, i), ", needs 1 or more dims"));
  if (!fits(shape.back()) || !fits(rows_of(shape)))
    c.fail(str(role, " is ", in_text(c, i), ", ", rows_of(shape), " rows of ", shape.back(),
               ": float8 products want multiples of ", kFloat8Multiple));
}

void expect_vector(const InferContext& c, size_t i, int64_t size, std::string_view role) {
  if (c.in[i] != TypedShape{DType::f32, {size}})
    c.fail(str(role, " are ", in_text(c, i), ", need f32[", size, "]"));
}

void expect_wide(const InferContext& c) {
  if (c.in[0].dtype != DType::f32 && c.in[0].dtype != DType::bf16)
    c.fail(str("input is ", in_text(c, 0), ", needs f32 or bf16"));
}

// Inputs: x, and the largest magnitude of all, or of each row and of each column.
Types infer_whole_quantize(const InferContext& c) {
  expect_count(c, 2, 3);
  expect_wide(c);
  expect_matrix(c, 0, "input");
  const int64_t rows = rows_of(c.in[0].shape), columns = c.in[0].shape.back();
  const DType dtype = format(c, "dtype");
  Types out{{dtype, c.in[0].shape}, {dtype, {columns, rows}}};
  if (c.in.size() == 2) {
    expect_scalar(c, 1, DType::f32, "the largest magnitude");
    out.push_back({DType::f32, {}});
  } else {
    expect_vector(c, 1, rows, "the largest magnitudes of rows");
    expect_vector(c, 2, columns, "the largest magnitudes of columns");
    out.insert(out.end(), {c.in[1], c.in[2]});
  }
  return out;
}

// For rows on several ranks quantize is split into two halves with the same bits. Each rank casts its rows by
// the largest magnitude of all; a rank that has gathered all rows transposes them. cast: x, the largest
// magnitude -> x in float8, of any number of rows.
Types infer_cast(const InferContext& c) {
  expect_count(c, 2);
  expect_wide(c);
  if (c.in[0].shape.empty() || !fits(c.in[0].shape.back()))
    c.fail(str("input is ", in_text(c, 0), ": rows in float8 have a multiple of ", kFloat8Multiple,
               " elements"));
  expect_scalar(c, 1, DType::f32, "the largest magnitude");
  return {{format(c, "dtype"), c.in[0].shape}};
}
// transpose: the cast tensor, the largest magnitude -> its transpose, the inverse of the scale.
Types infer_transpose(const InferContext& c) {
  expect_count(c, 2);
  expect_dtype(c, 0, format(c, "dtype"), "input");
  expect_matrix(c, 0, "input");
  expect_scalar(c, 1, DType::f32, "the largest magnitude");
  return {{c.in[0].dtype, {c.in[0].shape.back(), rows_of(c.in[0].shape)}}, {DType::f32, {}}};
}

Types infer_quantize(const InferContext& c) {
  if (!c.attrs.has("half")) return infer_whole_quantize(c);
  const std::string& half = c.attrs.word("half");
  if (half == "cast") return infer_cast(c);
  if (half == "transpose") return infer_transpose(c);
  c.fail(str("half is \"", half, "\"; known: \"cast\", \"transpose\""));
}

Types infer_scaled_mm(const InferContext& c) {
  expect_count(c, 4, 5);
  for (size_t i : {0, 1}) {
    if (!is_float8(c.in[i].dtype)) c.fail(str("input ", i, " is ", in_text(c, i), ", needs float8"));
    expect_matrix(c, i, i == 0 ? "the left side" : "the right side");
  }
  expect_rank(c, 1, 2, "the right side");
  const bool rowwise = !c.in[2].shape.empty();
  for (size_t i : {0, 1}) {
    if (rowwise)
      expect_vector(c, 2 + i, rows_of(c.in[i].shape), "the inverses of scales of rows");
    else
      expect_scalar(c, 2 + i, DType::f32, "the inverse of a scale");
  }
  if (c.in[0].shape.back() != c.in[1].shape[1])
    c.fail(str("inner dims differ: ", in_text(c, 0), " and ", in_text(c, 1)));
  if (c.in[0].dtype == DType::f8_e5m2 && c.in[1].dtype == DType::f8_e5m2)
    c.fail("both sides are f8_e5m2, and no device multiplies these");
  (void)c.attrs.flag("fast");
  if (c.in.size() == 5) {
    expect_dtype(c, 4, DType::bf16, "bias");
    if (c.in[4].shape != Shape{c.in[1].shape[0]})
      c.fail(str("bias is ", in_text(c, 4), ", needs [", c.in[1].shape[0], "]"));
  }
  Shape out = c.in[0].shape;
  out.back() = c.in[1].shape[0];
  return {{DType::bf16, out}};
}

// With delayed scaling, an amax history follows x, the weight and a bias. In the gradient it follows dy, x
// and the weight, and then 1 / count may follow, with the count that the loss was divided by. `shares`: the
// last input is the history of another layer that reads x, which gives x its scale.
bool is_delayed(const Attrs& attrs) { return attrs.flag("delayed"); }
size_t histories_of(const Attrs& attrs) { return is_delayed(attrs) ? 1 + attrs.flag("shares") : 0; }
bool has_bias(const Attrs& attrs, size_t inputs) { return inputs == 3 + histories_of(attrs); }
bool has_count(const Attrs& attrs, size_t inputs) { return inputs == 4 + histories_of(attrs); }
DType beside(DType x) { return x == DType::f64 ? DType::f64 : DType::f32; }
void expect_history(const InferContext& c, size_t i) {
  const TypedShape& history = c.in[i];
  if (history.dtype != beside(c.in[0].dtype) || history.shape.size() != 2 || history.shape[0] != kAmaxRows ||
      history.shape[1] < 1)
    c.fail(str("the history is ", in_text(c, i), ", needs f32[", kAmaxRows, ",steps]"));
}
Types infer_linear_float8(const InferContext& c) {
  const size_t histories = histories_of(c.attrs);
  if (histories > 0) {
    expect_count(c, 2 + histories, 3 + histories);
    for (size_t i = c.in.size() - histories; i < c.in.size(); ++i) expect_history(c, i);
    if (c.attrs.flag("rowwise")) c.fail("scales of rows have no history: rowwise or delayed, not both");
  } else if (c.attrs.flag("shares")) {
    c.fail("shares a history, and has none: it goes with delayed");
  }
  const std::vector<TypedShape> operands(c.in.begin(), c.in.end() - static_cast<ptrdiff_t>(histories));
  const Types out = op_row(ops::linear).infer({c.op, operands, c.attrs, c.at});
  if (c.in[0].dtype != DType::bf16 && c.in[0].dtype != DType::f64)
    c.fail(str("input is ", in_text(c, 0), ", needs bf16"));
  (void)format(c, "gradients");
  (void)c.attrs.flag("rowwise");
  expect_matrix(c, 0, "input");
  expect_matrix(c, 1, "weight");
  return out;
}
// dy, x, weight -> the gradients of x and of the weight.
Types infer_linear_float8_grad(const InferContext& c) {
  const size_t least = 3 + histories_of(c.attrs);
  expect_count(c, least, least + is_delayed(c.attrs));
  (void)c.attrs.flag("bias");
  if (has_count(c.attrs, c.in.size())) expect_scalar(c, 4, beside(c.in[0].dtype), "1 / count");
  std::vector<TypedShape> operands(c.in.begin() + 1, c.in.begin() + (is_delayed(c.attrs) ? 4 : 3));
  if (c.attrs.flag("shares")) operands.push_back(c.in.back());
  const Types y = infer_linear_float8({c.op, operands, c.attrs, c.at});
  if (c.in[0] != y[0]) c.fail(str("the gradient is ", in_text(c, 0), ", needs ", text(y[0])));
  return {c.in[1], c.in[2]};
}

Grads linear_float8_vjp(const VjpContext& c) {
  Tensor x = c.in[0], w = c.in[1], dy = c.grad[0];
  Grads out(c.in.size());
  const bool bias = has_bias(c.attrs, c.in.size());
  if (c.wants[0] || c.wants[1]) {
    Attrs attrs{{"gradients", c.attrs.dtype("gradients")}, {"bias", bias}};
    for (const char* recipe : {"rowwise", "delayed", "shares"})
      if (c.attrs.flag(recipe)) attrs.set(recipe, true);
    Grads operands{dy, x, w};
    for (size_t i = c.in.size() - histories_of(c.attrs); i < c.in.size(); ++i) operands.push_back(c.in[i]);
    const Grads both = apply(ops::linear_float8_grad, operands, attrs);
    for (size_t i : {0, 1})
      if (c.wants[i]) out[i] = both[i];
  }
  std::vector<int64_t> leading = free_dims(x.shape().size(), {x.ndim() - 1});
  if (bias && c.wants[2]) out[2] = convert(sum(wide(dy), leading), dy.dtype());
  return out;
}
// Second gradients are those of unrounded products.
Grads linear_float8_grad_vjp(const VjpContext& c) {
  Tensor dy = c.in[0], x = c.in[1], w = c.in[2], of_x = c.grad[0], of_w = c.grad[1];
  Grads out(c.in.size());
  auto of_product = [&](Tensor left, Tensor right, size_t i) {
    return op_row(ops::linear).vjp({{left, right}, {dy}, {dy}, {i == 0, i == 1}, {}})[i];
  };
  if (of_x.defined() && c.wants[0]) out[0] = linear(of_x, w);
  if (of_w.defined() && c.wants[0]) out[0] = out[0].defined() ? out[0] + linear(x, of_w) : linear(x, of_w);
  if (of_w.defined() && c.wants[1]) out[1] = of_product(x, of_w, 0);
  if (of_x.defined() && c.wants[2]) out[2] = of_product(of_x, w, 1);
  return out;
}

double largest_of(DType dtype) { return dtype == DType::f8_e4m3 ? f8_e4m3::kMost : f8_e5m2::kMost; }
Tensor most_of_entries(Tensor entries, DType dtype, Tensor at_first) {
  const Tensor first =
      at_first.defined() ? at_first * largest_of(dtype) : full_like(entries, largest_of(dtype));
  return where(entries > 0.0, entries, first);
}
// The largest magnitude in a row of a history, which determines the scale. `at_first`, f32 [], replaces it if
// the row has no entry; without `at_first` the scale is then 1.
Tensor most_of(Tensor history, AmaxRow row, DType dtype, Tensor at_first = {}) {
  return most_of_entries(reshape(slice(max(history, {1}), 0, row, row + 1), {}), dtype, at_first);
}
std::vector<Tensor> linear_float8_expand(const ExpandContext& c) {
  Tensor x = c.in[0], bias = has_bias(c.attrs, c.in.size()) ? c.in[2] : Tensor();
  if (x.dtype() == DType::f64) return {linear(x, c.in[1], bias)};
  auto rounded = [&](Tensor of, AmaxRow row) {
    if (is_delayed(c.attrs)) {
      const Tensor history = row == kAmaxOfInput ? c.in.back() : c.in[c.in.size() - histories_of(c.attrs)];
      return quantize_by(of, most_of(history, row, DType::f8_e4m3), DType::f8_e4m3, false,
                         row != kAmaxOfWeight);
    }
    return c.attrs.flag("rowwise") ? quantize_rowwise(of, DType::f8_e4m3) : quantize(of, DType::f8_e4m3);
  };
  const Quantized a = rounded(x, kAmaxOfInput), b = rounded(c.in[1], kAmaxOfWeight);
  return {scaled_mm(a.rows, b.rows, a.inverse, b.inverse, bias, true)};
}
std::vector<Tensor> linear_float8_grad_expand(const ExpandContext& c) {
  Tensor dy = c.in[0], x = c.in[1], w = c.in[2];
  if (x.dtype() == DType::f64) return op_row(ops::linear).vjp({{x, w}, {dy}, {dy}, {true, true}, {}});
  auto rounded = [&](Tensor of, AmaxRow row, DType dtype, bool columns = false) {
    if (is_delayed(c.attrs)) {
      const bool knows_count = row == kAmaxOfGradient && has_count(c.attrs, c.in.size());
      const Tensor history = row == kAmaxOfInput && c.attrs.flag("shares") ? c.in.back() : c.in[3];
      return quantize_by(of, most_of(history, row, dtype, knows_count ? c.in[4] : Tensor()), dtype, columns,
                         row != kAmaxOfWeight);
    }
    return c.attrs.flag("rowwise") ? quantize_rowwise(of, dtype) : quantize(of, dtype, columns);
  };
  // The gradient of the bias sums dy by columns.
  const Quantized d = rounded(dy, kAmaxOfGradient, c.attrs.dtype("gradients"), c.attrs.flag("bias")),
                  a = rounded(x, kAmaxOfInput, DType::f8_e4m3), b = rounded(w, kAmaxOfWeight, DType::f8_e4m3);
  return {scaled_mm(d.rows, b.turned, d.inverse, b.inverse_turned),
          scaled_mm(d.turned, a.turned, d.inverse_turned, a.inverse_turned)};
}

constexpr double kLeastMost = 1e-12;  // lower bound of a largest magnitude, as in quantize

TypedShape of(DType dtype, Shape shape) { return {dtype, std::move(shape)}; }
}  // namespace

std::vector<Op> float8_rows() {
  constexpr DType bf = DType::bf16, e4 = DType::f8_e4m3, e5 = DType::f8_e5m2;
  const std::string cast = "cast", transpose = "transpose";
  return {
      {.id = ops::quantize,
       .kind = OpKind::contract,
       .attrs = {{"dtype", AttrType::dtype}, {"half", AttrType::word, true}},
       .infer = infer_quantize,
       .split = unsplit,
       .samples = {floats({f32({2, 16, 32}), f32({})}, {{"dtype", e4}}, 0.5, 3),
                   floats({of(bf, {48, 16}), f32({})}, {{"dtype", e5}}, 0.5, 3),
                   floats({of(bf, {3, 16, 32}), f32({48}), f32({32})}, {{"dtype", e4}}, 0.5, 3),
                   floats({f32({3, 32}), f32({})}, {{"dtype", e4}, {"half", cast}}, 0.5, 3),
                   floats({of(bf, {2, 5, 16}), f32({})}, {{"dtype", e5}, {"half", cast}}, 0.5, 3),
                   floats({of(e4, {48, 32}), f32({})}, {{"dtype", e4}, {"half", transpose}}, 0.5, 3),
                   floats({of(e5, {2, 16, 16}), f32({})}, {{"dtype", e5}, {"half", transpose}}, 0.5, 3)},
       .library = Library::float8},
      {.id = ops::scaled_mm,
       .kind = OpKind::contract,
       .attrs = {{"fast", AttrType::flag}},
       .infer = infer_scaled_mm,
       .split = unsplit,
       .samples = {floats({of(e4, {2, 8, 32}), of(e4, {48, 32}), f32({}), f32({}), of(bf, {48})},
                          {{"fast", true}}),
                   floats({of(e5, {16, 16}), of(e4, {32, 16}), f32({}), f32({})}, {{"fast", false}}),
                   floats({of(e4, {2, 8, 32}), of(e4, {48, 32}), f32({16}), f32({48}), of(bf, {48})},
                          {{"fast", false}})},
       .library = Library::float8},
  };
}

std::vector<Op> float8_linear_rows() {
  constexpr DType bf = DType::bf16, e4 = DType::f8_e4m3, e5 = DType::f8_e5m2;
  const TypedShape x = of(bf, {2, 16, 32}), w = of(bf, {48, 32}), bias = of(bf, {48}),
                   dy = of(bf, {2, 16, 48}), x2 = of(bf, {16, 16}), w2 = of(bf, {32, 16}),
                   dy2 = of(bf, {16, 32});
  const AttrField gradients{"gradients", AttrType::dtype}, rowwise{"rowwise", AttrType::flag, true},
      delayed{"delayed", AttrType::flag, true}, shares{"shares", AttrType::flag, true};
  return {
      {.id = ops::linear_float8,
       .kind = OpKind::composite,
       .attrs = {gradients, rowwise, delayed, shares},
       .infer = infer_linear_float8,
       .split = unsplit,
       .vjp = linear_float8_vjp,
       .expand = linear_float8_expand,
       .samples = {floats({x, w, bias}, {{"gradients", e5}}), floats({x2, w2}, {{"gradients", e4}}),
                   floats({x, w, bias}, {{"gradients", e4}, {"rowwise", true}}),
                   floats({x, w, bias, f32({3, 4})}, {{"gradients", e5}, {"delayed", true}}),
                   floats({x2, w2, f32({3, 1})}, {{"gradients", e4}, {"delayed", true}}, 0.0, 0.0),
                   floats({of(bf, {16, 32}), w, bias, f32({3, 2}), f32({3, 2})},
                          {{"gradients", e5}, {"delayed", true}, {"shares", true}})}},
      {.id = ops::linear_float8_grad,
       .kind = OpKind::composite,
       .attrs = {gradients, {"bias", AttrType::flag}, rowwise, delayed, shares},
       .infer = infer_linear_float8_grad,
       .split = unsplit,
       .vjp = linear_float8_grad_vjp,
       .expand = linear_float8_grad_expand,
       .samples = {floats({dy, x, w}, {{"gradients", e5}, {"bias", true}}),
                   floats({dy2, x2, w2}, {{"gradients", e4}, {"bias", false}}),
                   floats({dy, x, w}, {{"gradients", e5}, {"bias", true}, {"rowwise", true}}),
                   floats({dy, x, w, f32({3, 4})}, {{"gradients", e5}, {"bias", true}, {"delayed", true}}),
                   floats({dy2, x2, w2, f32({3, 2}), f32({})},
                          {{"gradients", e5}, {"bias", false}, {"delayed", true}}),
                   floats({dy2, x2, w2, f32({3, 2}), f32({3, 2})},
                          {{"gradients", e4}, {"bias", true}, {"delayed", true}, {"shares", true}}),
                   floats({dy2, x2, w2, f32({3, 2}), f32({}), f32({3, 2})},
                          {{"gradients", e5}, {"bias", false}, {"delayed", true}, {"shares", true}})}},
  };
}

bool fits_float8(const Shape& x, const Shape& weight) {
  return !x.empty() && fits(rows_of(x)) && fits(weight[0]) && fits(weight[1]);
}
// Reduces rows or columns first, so that the kernel that makes or sums the tensor in this direction can
// compute these maxima, too.
Tensor amax(Tensor x, bool columns, Here at) {
  Tensor most = abs(convert(x, DType::f32, at), at);
  if (numel(x.shape()) == 0) return zeros(x, {}, DType::f32, at);
  const std::vector<int64_t> last{x.ndim() - 1};
  if (x.ndim() > 1) most = max(most, columns ? free_dims(x.shape().size(), last) : last, false, at);
  return max(most, free_dims(most.shape().size(), {}), false, at);
}
Tensor amax_of_rows(Tensor x, Here at) {
  const Tensor most = max(abs(convert(x, DType::f32, at), at), {x.ndim() - 1}, false, at);
  return reshape(most, {numel(most.shape())}, at);
}
Tensor amax_of_columns(Tensor x, Here at) {
  return max(abs(convert(x, DType::f32, at), at), free_dims(x.shape().size(), {x.ndim() - 1}), false, at);
}
Quantized quantize(Tensor x, DType dtype, bool columns, Here at) {
  const std::vector<Tensor> made = apply(ops::quantize, {x, amax(x, columns, at)}, {{"dtype", dtype}}, at);
  return {made[0], made[1], made[2], made[2]};
}
namespace {
Tensor scale_of(Tensor most, DType dtype, Here at) {
  const Tensor least = full_like(most, kLeastMost, at);
  return full_like(most, largest_of(dtype), at) / where(less(most, least, at), least, most, at);
}
}  // namespace
Tensor rounded_by_scale(Tensor x, Tensor scale, DType dtype, Here at) {
  return apply1(ops::convert, {convert(x, DType::f32, at) * broadcast_to(scale, x.shape(), at)},
                {{"dtype", dtype}}, at);
}
Tensor delayed_scales(const std::vector<Tensor>& histories, AmaxRow row, DType dtype, Here at) {
  const auto rows = static_cast<int64_t>(histories.size()) * kAmaxRows;
  const Tensor entries = slice(max(concat(histories, 0, at), {1}, false, at), 0, row, rows, kAmaxRows, at);
  return scale_of(most_of_entries(entries, dtype, {}), dtype, at);
}
// The inverse of the scale depends on the tensor only through NaN and infinity: the cast saturates them, so
// the inverse must show them.
Quantized quantize_by(Tensor x, Tensor most, DType dtype, bool columns, bool where_made, Here at) {
  Quantized out;
  Attrs attrs{{"dtype", dtype}};
  if (where_made) {
    out.rows = rounded_by_scale(x, scale_of(most, dtype, at), dtype, at);
    attrs.set("half", std::string("transpose"));
  }
  const std::vector<Tensor> made = apply(ops::quantize, {where_made ? out.rows : x, most}, attrs, at);
  if (!where_made) out.rows = made[0];
  out.turned = made[made.size() - 2];
  out.inverse = out.inverse_turned = made.back() + amax(x, columns, at) * 0.0;
  return out;
}
Quantized quantize_rowwise(Tensor x, DType dtype, Here at) {
  const std::vector<Tensor> made =
      apply(ops::quantize, {x, amax_of_rows(x, at), amax_of_columns(x, at)}, {{"dtype", dtype}}, at);
  return {made[0], made[1], made[2], made[3]};
}
Tensor scaled_mm(Tensor a, Tensor b, Tensor inverse_a, Tensor inverse_b, Tensor bias, bool fast, Here at) {
  std::vector<Tensor> in{a, b, inverse_a, inverse_b};
  if (bias.defined()) in.push_back(bias);
  return apply1(ops::scaled_mm, in, {{"fast", fast}}, at);
}
Tensor linear_float8(Tensor x, Tensor weight, Tensor bias, DType gradients, bool rowwise, Here at) {
  std::vector<Tensor> in{x, weight};
  if (bias.defined()) in.push_back(bias);
  Attrs attrs{{"gradients", gradients}};
  if (rowwise) attrs.set("rowwise", true);
  return apply1(ops::linear_float8, in, attrs, at);
}

Tensor delayed_linear_float8(Tensor x, Tensor weight, Tensor history, Tensor bias, DType gradients, Here at) {
  std::vector<Tensor> in{x, weight};
  if (bias.defined()) in.push_back(bias);
  const SourceLine line = x.defined() ? source_line(*x.builder(), at) : line_of(at);
  in = under_policy("linear_float8", in, line);
  in.push_back(history);  // a policy does not convert it
  return apply_at(ops::linear_float8, in, {{"gradients", gradients}, {"delayed", true}}, line)[0];
}

}  // namespace lockstep
