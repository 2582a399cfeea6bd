// Index functions: nodes of index rows, and elements along a dim by their row-major index.
#include "core/functions/index.h"

#include <limits>

#include "core/functions/creation.h"
#include "core/functions/operators.h"
#include "core/functions/pointwise.h"
#include "core/functions/reduce.h"
#include "core/functions/shape.h"
#include "core/ops/checks.h"

namespace lockstep {

using namespace functions;

namespace {
Tensor narrow(std::string_view name, Tensor ids, Here at) {
  need_ids(name, ids, at);
  return convert(ids, DType::i32, at);
}

// The row-major index in x of each id.
Tensor places(std::string_view name, Tensor x, int64_t d, Tensor ids, Here at) {
  const Shape shape = x.shape(), chosen = ids.shape();
  bool fits = chosen.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i)
    fits = static_cast<int64_t>(i) == d || chosen[i] <= shape[i];
  if (!fits)
    refuse(name, {x}, at,
           str("ids are ", ids.text(), " for dim ", d, " of ", x.text(),
               ": as many dims, and in the others no more elements"));
  if (numel(shape) > std::numeric_limits<int32_t>::max())
    refuse(name, {x}, at, str(x.text(), " has ", numel(shape), " elements, for less than 2^31"));
  reads_by_ids(
      name, ids, at,
      {.count = shape[d], .of = str("a place along dim ", d, " of ", x.text()), .wider = "dim larger"});
  Tensor out;
  int64_t stride = 1;
  for (int i = static_cast<int>(shape.size()) - 1; i >= 0; stride *= shape[i], --i) {
    Tensor index = i == d ? ids : iota_like(ids, i);
    if (stride != 1) index = index * static_cast<double>(stride);
    out = out.defined() ? out + index : index;
  }
  return out;
}
}  // namespace

Tensor take(Tensor table, Tensor ids, Here at) {
  need("take", {table}, at);
  return apply1(ops::take, {table, narrow("take", ids, at)}, {}, at);
}
Tensor embedding(Tensor table, Tensor ids, Here at) {
  need("embedding", {table}, at);
  if (ids.defined() && is_float(ids.dtype()) && is_integer(table.dtype()))
    refuse("embedding", {table, ids}, at,
           str("the ids ", table.text(), " are before the table ", ids.text(),
               "; the table comes first, embedding(table, ids)"));
  Tensor rows = apply1(ops::embedding, {table, narrow("embedding", ids, at)}, {}, at);
  const auto builder = table.builder();
  return builder->sparse.count(table.id()) ? convert(rows, builder->precision.value_or(rows.dtype()), at)
                                           : rows;
}
Tensor embedding(Tensor table, Tensor ids, int64_t padding, Here at) {
  Tensor rows = embedding(table, ids, at);
  InFunction line(table, at);
  Tensor beside = broadcast_dims(ids == padding, rows.shape(), counted(0, ids.ndim()));
  return where(beside, stop_gradient(rows), rows);
}
Tensor embedding_bag(Tensor table, Tensor ids, Bag mode, int64_t padding, Tensor weights, Here at) {
  need_floats("embedding_bag", {table}, at);
  need_ids("embedding_bag", ids, at);
  if (table.ndim() != 2 || ids.ndim() != 2)
    refuse(
        "embedding_bag", {table}, at,
        str("the table is ", table.text(), ", ids are ", ids.text(), ", need [rows, width] and [bags, n]"));
  if (weights.defined() && (mode != Bag::sum || weights.shape() != ids.shape()))
    refuse("embedding_bag", {table}, at,
           str("weights are ", weights.text(), ", ids ", ids.text(),
               ": one weight for each id, and only of a sum"));
  reads_by_ids(
      "embedding_bag", ids, at,
      {.count = table.size(0), .of = str("a row of ", table.text()), .ignores = true, .ignored = padding});
  InFunction line(table, at);
  Tensor counts = convert(ids != padding, rules::statistic(table.dtype()));
  Tensor inside = where(ids == padding, full_like(ids, 0), ids);
  Tensor rows = rules::wide(embedding(table, inside)), share = counts;
  if (mode == Bag::max) {
    constexpr double kLeast = -std::numeric_limits<double>::infinity();
    Tensor there = broadcast_dims(counts > 0, rows.shape(), {0, 1});
    Tensor most = max(where(there, rows, full_like(rows, kLeast)), {1});
    Tensor empty = broadcast_dims(sum(counts, {1}) == 0, most.shape(), {0});
    return convert(where(empty, full_like(most, 0), most), table.dtype());
  }
  if (weights.defined()) share = counts * convert(weights, counts.dtype());
  Tensor total = sum(rows * broadcast_dims(share, rows.shape(), {0, 1}), {1});
  if (mode == Bag::mean)
    total = total /
            broadcast_dims(maximum(sum(counts, {1}), full(table, {}, 1, counts.dtype())), total.shape(), {0});
  return convert(total, table.dtype());
}
Tensor index_add(Tensor ids, Tensor rows, int64_t count, Here at) {
  need("index_add", {rows}, at);
  return apply1(ops::index_add, {narrow("index_add", ids, at), rows}, {{"rows", count}}, at);
}

Tensor index_select(Tensor x, int dim, Tensor ids, Here at) {
  need("index_select", {x}, at);
  const int d = static_cast<int>(dim_of("index_select", x, dim, at));
  ids = narrow("index_select", ids, at);
  if (ids.ndim() != 1) refuse("index_select", {x}, at, str("ids are ", ids.text(), ", need 1 dim"));
  return movedim(take(movedim(x, d, 0, at), ids, at), 0, d, at);
}
Tensor flip(Tensor x, std::vector<int64_t> dims, Here at) {
  need("flip", {x}, at);
  dims = dims_of("flip", x, dims, at);
  InFunction line(x, at);
  for (int64_t d : dims) {
    const int64_t size = x.shape()[d];
    if (size > 1)
      x = index_select(x, static_cast<int>(d),
                       static_cast<double>(size - 1) - iota(x, {size}, 0, DType::i32));
  }
  return x;
}
Tensor rot90(Tensor x, int quarters, int a, int b, Here at) {
  need("rot90", {x}, at);
  const int64_t from = dim_of("rot90", x, a, at), to = dim_of("rot90", x, b, at);
  if (from == to) refuse("rot90", {x}, at, str("dims ", a, " and ", b, " of ", x.text(), " are one"));
  const int turns = (quarters % 4 + 4) % 4;
  InFunction line(x, at);
  if (turns == 2) return flip(x, {from, to});
  if (turns == 1) return transpose(flip(x, {to}), static_cast<int>(from), static_cast<int>(to));
  return turns ? flip(transpose(x, static_cast<int>(from), static_cast<int>(to)), {to}) : x;
}
Tensor gather(Tensor x, int dim, Tensor ids, Here at) {
  need("gather", {x}, at);
  const int64_t d = dim_of("gather", x, dim, at);
  ids = narrow("gather", ids, at);
  InFunction line(x, at);
  Tensor from = places("gather", x, d, ids, at);
  return reshape(take(reshape(x, {-1}), reshape(from, {-1})), ids.shape());
}
Tensor take_along_dim(Tensor x, Tensor ids, int dim, Here at) {
  need("take_along_dim", {x}, at);
  const int64_t d = dim_of("take_along_dim", x, dim, at);
  need_ids("take_along_dim", ids, at);
  if (ids.ndim() != x.ndim())
    refuse("take_along_dim", {x}, at, str("ids are ", ids.text(), " for ", x.text(), ": as many dims"));
  Shape shape = x.shape(), chosen = ids.shape();
  for (size_t i = 0; i < shape.size(); ++i)
    if (static_cast<int64_t>(i) != d) shape[i] = chosen[i] = std::max(shape[i], chosen[i]);
  return gather(broadcast_to(x, shape, at), dim, broadcast_to(ids, chosen, at), at);
}

namespace {
void widest_of(std::string_view name, Tensor& x, Tensor& values, Here at) {
  const auto taken = under_policy(name, {x, values}, source_line(*x.builder(), at));
  x = taken[0], values = taken[1];
}
struct Scattered {
  Tensor places, sums;  // [n], and x's shape
};
Scattered scattered(std::string_view name, Tensor x, int dim, Tensor ids, Tensor values, Here at) {
  const int64_t d = dim_of(name, x, dim, at);
  ids = narrow(name, ids, at);
  if (values.shape() != ids.shape() || values.dtype() != x.dtype())
    refuse(name, {x}, at,
           str("values are ", values.text(), ", need ", shape_text(x.dtype(), ids.shape()),
               ", x's dtype and the ids' shape"));
  Tensor to = reshape(places(name, x, d, ids, at), {-1});
  return {to, reshape(index_add(to, reshape(values, {-1}), numel(x.shape())), x.shape())};
}
}  // namespace
Tensor scatter_add(Tensor x, int dim, Tensor ids, Tensor values, Here at) {
  need("scatter_add", {x, ids, values}, at);
  widest_of("scatter_add", x, values, at);
  InFunction line(x, at);
  return x + scattered("scatter_add", x, dim, ids, values, at).sums;
}
Tensor scatter(Tensor x, int dim, Tensor ids, Tensor values, Here at) {
  need("scatter", {x, ids, values}, at);
  widest_of("scatter", x, values, at);
  InFunction line(x, at);
  Scattered made = scattered("scatter", x, dim, ids, values, at);
  Tensor hits = index_add(made.places, full(x, made.places.shape(), 1, DType::i32), numel(x.shape()));
  return where(reshape(hits, x.shape()) > 0, made.sums, x);
}
Tensor scatter(Tensor x, int dim, Tensor ids, Number value, Here at) {
  need("scatter", {x, ids}, at);
  (void)held("scatter", x, value, at);
  InFunction line(x, at);
  ids = narrow("scatter", ids, at);
  Tensor to = reshape(places("scatter", x, dim_of("scatter", x, dim, at), ids, at), {-1});
  Tensor hits = index_add(to, full(x, to.shape(), 1, DType::i32), numel(x.shape()));
  return where(reshape(hits, x.shape()) > 0, full_like(x, value), x);
}

Tensor bincount(Tensor ids, int64_t count, Here at) {
  ids = narrow("bincount", ids, at);
  if (count < 1) refuse("bincount", {ids}, at, str("count is ", count, ", needs 1 or more"));
  InFunction line(ids, at);
  Tensor flat = reshape(ids, {-1});
  return index_add(flat, full_like(flat, 1), count);
}
Tensor histogram(Tensor x, int64_t bins, double lo, double hi, Here at) {
  need_floats("histogram", {x}, at);
  if (bins < 1 || !(lo < hi))
    refuse("histogram", {x}, at,
           str(bins, " bins from ", lo, " to ", hi, ": 1 or more, and the lower bound comes first"));
  InFunction line(x, at);
  Tensor v = rules::wide(reshape(x, {-1}));
  Tensor inside = v >= lo && v <= hi;
  Tensor place = floor((clamp(where(inside, v, full_like(v, lo)), lo, hi) - lo) *
                       (static_cast<double>(bins) / (hi - lo)));
  Tensor bin = convert(clamp(place, 0, static_cast<double>(bins - 1)), DType::i32);
  return index_add(bin, convert(inside, DType::i32), bins);
}
Tensor searchsorted(Tensor sorted, Tensor values, bool right, Here at) {
  need("searchsorted", {sorted, values}, at);
  if (sorted.ndim() != 1 || sorted.dtype() != values.dtype() || sorted.dtype() == DType::boolean)
    refuse("searchsorted", {sorted, values}, at,
           str("sorted is ", sorted.text(), ", values are ", values.text(),
               ": sorted has 1 dim, and both are numbers of one dtype"));
  const int64_t n = sorted.size(0);
  InFunction line(values, at);
  Tensor below = full(values, values.shape(), 0, DType::i32);
  int64_t step = 1;
  while (2 * step <= n) step *= 2;
  for (; n && step; step /= 2) {
    Tensor next = below + static_cast<double>(step);
    Tensor read = take(sorted, clamp(next, 1, static_cast<double>(n)) - 1.0);
    Tensor less_than = right ? read <= values : read < values;
    below = where(less_than && next <= static_cast<double>(n), next, below);
  }
  return below;
}

}  // namespace lockstep
