// Contract rows: dot (batch dims, lhs free dims, rhs free dims) and linear; joined with attention.
// Accumulation is f32, f64 for f64.
#include <algorithm>

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ops/checks.h"
#include "core/ops/rules.h"
#include "core/table/composites.h"

namespace lockstep {

namespace {
using namespace rules;
using Grads = std::vector<Tensor>;
using List = std::vector<int64_t>;

List both(List a, const List& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
Attrs dot_attrs(List lhs_batch, List rhs_batch, List lhs_contract, List rhs_contract) {
  return {{"lhs_batch", lhs_batch},
          {"rhs_batch", rhs_batch},
          {"lhs_contract", lhs_contract},
          {"rhs_contract", rhs_contract}};
}

Types infer_dot(const InferContext& c) {
  expect_count(c, 2);
  expect_float(c, 0);
  const auto& [lhs, rhs] = std::tie(c.in[0], c.in[1]);
  std::string types = str("lhs ", text(lhs), ", rhs ", text(rhs));
  if (lhs.dtype != rhs.dtype) c.fail(str("dtypes differ: ", types, "; convert one side?"));
  const List &lb = c.attrs.list("lhs_batch"), &rb = c.attrs.list("rhs_batch"),
             &lc = c.attrs.list("lhs_contract"), &rc = c.attrs.list("rhs_contract");
  checked_dims(c, both(lb, lc), lhs.shape.size(), "lhs dims");
  checked_dims(c, both(rb, rc), rhs.shape.size(), "rhs dims");
  if (lb.size() != rb.size() || lc.size() != rc.size())
    c.fail(str("batch dims ", lb, " and ", rb, ", contracted dims ", lc, " and ", rc,
               ": the numbers of dims differ"));
  Shape out;
  for (size_t i = 0; i < lb.size(); ++i) {
    if (lhs.shape[lb[i]] != rhs.shape[rb[i]])
      c.fail(str("batch dims differ: ", types, ", dim ", lb[i], " has ", lhs.shape[lb[i]], ", dim ", rb[i],
                 " has ", rhs.shape[rb[i]]));
    out.push_back(lhs.shape[lb[i]]);
  }
  for (size_t i = 0; i < lc.size(); ++i)
    if (lhs.shape[lc[i]] != rhs.shape[rc[i]])
      c.fail(str("inner dims differ: ", types, ", dim ", lc[i], " has ", lhs.shape[lc[i]], ", dim ", rc[i],
                 " has ", rhs.shape[rc[i]]));
  for (int64_t d : free_dims(lhs.shape.size(), both(lb, lc))) out.push_back(lhs.shape[d]);
  for (int64_t d : free_dims(rhs.shape.size(), both(rb, rc))) out.push_back(rhs.shape[d]);
  return {{lhs.dtype, out}};
}

std::string split_dot(const InferContext& c) {
  const List &lb = c.attrs.list("lhs_batch"), &rb = c.attrs.list("rhs_batch"),
             &lc = c.attrs.list("lhs_contract"), &rc = c.attrs.list("rhs_contract");
  Letters letters;
  std::string lhs(c.in[0].shape.size(), ' '), rhs(c.in[1].shape.size(), ' '), out;
  for (size_t i = 0; i < lb.size(); ++i) out += lhs[lb[i]] = rhs[rb[i]] = letters.next();
  for (size_t i = 0; i < lc.size(); ++i) lhs[lc[i]] = rhs[rc[i]] = letters.next();
  for (int64_t d : free_dims(lhs.size(), both(lb, lc))) out += lhs[d] = letters.next();
  for (int64_t d : free_dims(rhs.size(), both(rb, rc))) out += rhs[d] = letters.next();
  return join_rule({lhs, rhs}, {out});
}

// Position of each element of `of` when it is sorted.
List ranks(const List& of) {
  List sorted = of, out;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t d : of) out.push_back(std::find(sorted.begin(), sorted.end(), d) - sorted.begin());
  return out;
}

// d/da of dot(a, b) is dot(dy, b) over b's free dims: dims come as (batch, a's free, a's contracted in b's
// order), and go back to a's order.
Grads dot_vjp(const VjpContext& c) {
  const List &lb = c.attrs.list("lhs_batch"), &rb = c.attrs.list("rhs_batch"),
             &lc = c.attrs.list("lhs_contract"), &rc = c.attrs.list("rhs_contract");
  Tensor a = c.in[0], b = c.in[1], dy = c.grad[0];
  auto batch = static_cast<int64_t>(lb.size());
  List a_free = free_dims(a.shape().size(), both(lb, lc)), b_free = free_dims(b.shape().size(), both(rb, rc));
  auto a_end = batch + static_cast<int64_t>(a_free.size()),
       b_end = a_end + static_cast<int64_t>(b_free.size());
  Grads out(2);
  if (c.wants[0]) {
    Tensor da = apply1(ops::dot, {dy, b},
                       dot_attrs(functions::counted(0, batch), rb, functions::counted(a_end, b_end), b_free));
    List order(a.shape().size()), place = ranks(rc);
    for (size_t i = 0; i < lb.size(); ++i) order[lb[i]] = static_cast<int64_t>(i);
    for (size_t i = 0; i < a_free.size(); ++i) order[a_free[i]] = batch + static_cast<int64_t>(i);
    for (size_t i = 0; i < lc.size(); ++i) order[lc[i]] = a_end + place[i];
    out[0] = permute(da, order);
  }
  if (c.wants[1]) {  // dims come as (batch, b's contracted in a's order, b's free)
    Tensor db = apply1(ops::dot, {a, dy},
                       dot_attrs(lb, functions::counted(0, batch), a_free, functions::counted(batch, a_end)));
    List order(b.shape().size()), place = ranks(lc);
    for (size_t i = 0; i < rb.size(); ++i) order[rb[i]] = static_cast<int64_t>(i);
    for (size_t i = 0; i < rc.size(); ++i) order[rc[i]] = batch + place[i];
    for (size_t i = 0; i < b_free.size(); ++i) order[b_free[i]] = batch + static_cast<int64_t>(rc.size() + i);
    out[1] = permute(db, order);
  }
  return out;
}

Types infer_linear(const InferContext& c) {
  expect_count(c, 2, 3);
  expect_float(c, 0);
  if (c.in[0].shape.empty()) c.fail(str("input is ", in_text(c, 0), ", needs 1 or more dims"));
  expect_rank(c, 1, 2, "weight");
  for (size_t i = 1; i < c.in.size(); ++i)
    if (c.in[i].dtype != c.in[0].dtype)
      c.fail(str("dtypes differ: input ", in_text(c, 0), ", ", i == 1 ? "weight " : "bias ", in_text(c, i),
                 "; convert one side?"));
  const Shape& weight = c.in[1].shape;
  int64_t inner = c.in[0].shape.back();
  if (inner != weight[1])
    c.fail(str(
        "inner dims differ: input ", in_text(c, 0), " has ", inner, ", weight ", in_text(c, 1), " has ",
        weight[1],
        weight[0] == inner ? "; weights are [out, in]: transpose the weight?" : "; weights are [out, in]"));
  if (c.in.size() == 3 && c.in[2].shape != Shape{weight[0]})
    c.fail(str("bias is ", in_text(c, 2), ", needs [", weight[0], "], the rows of weight ", in_text(c, 1)));
  Shape out = c.in[0].shape;
  out.back() = weight[0];
  return {{c.in[0].dtype, out}};
}
// With a bias k may not be sharded: every term of the partial sum would add the bias.
std::string split_linear(const InferContext& c) {
  return c.in.size() == 3 ? "...K,nK,n->...n" : "...k,nk->...n";
}
Grads linear_vjp(const VjpContext& c) {
  Tensor x = c.in[0], w = c.in[1], dy = c.grad[0];
  int64_t last = x.ndim() - 1;
  List leading = functions::counted(0, last);
  Grads out(c.in.size());
  if (c.wants[0]) out[0] = apply1(ops::dot, {dy, w}, dot_attrs({}, {}, {last}, {0}));
  if (c.wants[1]) out[1] = apply1(ops::dot, {dy, x}, dot_attrs({}, {}, leading, leading));
  if (c.in.size() == 3 && c.wants[2]) out[2] = convert(sum(wide(dy), leading), dy.dtype());
  return out;
}
std::vector<Tensor> linear_expand(const ExpandContext& c) {
  Tensor x = c.in[0];
  Tensor y = apply1(ops::dot, {x, c.in[1]}, dot_attrs({}, {}, {x.ndim() - 1}, {1}));
  return {c.in.size() == 3 ? y + c.in[2] : y};
}
}  // namespace

std::span<const Op> contract_ops() {
  constexpr auto kind = OpKind::contract;
  static const std::vector<Op> rows = [] {
    std::vector<Op> out{
        {.id = ops::dot,
         .kind = kind,
         .attrs = {{"lhs_batch", AttrType::list},
                   {"rhs_batch", AttrType::list},
                   {"lhs_contract", AttrType::list},
                   {"rhs_contract", AttrType::list}},
         .infer = infer_dot,
         .split = split_dot,
         .vjp = dot_vjp,
         .linear = {0, 1},
         .samples = {floats({f32({3, 5}), f32({5, 7})}, dot_attrs({}, {}, {1}, {0})),
                     floats({f32({2, 3, 1, 5}), f32({2, 7, 3, 5})}, dot_attrs({0, 1}, {0, 2}, {3}, {3})),
                     floats({f32({4, 3, 2}), f32({2, 5, 4})}, dot_attrs({}, {}, {0, 2}, {2, 0})),
                     floats({f32({3}), f32({5})}, dot_attrs({}, {}, {}, {}))},
         .library = Library::contraction},
        {.id = ops::linear,
         .kind = OpKind::composite,
         .infer = infer_linear,
         .split = split_linear,
         .vjp = linear_vjp,
         .expand = linear_expand,
         .samples = {floats({f32({2, 3, 5}), f32({7, 5}), f32({7})}), floats({f32({4, 6}), f32({3, 6})}),
                     floats({f32({5}), f32({1, 5}), f32({1})})},
         .library = Library::contraction},
    };
    for (auto family : {attention_rows, convolution_rows, window_rows, pooling_rows})
      for (Op& row : family()) out.push_back(std::move(row));
    return out;
  }();
  return rows;
}

}  // namespace lockstep
