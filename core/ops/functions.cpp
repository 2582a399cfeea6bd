// The functions a model is written with: they fill in defaults, broadcast, and append nodes.
#include "core/ops/functions.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/ops/rules.h"

namespace lockstep {

namespace {
[[noreturn]] void refuse(std::string_view op, const std::vector<Tensor>& inputs, Here at,
                         const std::string& what) {
  SourceLine line = !inputs.empty() && inputs[0].defined()
                        ? source_line(*inputs[0].builder(), at)
                        : SourceLine{at.file_name(), static_cast<int>(at.line()), ""};
  throw UserError(str("[", op, "] ", line.text(), ": ", what));
}
void need(std::string_view op, const std::vector<Tensor>& inputs, Here at) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].defined()) refuse(op, inputs, at, str("input ", i, " is an empty Tensor"));
}
int64_t dim_of(std::string_view op, const Tensor& x, int64_t dim, Here at) {
  int64_t rank = x.ndim();
  if (dim < -rank || dim >= rank) refuse(op, {x}, at, str("dim ", dim, " is not a dim of ", x.text()));
  return dim < 0 ? dim + rank : dim;
}

// NumPy's broadcast shape; false when the shapes do not broadcast.
bool broadcast_shape(const Shape& a, const Shape& b, Shape& out) {
  size_t rank = std::max(a.size(), b.size());
  out.assign(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    int64_t x = i + a.size() < rank ? 1 : a[i + a.size() - rank],
            y = i + b.size() < rank ? 1 : b[i + b.size() - rank];
    if (x != y && x != 1 && y != 1) return false;
    out[i] = x == 1 ? y : x;
  }
  return true;
}

// A pointwise node on inputs broadcast to one shape.
Tensor binary(OpId op, Tensor a, Tensor b, Here at) {
  if (!a.defined() || !b.defined()) return apply1(op, {a, b}, {}, at);
  std::vector<TypedShape> in{{a.dtype(), a.shape()}, {b.dtype(), b.shape()}};
  SourceLine line = source_line(*a.builder(), at);
  InferContext context{op, in, {}, line};
  Shape shape;
  if (!broadcast_shape(a.shape(), b.shape(), shape))
    context.fail(str("shapes do not broadcast: lhs ", a.text(), ", rhs ", b.text(),
                     "; dims are matched from the last, and must be equal or 1"));
  if (a.dtype() != b.dtype())
    context.fail(str("dtypes differ: lhs ", a.text(), ", rhs ", b.text(), "; convert one side?"));
  return apply1(op, {broadcast_to(a, shape, at), broadcast_to(b, shape, at)}, {}, at);
}

Tensor reduce(OpId op, Tensor x, std::vector<int64_t> dims, bool keep, Here at) {
  need(op.name(), {x}, at);
  if (dims.empty()) return x;
  for (int64_t& dim : dims) dim = dim_of(op.name(), x, dim, at);
  std::sort(dims.begin(), dims.end());
  Tensor out = apply1(op, {x}, {{"dims", dims}}, at);
  if (!keep) return out;
  Shape shape = x.shape();
  for (int64_t dim : dims) shape[dim] = 1;
  return reshape(out, shape, at);
}
}  // namespace

Tensor operator+(TensorAt a, Tensor b) { return binary(ops::add, a.tensor, b, a.at); }
Tensor operator-(TensorAt a, Tensor b) { return binary(ops::sub, a.tensor, b, a.at); }
Tensor operator*(TensorAt a, Tensor b) { return binary(ops::mul, a.tensor, b, a.at); }
Tensor operator/(TensorAt a, Tensor b) { return binary(ops::div, a.tensor, b, a.at); }
Tensor operator-(TensorAt a) { return apply1(ops::neg, {a.tensor}, {}, a.at); }
Tensor operator+(TensorAt a, double b) {
  return binary(ops::add, a.tensor, full_like(a.tensor, b, a.at), a.at);
}
Tensor operator-(TensorAt a, double b) {
  return binary(ops::sub, a.tensor, full_like(a.tensor, b, a.at), a.at);
}
Tensor operator*(TensorAt a, double b) {
  return binary(ops::mul, a.tensor, full_like(a.tensor, b, a.at), a.at);
}
Tensor operator/(TensorAt a, double b) {
  return binary(ops::div, a.tensor, full_like(a.tensor, b, a.at), a.at);
}
Tensor operator+(double a, TensorAt b) {
  return binary(ops::add, full_like(b.tensor, a, b.at), b.tensor, b.at);
}
Tensor operator-(double a, TensorAt b) {
  return binary(ops::sub, full_like(b.tensor, a, b.at), b.tensor, b.at);
}
Tensor operator*(double a, TensorAt b) {
  return binary(ops::mul, full_like(b.tensor, a, b.at), b.tensor, b.at);
}
Tensor operator/(double a, TensorAt b) {
  return binary(ops::div, full_like(b.tensor, a, b.at), b.tensor, b.at);
}

Tensor pow(Tensor x, double exponent, Here at) {
  need("pow", {x}, at);
  if (exponent == 1) return x;
  if (exponent == 2) return apply1(ops::mul, {x, x}, {}, at);
  return apply1(ops::pow, {x, full_like(x, exponent, at)}, {}, at);
}
Tensor maximum(Tensor a, Tensor b, Here at) { return binary(ops::maximum, a, b, at); }
Tensor minimum(Tensor a, Tensor b, Here at) { return binary(ops::minimum, a, b, at); }
Tensor equal(Tensor a, Tensor b, Here at) { return binary(ops::eq, a, b, at); }
Tensor not_equal(Tensor a, Tensor b, Here at) { return binary(ops::ne, a, b, at); }
Tensor less(Tensor a, Tensor b, Here at) { return binary(ops::lt, a, b, at); }
Tensor less_equal(Tensor a, Tensor b, Here at) { return binary(ops::le, a, b, at); }
Tensor where(Tensor condition, Tensor a, Tensor b, Here at) {
  need("where", {condition, a, b}, at);
  Shape values, shape;
  if (!broadcast_shape(a.shape(), b.shape(), values) || !broadcast_shape(condition.shape(), values, shape))
    refuse("where", {condition}, at,
           str("shapes do not broadcast: condition ", condition.text(), ", ", a.text(), ", ", b.text()));
  return apply1(ops::where,
                {broadcast_to(condition, shape, at), broadcast_to(a, shape, at), broadcast_to(b, shape, at)},
                {}, at);
}
Tensor clamp(Tensor x, double lo, double hi, Here at) {
  return apply1(ops::clamp, {x}, {{"lo", lo}, {"hi", hi}}, at);
}
Tensor convert(Tensor x, DType dtype, Here at) {
  need("convert", {x}, at);
  return x.dtype() == dtype ? x : apply1(ops::convert, {x}, {{"dtype", dtype}}, at);
}
Tensor relu(Tensor x, Here at) {
  need("relu", {x}, at);
  return apply1(ops::maximum, {x, full_like(x, 0, at)}, {}, at);
}
Tensor gelu(Tensor x, Here at) { return apply1(ops::gelu, {x}, {{"form", "tanh"}}, at); }
Tensor gelu_erf(Tensor x, Here at) { return apply1(ops::gelu, {x}, {{"form", "erf"}}, at); }

Tensor full_like(Tensor like, double value, Here at) {
  need("full", {like}, at);
  return full(like, like.shape(), value, like.dtype(), at);
}
Tensor full(Tensor beside, Shape shape, double value, DType dtype, Here at) {
  need("full", {beside}, at);
  return apply1(ops::full, {}, {{"shape", shape}, {"value", value}, {"dtype", dtype}}, at, beside.builder());
}
Tensor iota(Tensor beside, Shape shape, int dim, DType dtype, Here at) {
  need("iota", {beside}, at);
  int64_t along = dim < 0 ? dim + static_cast<int64_t>(shape.size()) : dim;
  return apply1(ops::iota, {}, {{"shape", shape}, {"dim", along}, {"dtype", dtype}}, at, beside.builder());
}
Tensor iota_like(Tensor like, int dim, Here at) {
  need("iota", {like}, at);
  return iota(like, like.shape(), dim, DType::i32, at);
}
Tensor scalar(Tensor beside, const std::string& name, DType dtype) {
  return {beside.builder(), beside.builder()->scalar_input(name, dtype)};
}

Tensor sum(Tensor x, std::vector<int64_t> dims, bool keep, Here at) {
  return reduce(ops::sum, x, std::move(dims), keep, at);
}
Tensor max(Tensor x, std::vector<int64_t> dims, bool keep, Here at) {
  return reduce(ops::max, x, std::move(dims), keep, at);
}
Tensor min(Tensor x, std::vector<int64_t> dims, bool keep, Here at) {
  return reduce(ops::min, x, std::move(dims), keep, at);
}
Tensor mean(Tensor x, std::vector<int64_t> dims, bool keep, Here at) {
  need("mean", {x}, at);
  if (!is_float(x.dtype()))
    refuse("mean", {x}, at, str("input 0 is ", x.text(), ", needs floats; convert it?"));
  int64_t count = 1;
  for (int64_t dim : dims) count *= x.shape()[dim_of("mean", x, dim, at)];
  Tensor total = sum(convert(x, rules::statistic(x.dtype()), at), std::move(dims), keep, at);
  return convert(apply1(ops::div, {total, full_like(total, static_cast<double>(count), at)}, {}, at),
                 x.dtype(), at);
}

Tensor reshape(Tensor x, Shape shape, Here at) {
  need("reshape", {x}, at);
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != -1)
      known *= shape[i];
    else if (open < 0)
      open = static_cast<int64_t>(i);
    else
      refuse("reshape", {x}, at, str(x.text(), " to ", shape, ": only one size may be -1"));
  }
  if (open >= 0) {
    if (known == 0 || numel(x.shape()) % known != 0)
      refuse("reshape", {x}, at,
             str(x.text(), " to ", shape, ": ", numel(x.shape()), " elements do not divide by ", known));
    shape[open] = numel(x.shape()) / known;
  }
  return shape == x.shape() ? x : apply1(ops::reshape, {x}, {{"shape", shape}}, at);
}
Tensor permute(Tensor x, std::vector<int64_t> order, Here at) {
  need("permute", {x}, at);
  for (int64_t& dim : order) dim = dim_of("permute", x, dim, at);
  std::vector<int64_t> same(x.ndim());
  std::iota(same.begin(), same.end(), int64_t{0});
  return order == same ? x : apply1(ops::permute, {x}, {{"order", order}}, at);
}
Tensor transpose(Tensor x, int a, int b, Here at) {
  need("transpose", {x}, at);
  std::vector<int64_t> order(x.ndim());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::swap(order[dim_of("transpose", x, a, at)], order[dim_of("transpose", x, b, at)]);
  return permute(x, order, at);
}
Tensor broadcast_to(Tensor x, Shape shape, Here at) {
  need("broadcast", {x}, at);
  if (x.shape() == shape) return x;
  Shape common;
  if (!broadcast_shape(x.shape(), shape, common) || common != shape)
    refuse("broadcast", {x}, at,
           str(x.text(), " does not broadcast to ", shape,
               "; dims are matched from the last, and must be equal or 1"));
  std::vector<int64_t> dims(x.shape().size());
  std::iota(dims.begin(), dims.end(), static_cast<int64_t>(shape.size() - dims.size()));
  return broadcast_dims(x, shape, dims, at);
}
Tensor broadcast_dims(Tensor x, Shape shape, std::vector<int64_t> dims, Here at) {
  need("broadcast", {x}, at);
  return x.shape() == shape ? x : apply1(ops::broadcast, {x}, {{"shape", shape}, {"dims", dims}}, at);
}
Tensor slice(Tensor x, int dim, int64_t start, int64_t limit, Here at) {
  need("slice", {x}, at);
  size_t d = dim_of("slice", x, dim, at);
  if (start == 0 && limit == x.shape()[d]) return x;
  std::vector<int64_t> starts(x.shape().size(), 0), limits = x.shape(), steps(x.shape().size(), 1);
  starts[d] = start;
  limits[d] = limit;
  return apply1(ops::slice, {x}, {{"start", starts}, {"limit", limits}, {"step", steps}}, at);
}
Tensor pad(Tensor x, std::vector<int64_t> lo, std::vector<int64_t> hi, double value, Here at) {
  return apply1(ops::pad, {x}, {{"lo", lo}, {"hi", hi}, {"value", value}}, at);
}
Tensor concat(std::vector<Tensor> xs, int dim, Here at) {
  if (xs.empty()) refuse("concat", {}, at, "takes 1 or more inputs, got 0");
  need("concat", xs, at);
  if (xs.size() == 1) return xs[0];
  return apply1(ops::concat, xs, {{"dim", dim_of("concat", xs[0], dim, at)}}, at);
}
std::vector<Tensor> split(Tensor x, int dim, std::vector<int64_t> sizes, Here at) {
  need("split", {x}, at);
  int64_t d = dim_of("split", x, dim, at), total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (total != x.shape()[d])
    refuse("split", {x}, at,
           str("sizes ", sizes, " add up to ", total, ", dim ", d, " of ", x.text(), " has ", x.shape()[d]));
  std::vector<Tensor> out;
  int64_t start = 0;
  for (int64_t size : sizes) {
    out.push_back(slice(x, static_cast<int>(d), start, start + size, at));
    start += size;
  }
  return out;
}

Tensor take(Tensor table, Tensor ids, Here at) { return apply1(ops::take, {table, ids}, {}, at); }
Tensor embedding(Tensor table, Tensor ids, Here at) { return apply1(ops::embedding, {table, ids}, {}, at); }

Tensor matmul(Tensor a, Tensor b, Here at) {
  need("matmul", {a, b}, at);
  auto types = [&] { return str("lhs ", a.text(), ", rhs ", b.text()); };
  if (a.ndim() < 2 || b.ndim() < 2) refuse("matmul", {a}, at, str(types(), ": both need 2 or more dims"));
  if (a.dtype() != b.dtype())
    refuse("matmul", {a}, at, str("dtypes differ: ", types(), "; convert one side?"));
  if (a.size(-1) != b.size(-2))
    refuse("matmul", {a}, at,
           str("inner dims differ: lhs ", a.text(), " has ", a.size(-1), ", rhs ", b.text(), " has ",
               b.size(-2), "; transpose one side?"));
  int rank = a.ndim();
  Shape lhs = a.shape(), rhs = b.shape();
  if (b.ndim() != rank || !std::equal(lhs.begin(), lhs.end() - 2, rhs.begin()))
    refuse("matmul", {a}, at,
           str("leading dims differ: ", types(), "; broadcast one side, or reshape the other to 2 dims?"));
  std::vector<int64_t> batch(rank - 2);
  std::iota(batch.begin(), batch.end(), int64_t{0});
  return apply1(ops::dot, {a, b},
                {{"lhs_batch", batch},
                 {"rhs_batch", batch},
                 {"lhs_contract", std::vector<int64_t>{rank - 1}},
                 {"rhs_contract", std::vector<int64_t>{rank - 2}}},
                at);
}
Tensor linear(Tensor x, Tensor weight, Tensor bias, Here at) {
  return apply1(ops::linear,
                bias.defined() ? std::vector<Tensor>{x, weight, bias} : std::vector<Tensor>{x, weight}, {},
                at);
}
Tensor sdpa(Tensor q, Tensor k, Tensor v, bool causal, Here at) {
  need("sdpa", {q, k, v}, at);
  double head_dim = q.ndim() == 4 ? static_cast<double>(q.size(-1)) : 1;
  return apply(ops::sdpa, {q, k, v}, {{"causal", causal}, {"scale", 1 / std::sqrt(head_dim)}}, at)[0];
}
Tensor rope(Tensor x, double theta, Here at) {
  return apply1(ops::rope, {x}, {{"theta", theta}, {"inverse", false}}, at);
}

Tensor layer_norm(Tensor x, Tensor weight, Tensor bias, double eps, Here at) {
  return apply(ops::layer_norm, {x, weight, bias}, {{"eps", eps}}, at)[0];
}
Tensor rms_norm(Tensor x, Tensor weight, double eps, Here at) {
  return apply(ops::rms_norm, {x, weight}, {{"eps", eps}}, at)[0];
}
Tensor dropout(Tensor x, double p, Here at) {
  need("dropout", {x}, at);
  if (p == 0) return x;
  auto builder = x.builder();
  int64_t made = 0;  // dropouts of this graph so far: the same trace gives the same streams
  for (const Node& node : builder->graph.nodes) made += node.op == ops::dropout;
  auto stream = static_cast<int64_t>(hash64(str(builder->scope, "/dropout.", made)));
  return apply1(ops::dropout,
                {x, scalar(x, "rng.seed", DType::i64), scalar(x, "rng.step", DType::i64),
                 scalar(x, "rng.sample", DType::i64)},
                {{"p", p}, {"stream", stream}}, at);
}

Loss cross_entropy(Tensor logits, Tensor targets, Here at) {
  auto out = apply(ops::cross_entropy, {logits, targets}, {{"ignore_index", kIgnoreIndex}}, at);
  return {out[0], out[1]};
}

}  // namespace lockstep
