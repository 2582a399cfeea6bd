// View rows (the same elements at other positions) and index rows (elements chosen by integers).
#include <algorithm>

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ops/rules.h"

namespace lockstep {

namespace {
using namespace rules;
using Grads = std::vector<Tensor>;
using List = std::vector<int64_t>;

Types infer_reshape(const InferContext& c) {
  expect_count(c, 1);
  const Shape& shape = c.attrs.list("shape");
  for (int64_t size : shape)
    if (size < 0) c.fail(str("shape ", shape, " has a negative size"));
  if (numel(shape) != numel(c.in[0].shape))
    c.fail(
        str(in_text(c, 0), " has ", numel(c.in[0].shape), " elements, shape ", shape, " has ", numel(shape)));
  return {{c.in[0].dtype, shape}};
}
// A dim that stays one dim keeps its letter; merged and split dims may not be sharded.
std::string split_reshape(const InferContext& c) {
  const Shape &from = c.in[0].shape, &to = c.attrs.list("shape");
  std::string in(from.size(), '#'), out(to.size(), '#');
  Letters letters;
  size_t i = 0, o = 0;
  while (numel(from) > 0 && (i < from.size() || o < to.size())) {
    if (i < from.size() && from[i] == 1) {
      ++i;
      continue;
    }
    if (o < to.size() && to[o] == 1) {
      ++o;
      continue;
    }
    if (from[i] == to[o]) {
      in[i++] = out[o++] = letters.next();
      continue;
    }
    int64_t left = from[i++], right = to[o++];  // the smallest runs of dims with equal products
    while (left != right) left < right ? left *= from[i++] : right *= to[o++];
  }
  return join_rule({in}, {out});
}

Types infer_permute(const InferContext& c) {
  expect_count(c, 1);
  const List& order = c.attrs.list("order");
  if (order.size() != c.in[0].shape.size())
    c.fail(str("order ", order, " for ", in_text(c, 0), ": every dim is named once"));
  checked_dims(c, order, order.size(), "order");
  Shape shape;
  for (int64_t d : order) shape.push_back(c.in[0].shape[d]);
  return {{c.in[0].dtype, shape}};
}
std::string split_permute(const InferContext& c) {
  Letters letters;
  std::string in, out;
  for (size_t d = 0; d < c.in[0].shape.size(); ++d) in += letters.next();
  for (int64_t d : c.attrs.list("order")) out += in[d];
  return join_rule({in}, {out});
}
// The gradient takes the inverse permutation.
Grads permute_vjp(const VjpContext& c) {
  const List& order = c.attrs.list("order");
  List back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[order[i]] = static_cast<int64_t>(i);
  return {permute(c.grad[0], back)};
}

Types infer_broadcast(const InferContext& c) {
  expect_count(c, 1);
  const Shape &from = c.in[0].shape, &to = c.attrs.list("shape");
  const List& dims = c.attrs.list("dims");
  if (dims.size() != from.size())
    c.fail(str("dims ", dims, " for ", in_text(c, 0), ": every dim goes somewhere"));
  checked_dims(c, dims, to.size(), "dims");
  for (size_t i = 0; i < dims.size(); ++i)
    if (from[i] != 1 && from[i] != to[dims[i]])
      c.fail(str("dim ", i, " of ", in_text(c, 0), " is ", from[i], " and goes to dim ", dims[i], " of ", to,
                 ", which is ", to[dims[i]], "; sizes must be equal, or 1"));
  return {{c.in[0].dtype, to}};
}
std::string split_broadcast(const InferContext& c) {
  const Shape &from = c.in[0].shape, &to = c.attrs.list("shape");
  const List& dims = c.attrs.list("dims");
  Letters letters;
  std::string in(from.size(), '#'), out;
  for (size_t d = 0; d < to.size(); ++d) out += letters.next();
  for (size_t i = 0; i < dims.size(); ++i)
    if (from[i] == to[dims[i]]) in[i] = out[dims[i]];
  return join_rule({in}, {out});
}
// Sums over the dims that the broadcast made or widened, then restores the order and the dims of size 1.
Grads broadcast_vjp(const VjpContext& c) {
  const Shape &from = c.in[0].shape(), &to = c.attrs.list("shape");
  const List& dims = c.attrs.list("dims");
  List made = free_dims(to.size(), dims), kept_order;
  for (size_t i = 0; i < dims.size(); ++i)
    if (from[i] != to[dims[i]]) made.push_back(dims[i]);
  std::sort(made.begin(), made.end());
  Tensor total = sum(c.grad[0], made);
  // The remaining dims are in the order of the output, which may differ from that of the input.
  List left, sizes_in_order;
  for (size_t i = 0; i < dims.size(); ++i)
    if (from[i] == to[dims[i]]) left.push_back(dims[i]);
  List sorted = left;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t d : left) kept_order.push_back(std::find(sorted.begin(), sorted.end(), d) - sorted.begin());
  return {reshape(permute(total, kept_order), from)};
}

Types infer_slice(const InferContext& c) {
  expect_count(c, 1);
  const Shape& from = c.in[0].shape;
  const List &start = c.attrs.list("start"), &limit = c.attrs.list("limit"), &step = c.attrs.list("step");
  if (start.size() != from.size() || limit.size() != from.size() || step.size() != from.size())
    c.fail(str("start ", start, ", limit ", limit, ", step ", step, " for ", in_text(c, 0),
               ": one number per dim"));
  Shape shape;
  for (size_t d = 0; d < from.size(); ++d) {
    if (start[d] < 0 || limit[d] < start[d] || limit[d] > from[d] || step[d] < 1)
      c.fail(str("range ", start[d], " .. ", limit[d], " by ", step[d], " of dim ", d, " of ", in_text(c, 0),
                 " is not inside 0 .. ", from[d]));
    shape.push_back((limit[d] - start[d] + step[d] - 1) / step[d]);
  }
  return {{c.in[0].dtype, shape}};
}
Types infer_pad(const InferContext& c) {
  expect_count(c, 1);
  const List &lo = c.attrs.list("lo"), &hi = c.attrs.list("hi");
  expect_held(c, "value", c.in[0].dtype);
  if (lo.size() != c.in[0].shape.size() || hi.size() != lo.size())
    c.fail(str("lo ", lo, ", hi ", hi, " for ", in_text(c, 0), ": one number per dim"));
  Shape shape = c.in[0].shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (lo[d] < 0 || hi[d] < 0)
      c.fail(str("lo ", lo, ", hi ", hi, ": padding is not negative; slice instead"));
    shape[d] += lo[d] + hi[d];
  }
  return {{c.in[0].dtype, shape}};
}
// Dims that the node does not change may be sharded.
std::string split_untouched(const InferContext& c) {
  Letters letters;
  std::string dims;
  bool pads = c.attrs.has("lo");
  for (size_t d = 0; d < c.in[0].shape.size(); ++d) {
    bool whole = pads ? c.attrs.list("lo")[d] == 0 && c.attrs.list("hi")[d] == 0
                      : c.attrs.list("start")[d] == 0 && c.attrs.list("limit")[d] == c.in[0].shape[d] &&
                            c.attrs.list("step")[d] == 1;
    dims += whole ? letters.next() : '#';
  }
  return join_rule({dims}, {dims});
}
Grads slice_vjp(const VjpContext& c) {
  const Shape& from = c.in[0].shape();
  const List &start = c.attrs.list("start"), &step = c.attrs.list("step");
  Tensor dy = c.grad[0];
  List lo = start, hi(from.size());
  if (std::any_of(step.begin(), step.end(), [](int64_t s) {
        return s != 1;
      })) {  // spread by zeros: [n] to [n, 1] to [n, step] to [n step]
    for (size_t d = 0; d < from.size(); ++d) {
      if (step[d] == 1) continue;
      Shape pair = dy.shape();
      pair.push_back(1);
      std::rotate(pair.begin() + static_cast<std::ptrdiff_t>(d) + 1, pair.end() - 1, pair.end());
      List before(pair.size(), 0), after(pair.size(), 0);
      after[d + 1] = step[d] - 1;
      Tensor spread = pad(reshape(dy, pair), before, after, 0);
      Shape flat = dy.shape();
      flat[d] *= step[d];
      dy = reshape(spread, flat);
      dy = slice(dy, static_cast<int>(d), 0, std::min(flat[d], from[d] - start[d]));
    }
  }
  for (size_t d = 0; d < from.size(); ++d) hi[d] = from[d] - start[d] - dy.shape()[d];
  return {pad(dy, lo, hi, 0)};
}
Grads pad_vjp(const VjpContext& c) {
  List limit = c.attrs.list("lo");
  for (size_t d = 0; d < limit.size(); ++d) limit[d] += c.in[0].shape()[d];
  return {apply1(ops::slice, {c.grad[0]},
                 {{"start", c.attrs.list("lo")}, {"limit", limit}, {"step", List(limit.size(), 1)}})};
}

Types infer_concat(const InferContext& c) {
  expect_count(c, 1, size_t(-1));
  size_t dim = checked_dims(c, {c.attrs.integer("dim")}, c.in[0].shape.size(), "dim")[0];
  Shape shape = c.in[0].shape;
  for (size_t i = 1; i < c.in.size(); ++i) {
    if (c.in[i].dtype != c.in[0].dtype)
      c.fail(
          str("dtypes differ: input 0 ", in_text(c, 0), ", input ", i, " ", in_text(c, i), "; convert one?"));
    Shape other = c.in[i].shape;
    if (other.size() != shape.size())
      c.fail(str("input 0 is ", in_text(c, 0), ", input ", i, " is ", in_text(c, i),
                 ": the numbers of dims differ"));
    shape[dim] += std::exchange(other[dim], c.in[0].shape[dim]);
    if (other != c.in[0].shape)
      c.fail(str("input 0 is ", in_text(c, 0), ", input ", i, " is ", in_text(c, i), ": only dim ", dim,
                 " may differ"));
  }
  return {{c.in[0].dtype, shape}};
}
std::string split_concat(const InferContext& c) {
  Letters letters;
  std::string dims;
  for (size_t d = 0; d < c.in[0].shape.size(); ++d)
    dims += static_cast<int64_t>(d) == c.attrs.integer("dim") ? '#' : letters.next();
  return join_rule(std::vector<std::string>(c.in.size(), dims), {dims});
}
Grads concat_vjp(const VjpContext& c) {
  std::vector<int64_t> sizes;
  int dim = static_cast<int>(c.attrs.integer("dim"));
  for (const Tensor& x : c.in) sizes.push_back(x.size(dim));
  return split(c.grad[0], dim, sizes);
}

Types infer_take(const InferContext& c) {
  expect_count(c, 2);
  if (c.in[0].shape.empty()) c.fail(str("the table is ", in_text(c, 0), ", needs 1 or more dims"));
  expect_dtype(c, 1, DType::i32, "ids");
  Shape shape = c.in[1].shape;
  shape.insert(shape.end(), c.in[0].shape.begin() + 1, c.in[0].shape.end());
  return {{c.in[0].dtype, shape}};
}
// Rows of the table may not be sharded, since an id may name any of them; ids and the other dims may.
std::string split_take(const InferContext& c) {
  Letters letters;
  std::string ids, row;
  for (size_t d = 0; d < c.in[1].shape.size(); ++d) ids += letters.next();
  for (size_t d = 1; d < c.in[0].shape.size(); ++d) row += letters.next();
  return join_rule({"#" + row, ids}, {ids + row});
}
Types infer_index_add(const InferContext& c) {
  expect_count(c, 2);
  expect_dtype(c, 0, DType::i32, "ids");
  const Shape &ids = c.in[0].shape, &from = c.in[1].shape;
  if (from.size() < ids.size() || !std::equal(ids.begin(), ids.end(), from.begin()))
    c.fail(str("leading dims differ: ids ", in_text(c, 0), ", rows ", in_text(c, 1)));
  if (c.in[1].dtype == DType::boolean) c.fail(str("rows are ", in_text(c, 1), ", needs numbers"));
  int64_t rows = c.attrs.integer("rows");
  if (rows < 0) c.fail(str("rows is ", rows));
  Shape shape{rows};
  shape.insert(shape.end(), from.begin() + static_cast<std::ptrdiff_t>(ids.size()), from.end());
  return {{c.in[1].dtype, shape}};
}
std::string split_index_add(const InferContext& c) {  // sharded ids leave a partial sum
  Letters letters;
  std::string ids, row;
  for (size_t d = 0; d < c.in[0].shape.size(); ++d) ids += letters.next();
  for (size_t d = ids.size(); d < c.in[1].shape.size(); ++d) row += letters.next();
  return join_rule({ids, ids + row}, {"#" + row});
}

Attrs ranges(List start, List limit, List step) {
  return {{"start", start}, {"limit", limit}, {"step", step}};
}
Attrs padding(List lo, List hi, double value) { return {{"lo", lo}, {"hi", hi}, {"value", value}}; }
Attrs spread(Shape shape, List dims) { return {{"shape", shape}, {"dims", dims}}; }
Attrs to(Shape shape) { return {{"shape", shape}}; }

// The same elements in another order, shape or number.
std::vector<Op> moving_rows() {
  return {
      {.id = ops::reshape,
       .kind = OpKind::view,
       .attrs = {{"shape", AttrType::list}, {"again", AttrType::flag, true}},
       .infer = infer_reshape,
       .split = split_reshape,
       .vjp = [](const VjpContext& c) { return Grads{reshape(c.grad[0], c.in[0].shape())}; },
       .linear = {0},
       .samples = {floats({f32({6, 5})}, to({2, 3, 5})), floats({f32({3, 1, 7, 2})}, to({3, 14})),
                   floats({f32({1})}, to({})), integers({i32({4, 3, 5})}, to({4, 1, 15}))}},
      {.id = ops::permute,
       .kind = OpKind::view,
       .attrs = {{"order", AttrType::list}, {"alias", AttrType::flag, true}},
       .infer = infer_permute,
       .split = split_permute,
       .vjp = permute_vjp,
       .linear = {0},
       .samples = {floats({f32({3, 5})}, {{"order", List{1, 0}}}),
                   floats({f32({2, 3, 1, 5})}, {{"order", List{3, 0, 2, 1}}}),
                   integers({i32({4, 3, 5})}, {{"order", List{2, 0, 1}}})}},
      {.id = ops::broadcast,
       .kind = OpKind::view,
       .attrs = {{"shape", AttrType::list}, {"dims", AttrType::list}},
       .infer = infer_broadcast,
       .split = split_broadcast,
       .vjp = broadcast_vjp,
       .linear = {0},
       .samples = {floats({f32({5})}, spread({3, 5}, {1})),
                   floats({f32({3, 1, 5})}, spread({3, 7, 5}, {0, 1, 2})),
                   floats({f32({})}, spread({2, 3}, {})),
                   integers({i32({3, 5})}, spread({5, 2, 3}, {2, 0}))}},
  };
}

// Parts, and what is put together from parts.
std::vector<Op> part_rows() {
  return {
      {.id = ops::slice,
       .kind = OpKind::view,
       .attrs = {{"start", AttrType::list},
                 {"limit", AttrType::list},
                 {"step", AttrType::list},
                 {"alias", AttrType::flag, true}},
       .infer = infer_slice,
       .split = split_untouched,
       .vjp = slice_vjp,
       .linear = {0},
       .samples = {floats({f32({5, 7})}, ranges({0, 2}, {5, 6}, {1, 1})),
                   floats({f32({7, 1, 9})}, ranges({1, 0, 0}, {7, 1, 9}, {3, 1, 2})),
                   integers({i32({6, 5})}, ranges({3, 0}, {3, 5}, {1, 1}))}},
      {.id = ops::pad,
       .kind = OpKind::view,
       .attrs = {{"lo", AttrType::list}, {"hi", AttrType::list}, {"value", AttrType::number}},
       .infer = infer_pad,
       .split = split_untouched,
       .vjp = pad_vjp,  // linear only where the value is 0
       .samples = {floats({f32({3, 5})}, padding({1, 0}, {2, 0}, 0.5)),
                   floats({f32({4, 1, 3})}, padding({0, 2, 0}, {0, 0, 3}, 0)),
                   integers({i32({5})}, padding({1}, {1}, 7))}},
      {.id = ops::concat,
       .kind = OpKind::view,
       .attrs = {{"dim", AttrType::integer},
                 {"alias", AttrType::flag, true},
                 {"pieces", AttrType::flag, true}},
       .infer = infer_concat,
       .split = split_concat,
       .vjp = concat_vjp,
       .samples = {floats({f32({3, 5}), f32({3, 1}), f32({3, 2})}, {{"dim", 1}}),
                   floats({f32({2, 3}), f32({1, 3})}, {{"dim", 0}}),
                   integers({i32({3}), i32({0}), i32({5})}, {{"dim", 0}})}},
  };
}

std::vector<Op> index_rows() {
  return {
      // `fetch` marks a sparse table: its rows are sent to each micro-batch before the body runs.
      {.id = ops::take,
       .kind = OpKind::index,
       .attrs = {{"fetch", AttrType::flag, true}},
       .infer = infer_take,
       .split = split_take,
       .vjp =
           [](const VjpContext& c) {
             return Grads{apply1(ops::index_add, {c.in[1], c.grad[0]}, {{"rows", c.in[0].size(0)}}), {}};
           },
       .linear = {0},
       .samples = {integers({f32({4, 5}), i32({3, 2})}), integers({f32({7, 1, 3}), i32({5})}),
                   integers({i32({4}), i32({9})})}},
      // out[ids[i]] += rows[i], in the order of i.
      {.id = ops::index_add,
       .kind = OpKind::index,
       .attrs = {{"rows", AttrType::integer}},
       .infer = infer_index_add,
       .split = split_index_add,
       .vjp = [](const VjpContext& c) { return Grads{{}, take(c.grad[0], c.in[0])}; },
       .linear = {1},
       .samples = {integers({i32({3, 2}), f32({3, 2, 5})}, {{"rows", 4}}),
                   integers({i32({7}), f32({7, 1})}, {{"rows", 5}}),
                   integers({i32({9}), i32({9})}, {{"rows", 4}})},
       .library = Library::row_sums},
  };
}
}  // namespace

std::span<const Op> view_ops() {
  static const std::vector<Op> rows = [] {
    std::vector<Op> out;
    for (auto& part : {moving_rows(), part_rows(), index_rows()})
      out.insert(out.end(), part.begin(), part.end());
    return out;
  }();
  return rows;
}

}  // namespace lockstep
