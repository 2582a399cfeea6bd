// The functions of pooling.h.
#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/functions/spatial/pooling.h"
#include "core/functions/spatial/window.h"
#include "core/ops/checks.h"
#include "core/ops/rules.h"

namespace lockstep {

using functions::refuse;

namespace {
using List = std::vector<int64_t>;

SourceLine checked_line(std::string_view op, const Tensor& x, Here at) {
  if (!x.defined()) refuse(op, line_of(at), "the input is an empty Tensor");
  SourceLine line = source_line(*x.builder(), at);
  if (x.ndim() < 3 || x.ndim() > 5)
    refuse(op, line, str("input is ", x.text(), ", needs 3 to 5 dims: [N, C, 1 to 3 spatial dims]"));
  return line;
}
Window window(std::string_view op, size_t dims, List size, const PoolOptions& how, const SourceLine& line) {
  auto all = [&](const List& list, std::string_view role) { return per_dim(op, list, dims, role, line); };
  size = all(size, "window");
  const List stride = how.stride.empty() ? size : all(how.stride, "stride"),
             padding = all(how.padding, "padding");
  Window out{size, stride, padding, padding, all(how.dilation, "dilation")};
  for (const List* list : {&out.sizes, &out.stride, &out.dilation})
    for (int64_t n : *list)
      if (n < 1)
        refuse(op, line,
               str("window ", out.sizes, ", stride ", out.stride, ", dilation ", out.dilation,
                   ": each is 1 or more"));
  return out;
}
Attrs attrs(const Window& w) {
  Attrs out = attrs_of(w);
  out.set("sizes", w.sizes);
  return out;
}

// Windows of one dim over the elements of part i, the others as they are.
enum class Pool { mean, largest };
Tensor pool(Tensor x, const List& size, Pool kind, Here at) {
  return kind == Pool::mean ? avg_pool(x, size, {}, at) : max_pool(x, size, {}, at);
}
Tensor adaptive(std::string_view op, Tensor x, List out, Pool kind, Here at) {
  const SourceLine line = checked_line(op, x, at);
  const size_t dims = x.ndim() - 2;
  out = per_dim(op, out, dims, "output", line);
  for (size_t d = 0; d < dims; ++d)
    if (out[d] < 1 || x.size(static_cast<int>(d) + 2) < 1)
      refuse(op, line, str("output ", out, " of ", x.text(), ": every spatial size is 1 or more"));
  List even(dims, 1);
  for (size_t d = dims; d-- > 0;) {
    const int dim = static_cast<int>(d) + 2;
    const int64_t size = x.size(dim);
    if (size % out[d] == 0) {
      even[d] = size / out[d];
      continue;
    }
    std::vector<Tensor> parts;
    for (int64_t i = 0; i < out[d]; ++i) {
      const int64_t from = i * size / out[d], to = ((i + 1) * size + out[d] - 1) / out[d];
      List one(dims, 1);
      one[d] = to - from;
      parts.push_back(pool(slice(x, dim, from, to, at), one, kind, at));
    }
    x = concat(parts, dim, at);
  }
  const bool whole = std::all_of(even.begin(), even.end(), [](int64_t n) { return n == 1; });
  return whole ? x : pool(x, even, kind, at);
}
List spatial_dims(const Tensor& x) {
  List dims(x.ndim() - 2);
  std::iota(dims.begin(), dims.end(), 2);
  return dims;
}
}  // namespace

Tensor max_pool(Tensor x, List size, const PoolOptions& how, Here at) {
  const SourceLine line = checked_line("max_pool", x, at);
  const size_t dims = x.ndim() - 2;
  return apply(ops::max_pool, {x}, attrs(window("max_pool", dims, size, how, line)), at)[0];
}
Tensor avg_pool(Tensor x, List size, const PoolOptions& how, Here at) {
  const SourceLine line = checked_line("avg_pool", x, at);
  const size_t dims = x.ndim() - 2;
  Attrs node = attrs(window("avg_pool", dims, size, how, line));
  node.set("count_padding", how.count_padding);
  return apply1(ops::avg_pool, {x}, node, at);
}
Tensor adaptive_avg_pool(Tensor x, List out, Here at) {
  if (!x.defined()) return adaptive("adaptive_avg_pool", x, out, Pool::mean, at);
  return convert(
      adaptive("adaptive_avg_pool", convert(x, rules::statistic(x.dtype()), at), out, Pool::mean, at),
      x.dtype(), at);
}
Tensor adaptive_max_pool(Tensor x, List out, Here at) {
  return adaptive("adaptive_max_pool", x, out, Pool::largest, at);
}
Tensor global_avg_pool(Tensor x, Here at) {
  checked_line("global_avg_pool", x, at);
  return mean(x, spatial_dims(x), false, at);
}
Tensor global_max_pool(Tensor x, Here at) {
  checked_line("global_max_pool", x, at);
  const Shape shape = x.shape();
  return reshape(max_pool(x, {shape.begin() + 2, shape.end()}, {}, at), {shape[0], shape[1]}, at);
}

Tensor unfold(Tensor x, List size, const PoolOptions& how, Here at) {
  const SourceLine line = checked_line("unfold", x, at);
  const Window w = window("unfold", x.ndim() - 2, size, how, line);
  const auto dims = static_cast<int64_t>(w.dims());
  AtLine here(line);
  Tensor cut = windows_of(x, w, 0);
  List order{0, 1};
  for (int64_t d = 0; d < dims; ++d) order.push_back(2 + dims + d);
  for (int64_t d = 0; d < dims; ++d) order.push_back(2 + d);
  return reshape(permute(cut, order), {x.size(0), x.size(1) * numel(w.sizes), -1});
}
Tensor fold(Tensor columns, List spatial, List size, const PoolOptions& how, Here at) {
  if (!columns.defined()) refuse("fold", line_of(at), "the input is an empty Tensor");
  const SourceLine line = source_line(*columns.builder(), at);
  if (spatial.empty() || spatial.size() > 3)
    refuse("fold", line, str("spatial sizes ", spatial, ": 1 to 3 dims"));
  const Window w = window("fold", spatial.size(), size, how, line);
  Shape cut{0, 0};
  for (int64_t n : w.sizes) cut.push_back(n);
  for (size_t d = 0; d < w.dims(); ++d) cut.push_back(w.count(d, spatial[d]));
  const int64_t windows = numel({cut.begin() + 2 + static_cast<std::ptrdiff_t>(w.dims()), cut.end()});
  const int64_t places = numel(w.sizes);
  if (columns.ndim() != 3 || columns.size(1) % places != 0 || columns.size(2) != windows || windows == 0)
    refuse("fold", line,
           str("input is ", columns.text(), ", windows of ", w.sizes, " over ", spatial, " need [N, C * ",
               places, ", ", windows, "]"));
  cut[0] = columns.size(0), cut[1] = columns.size(1) / places;
  const auto dims = static_cast<int64_t>(w.dims());
  List order{0, 1};
  for (int64_t d = 0; d < dims; ++d) order.push_back(2 + dims + d);
  for (int64_t d = 0; d < dims; ++d) order.push_back(2 + d);
  AtLine here(line);
  return fold_windows(permute(reshape(columns, cut), order), w, spatial);
}

}  // namespace lockstep
