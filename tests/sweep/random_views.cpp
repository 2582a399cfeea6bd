// Views that a random graph may draw: the same elements elsewhere, of any dtype.
#include <algorithm>
#include <numeric>

#include "tests/sweep/random_values.h"

namespace lockstep::sweep {

namespace {
using View = std::function<std::optional<Tensor>(RandomValues&, const Known&)>;

// A view of x keeps its elements, and what is known of them.
Move view(const char* name, int least_dims, const View& made) {
  return {name, 2, false, [=](RandomValues& values) {
            auto x = values.any([&](const Known& k) { return k.ndim() >= least_dims && k.size() > 0; });
            if (!x) return false;
            std::optional<Tensor> y = made(values, *x);
            if (!y) return false;
            values.add(*y, std::max(x->most, 0.5),
                       x->exact() ? std::max(x->fraction, x->is_float() ? 1 : 0) : kRounded);
            return true;
          }};
}
int dim_of(RandomValues& values, const Known& x) {
  const int dim = static_cast<int>(values.below(x.ndim()));
  return values.chance(0.3) ? dim - x.ndim() : dim;
}
std::vector<int64_t> random_order(RandomValues& values, int ndim) {
  std::vector<int64_t> order(static_cast<size_t>(ndim));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<size_t>(values.below(static_cast<int64_t>(i)))]);
  return order;
}
// As many elements in other dims: the prime factors dealt out anew.
Shape other_shape(RandomValues& values, int64_t elements) {
  std::vector<int64_t> primes;
  for (int64_t n = elements, p = 2; n > 1; ++p)
    for (; n % p == 0; n /= p) primes.push_back(p);
  Shape shape(static_cast<size_t>(values.between(1, 4)), 1);
  for (int64_t p : primes) shape[static_cast<size_t>(values.below(static_cast<int64_t>(shape.size())))] *= p;
  return shape;
}

void shape_functions(std::vector<Move>& out) {
  out.insert(
      out.end(),
      {view("reshape", 0,
            [](RandomValues& v, const Known& x) { return reshape(x.tensor, other_shape(v, x.size())); }),
       view("flatten", 2,
            [](RandomValues& v, const Known& x) {
              const int first = static_cast<int>(v.below(x.ndim() - 1));
              return flatten(x.tensor, first, static_cast<int>(v.between(first, x.ndim() - 1)));
            }),
       view("unsqueeze", 0,
            [](RandomValues& v, const Known& x) -> std::optional<Tensor> {
              if (x.ndim() >= 4) return std::nullopt;
              return unsqueeze(x.tensor, static_cast<int>(v.below(x.ndim() + 1)));
            }),
       view("squeeze", 1, [](RandomValues&, const Known& x) { return squeeze(x.tensor); }),
       view("permute", 2,
            [](RandomValues& v, const Known& x) { return permute(x.tensor, random_order(v, x.ndim())); }),
       view("transpose", 2,
            [](RandomValues& v, const Known& x) {
              const int from = dim_of(v, x), to = dim_of(v, x);
              return transpose(x.tensor, from, to);
            }),
       view("movedim", 2,
            [](RandomValues& v, const Known& x) {
              const int from = dim_of(v, x), to = dim_of(v, x);
              return movedim(x.tensor, from, to);
            }),
       view("broadcast_to", 0,
            [](RandomValues& v, const Known& x) -> std::optional<Tensor> {
              Shape shape = x.shape();
              for (int64_t& size : shape)
                if (size == 1) size = v.between(1, 4);
              if (v.chance(0.4)) shape.insert(shape.begin(), v.between(1, 4));
              if (!v.fits(shape)) return std::nullopt;
              return broadcast_to(x.tensor, shape);
            }),
       view("broadcast_dims", 1,
            [](RandomValues& v, const Known& x) -> std::optional<Tensor> {
              const auto order = random_order(v, x.ndim() + 1);
              Shape shape(order.size(), v.between(2, 3));
              std::vector<int64_t> dims(order.begin(), order.end() - 1);
              for (size_t d = 0; d < dims.size(); ++d) shape[static_cast<size_t>(dims[d])] = x.shape()[d];
              if (!v.fits(shape)) return std::nullopt;
              return broadcast_dims(x.tensor, shape, dims);
            }),
       view("repeat", 1,
            [](RandomValues& v, const Known& x) -> std::optional<Tensor> {
              std::vector<int64_t> times(static_cast<size_t>(x.ndim()), 1);
              times[static_cast<size_t>(v.below(x.ndim()))] = 2;
              if (v.chance(0.3)) times.insert(times.begin(), 2);
              if (x.size() > 100) return std::nullopt;
              return repeat(x.tensor, times);
            }),
       view("repeat_interleave", 1,
            [](RandomValues& v, const Known& x) -> std::optional<Tensor> {
              if (x.size() > 150) return std::nullopt;
              const int dim = dim_of(v, x);
              return repeat_interleave(x.tensor, v.between(1, 3), dim);
            }),
       view("meshgrid", 1, [](RandomValues& v, const Known& x) -> std::optional<Tensor> {
         if (x.ndim() != 1 || x.size() > 7) return std::nullopt;
         return meshgrid({x.tensor, flip(x.tensor, {0})})[static_cast<size_t>(v.below(2))];
       })});
}
void part_functions(std::vector<Move>& out) {
  out.insert(out.end(),
             {view("slice", 1,
                   [](RandomValues& v, const Known& x) {
                     const int dim = dim_of(v, x);
                     const int64_t size = x.tensor.size(dim), start = v.below(size);
                     return slice(x.tensor, dim, start, v.between(start + 1, size));
                   }),
              view("slice by steps", 1,
                   [](RandomValues& v, const Known& x) {
                     const int dim = dim_of(v, x);
                     const int64_t size = x.tensor.size(dim), start = v.below(size);
                     const int64_t from = v.chance(0.3) ? start - size : start,
                                   end = v.chance(0.5) ? size + 2 : size;
                     return slice(x.tensor, dim, from, end, v.between(1, 3));
                   }),
              view("select", 1,
                   [](RandomValues& v, const Known& x) {
                     const int dim = dim_of(v, x);
                     const int64_t size = x.tensor.size(dim);
                     return select(x.tensor, dim, v.between(-size, size - 1));
                   }),
              view("split", 1,
                   [](RandomValues& v, const Known& x) {
                     const int dim = dim_of(v, x);
                     const int64_t size = x.tensor.size(dim), first = v.below(size);
                     auto parts = split(x.tensor, dim, {first, size - first});
                     return concat({parts[1], parts[0]}, dim);
                   }),
              view("chunk", 1,
                   [](RandomValues& v, const Known& x) {
                     const int dim = dim_of(v, x);
                     return chunk(x.tensor, v.between(1, 3), dim).back();
                   }),
              view("unbind", 1,
                   [](RandomValues& v, const Known& x) {
                     auto parts = unbind(x.tensor, dim_of(v, x));
                     return parts[static_cast<size_t>(v.below(static_cast<int64_t>(parts.size())))];
                   }),
              view("concat", 1,
                   [](RandomValues& v, const Known& x) -> std::optional<Tensor> {
                     if (x.size() > 200) return std::nullopt;
                     const int dim = dim_of(v, x);
                     auto other = v.any([&](const Known& k) {
                       if (k.tensor.dtype() != x.tensor.dtype() || k.ndim() != x.ndim() || !k.exact() ||
                           k.most > x.most || k.fraction > x.fraction)
                         return false;
                       for (int d = 0; d < x.ndim(); ++d)
                         if (d != (dim + x.ndim()) % x.ndim() && k.tensor.size(d) != x.tensor.size(d))
                           return false;
                       return true;
                     });
                     return concat({other ? other->tensor : flip(x.tensor, {dim}), x.tensor}, dim);
                   }),
              view("stack", 0,
                   [](RandomValues& v, const Known& x) -> std::optional<Tensor> {
                     if (x.size() > 150 || x.ndim() > 3) return std::nullopt;
                     const Tensor other = x.ndim() > 0 ? roll(x.tensor, 1, 0) : x.tensor;
                     return stack({x.tensor, other, x.tensor}, static_cast<int>(v.below(x.ndim() + 1)));
                   }),
              view("pad", 1,
                   [](RandomValues& v, const Known& x) -> std::optional<Tensor> {
                     if (x.is_bool() || x.size() > 150) return std::nullopt;
                     std::vector<int64_t> lo(static_cast<size_t>(x.ndim()), 0), hi = lo;
                     lo[static_cast<size_t>(v.below(x.ndim()))] = v.below(3),
                     hi[static_cast<size_t>(v.below(x.ndim()))] = v.below(3);
                     return pad(x.tensor, lo, hi, x.is_int() ? 0 : 0.5);
                   }),
              view("pad by x", 1,
                   [](RandomValues& v, const Known& x) -> std::optional<Tensor> {
                     const size_t dim = static_cast<size_t>(v.below(x.ndim()));
                     if (x.size() > 150 || x.shape()[dim] < 2) return std::nullopt;
                     std::vector<int64_t> lo(static_cast<size_t>(x.ndim()), 0), hi = lo;
                     lo[dim] = v.below(2), hi[dim] = 1;
                     return pad(x.tensor, lo, hi,
                                v.pick({PadMode::reflect, PadMode::replicate, PadMode::circular}));
                   }),
              view("roll", 1,
                   [](RandomValues& v, const Known& x) {
                     const int dim = dim_of(v, x);
                     return roll(x.tensor, v.between(-4, 4), dim);
                   }),
              view("flip", 1,
                   [](RandomValues& v, const Known& x) {
                     std::vector<int64_t> dims = random_order(v, x.ndim());
                     dims.resize(static_cast<size_t>(v.between(1, x.ndim())));
                     return flip(x.tensor, dims);
                   }),
              view("tril", 2,
                   [](RandomValues& v, const Known& x) -> std::optional<Tensor> {
                     if (x.is_bool()) return std::nullopt;
                     return tril(x.tensor, v.between(-2, 2));
                   }),
              view("triu", 2, [](RandomValues& v, const Known& x) -> std::optional<Tensor> {
                if (x.is_bool()) return std::nullopt;
                return triu(x.tensor, v.between(-2, 2));
              })});
}
}  // namespace

std::vector<Move> view_moves() {
  std::vector<Move> out;
  shape_functions(out);
  part_functions(out);
  return out;
}

}  // namespace lockstep::sweep
