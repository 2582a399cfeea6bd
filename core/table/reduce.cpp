// Reduce rows: over attrs.dims, which are dropped. The dtype stays; bf16 and f16 accumulate in f32 and round
// once.
#include <algorithm>

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ops/rules.h"

namespace lockstep {

namespace {
using namespace rules;
using Grads = std::vector<Tensor>;

Shape reduced(const InferContext& c, const std::vector<int64_t>& dims) {
  Shape shape;
  for (int64_t d : free_dims(c.in[0].shape.size(), dims)) shape.push_back(c.in[0].shape[d]);
  return shape;
}
auto infer_reduce(bool takes_bool) {
  return [=](const InferContext& c) -> Types {
    expect_count(c, 1);
    if (!takes_bool && c.in[0].dtype == DType::boolean)
      c.fail(str("input 0 is ", in_text(c, 0), ", needs numbers; convert it to i64?"));
    auto dims = checked_dims(c, c.attrs.list("dims"), c.in[0].shape.size(), "dims");
    for (size_t i = 1; i < dims.size(); ++i)
      if (dims[i] < dims[i - 1]) c.fail(str("dims ", dims, " are not in ascending order"));
    if (takes_bool)
      for (int64_t d : dims)
        if (c.in[0].shape[d] == 0)
          c.fail(str("dim ", d, " of ", in_text(c, 0),
                     " is empty, and nothing has no largest or smallest element"));
    return {{c.in[0].dtype, reduced(c, dims)}};
  };
}
Types infer_arg(const InferContext& c) {
  expect_count(c, 1);
  if (c.in[0].dtype == DType::boolean) c.fail(str("input 0 is ", in_text(c, 0), ", needs numbers"));
  auto dims = checked_dims(c, {c.attrs.integer("dim")}, c.in[0].shape.size(), "dim");
  if (c.in[0].shape[dims[0]] == 0)
    c.fail(str("dim ", dims[0], " of ", in_text(c, 0),
               " is empty, and nothing has no largest or smallest element"));
  return {{DType::i32, reduced(c, dims)}};
}

// Kept dims may be sharded; so may a reduced dim of a sum, which leaves Partial.
std::string split_reduce(const InferContext& c, const std::vector<int64_t>& dims, bool partial) {
  Letters letters;
  std::string in, out;
  for (size_t d = 0; d < c.in[0].shape.size(); ++d) {
    bool vanishes = std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    char letter = vanishes && !partial ? '#' : letters.next();
    in += letter;
    if (!vanishes) out += letter;
  }
  return join_rule({in}, {out});
}
std::string split_sum(const InferContext& c) { return split_reduce(c, c.attrs.list("dims"), true); }
std::string split_dims(const InferContext& c) { return split_reduce(c, c.attrs.list("dims"), false); }
std::string split_dim(const InferContext& c) { return split_reduce(c, {c.attrs.integer("dim")}, false); }

// Broadcasts a reduced tensor back over the dropped dims.
Tensor spread(const VjpContext& c, Tensor reduced) {
  return broadcast_dims(reduced, c.in[0].shape(), free_dims(c.in[0].shape().size(), c.attrs.list("dims")));
}

Shape at_dims(const Shape& shape, const std::vector<int64_t>& dims) {
  Shape out;
  for (int64_t d : dims) out.push_back(shape[d]);
  return out;
}

Grads sum_vjp(const VjpContext& c) { return {spread(c, c.grad[0])}; }
// [..., n] -> [..., n]: the product of the elements before each.
Tensor product_before(Tensor x) {
  std::vector<int64_t> lo(x.shape().size(), 0), hi = lo;
  lo.back() = 1;
  return cumprod(pad(slice(x, -1, 0, x.size(-1) - 1), lo, hi, 1), -1);
}
// The product of the other elements, as the product of those before times those after. So zeros need no
// special case, and the gradient can be differentiated there, too.
Grads prod_vjp(const VjpContext& c) {
  const Shape shape = c.in[0].shape();
  if (numel(shape) == 0) return {full_like(c.in[0], 0)};
  const auto dims = c.attrs.list("dims");
  std::vector<int64_t> order = free_dims(shape.size(), dims), back(shape.size());
  Shape rows = at_dims(shape, order);
  rows.push_back(-1);
  order.insert(order.end(), dims.begin(), dims.end());
  for (size_t i = 0; i < order.size(); ++i) back[order[i]] = static_cast<int64_t>(i);
  Tensor x = reshape(permute(wide(c.in[0]), order), rows);
  Tensor before = product_before(x), behind = flip(product_before(flip(x, {-1})), {-1});
  Tensor others = permute(reshape(before * behind, at_dims(shape, order)), back);
  return {convert(wide(spread(c, c.grad[0])) * others, c.in[0].dtype())};
}
Grads extreme_vjp(const VjpContext& c) {  // equal shares among ties, as PyTorch's amax
  Tensor x = c.in[0], hit = equal(x, spread(c, c.out[0]));
  Tensor count = sum(convert(hit, x.dtype()), c.attrs.list("dims"));
  return {where(hit, spread(c, c.grad[0] / count), full_like(x, 0))};
}

Attrs over(std::vector<int64_t> dims) { return {{"dims", dims}}; }
Attrs along(int64_t dim) { return {{"dim", dim}}; }

std::vector<Sample> reduce_samples(double lo, double hi) {
  return {floats({f32({3, 5})}, over({1}), lo, hi), floats({f32({4, 1, 7})}, over({0, 2}), lo, hi),
          floats({f32({5, 3, 2})}, over({0, 1, 2}), lo, hi), integers({i32({3, 5})}, over({0}), -3, 4)};
}
std::vector<Sample> arg_samples() {
  return {floats({f32({3, 5})}, along(1)), floats({f32({7, 1, 2})}, along(0)),
          integers({i32({3, 17})}, along(1), -3, 4)};
}
}  // namespace

std::span<const Op> reduce_ops() {
  constexpr auto kind = OpKind::reduce;
  static const std::vector<Op> rows{
      {.id = ops::sum,
       .kind = kind,
       .attrs = {{"dims", AttrType::list}},
       .infer = infer_reduce(false),
       .split = split_sum,
       .vjp = sum_vjp,
       .linear = {0},
       .samples = reduce_samples(-2, 2)},
      {.id = ops::prod,
       .kind = kind,
       .attrs = {{"dims", AttrType::list}},
       .infer = infer_reduce(false),
       .split = split_dims,
       .vjp = prod_vjp,
       .samples = reduce_samples(0.5, 1.5)},
      {.id = ops::max,
       .kind = kind,
       .attrs = {{"dims", AttrType::list}},
       .infer = infer_reduce(true),
       .split = split_dims,
       .vjp = extreme_vjp,
       .samples = reduce_samples(-2, 2)},
      {.id = ops::min,
       .kind = kind,
       .attrs = {{"dims", AttrType::list}},
       .infer = infer_reduce(true),
       .split = split_dims,
       .vjp = extreme_vjp,
       .samples = reduce_samples(-2, 2)},
      {.id = ops::argmax,
       .kind = kind,
       .attrs = {{"dim", AttrType::integer}},
       .infer = infer_arg,
       .split = split_dim,
       .vjp = no_gradient,
       .samples = arg_samples()},  // the first of equals
      {.id = ops::argmin,
       .kind = kind,
       .attrs = {{"dim", AttrType::integer}},
       .infer = infer_arg,
       .split = split_dim,
       .vjp = no_gradient,
       .samples = arg_samples()},
  };
  return rows;
}

}  // namespace lockstep
