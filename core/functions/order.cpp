// Scans by shifted copies; sorting by a bitonic network on keys that contain the element's index.
#include "core/functions/order.h"

#include "core/functions/creation.h"
#include "core/functions/index.h"
#include "core/functions/operators.h"
#include "core/functions/pointwise.h"
#include "core/functions/reduce.h"
#include "core/functions/shape.h"
#include "core/ops/checks.h"

namespace lockstep {

using namespace functions;

namespace {
constexpr double kPlaces = 0x1p32;              // the key is above the 32 bits of the index
constexpr double kLast = 0x1.fffffffffffffp62;  // greater than all keys

// Hillis and Steele's scan: after the step with shift s each element has the sum of the 2 s elements up to
// it.
Tensor scan(std::string_view name, Tensor x, int dim, bool product, Here at) {
  need(name, {x}, at);
  if (x.dtype() == DType::boolean)
    refuse(name, {x}, at, str("input 0 is ", x.text(), ", needs numbers; convert it to i64?"));
  const int64_t d = dim_of(name, x, dim, at), size = x.shape()[d];
  x = under_policy(name, x, at);
  InFunction line(x, at);
  Tensor y = is_float(x.dtype()) ? rules::wide(x) : x;
  for (int64_t shift = 1; shift < size; shift *= 2) {
    std::vector<int64_t> lo(x.shape().size(), 0), hi = lo;
    lo[d] = shift;
    Tensor moved = pad(slice(y, static_cast<int>(d), 0, size - shift), lo, hi, product ? 1 : 0);
    y = product ? y * moved : y + moved;
  }
  return convert(y, x.dtype());
}

// [..., n] as i64: the rank order of x in the upper bits, the index in the lower ones; all are distinct.
Tensor keys(std::string_view name, Tensor x, bool descending, Here at) {
  Tensor key;
  if (is_float(x.dtype()) && x.dtype() != DType::f64) {
    x = rules::wide(x);
    // f32 is ordered by its bits; those of negative numbers are in reverse order.
    Tensor bits = bitcast(where(x == 0, full_like(x, 0), x), DType::i32);
    key = where(bits < 0, bits ^ full_like(bits, 0x7fffffff), bits);
    key = where(isnan(x), full_like(key, 0x7fffffff), key);
  } else if (is_integer(x.dtype()) && size_of(x.dtype()) <= 4) {
    key = x;
  } else {
    refuse(name, {x}, at,
           str("input 0 is ", x.text(), ", needs f32, bf16, f16 or integers of at most 32 bits"));
  }
  const bool above = key.dtype() == DType::u32;  // half of these keys would not fit above their indices
  key = convert(key, DType::i64);
  if (above) key = key - 0x1p31;
  if (descending) key = -1.0 - key;
  return key * kPlaces + iota(x, x.shape(), -1, DType::i64);
}
Tensor place_of(Tensor key) { return convert(key & full_like(key, kPlaces - 1), DType::i32); }

// A bitonic sort, ascending, along the last dim, whose size is a power of two. Runs of 2, 4, 8, ... elements,
// every other one descending, are merged by comparing and exchanging elements `apart` positions from each
// other.
Tensor network(Tensor key) {
  const Shape whole = key.shape();
  const int64_t n = whole.back();
  for (int64_t run = 2; run <= n; run *= 2)
    for (int64_t apart = run / 2; apart >= 1; apart /= 2) {
      Shape pairs(whole.begin(), whole.end() - 1);
      pairs.insert(pairs.end(), {n / (2 * apart), 2, apart});
      const int d = static_cast<int>(whole.size());
      Tensor both = reshape(key, pairs), a = slice(both, d, 0, 1), b = slice(both, d, 1, 2);
      Tensor lower = minimum(a, b), upper = maximum(a, b);
      if (run < n) {
        Tensor pair = iota(key, a.shape(), d - 1, DType::i32);
        Tensor up = (pair & full_like(pair, static_cast<double>(run / (2 * apart)))) == 0;
        Tensor first = where(up, lower, upper);
        upper = where(up, upper, lower);
        lower = first;
      }
      key = reshape(concat({lower, upper}, d), whole);
    }
  return key;
}

// x with `dim` last, and the permutation that moves it back.
struct Turned {
  Turned(Tensor x, int64_t dim) : tensor(movedim(x, static_cast<int>(dim), -1)), dim(static_cast<int>(dim)) {}
  Tensor back(Tensor y) const { return movedim(y, -1, dim); }
  Tensor tensor;
  int dim;
};
ValuesAndIndices chosen(const Turned& turned, Tensor places) {
  return {turned.back(gather(turned.tensor, -1, places)), turned.back(places)};
}
// The network needs a power of two, so the keys are padded by larger ones, which end up last and are cut off.
Tensor sorted_places(std::string_view name, Tensor x, bool descending, Here at) {
  const int64_t n = x.size(-1);
  int64_t whole = 1;
  while (whole < n) whole *= 2;
  Tensor key = keys(name, x, descending, at);
  std::vector<int64_t> lo(x.shape().size(), 0), hi = lo;
  hi.back() = whole - n;
  if (whole > n) key = pad(key, lo, hi, kLast);
  return place_of(slice(network(key), -1, 0, n));
}

ValuesAndIndices extreme(std::string_view name, OpId op, Tensor x, int dim, bool keep, Here at) {
  need(name, {x}, at);
  const int64_t d = dim_of(name, x, dim, at);
  InFunction line(x, at);
  Tensor index = apply1(op, {x}, {{"dim", d}});
  Shape one = x.shape();
  one[d] = 1;
  Tensor hit = iota_like(x, static_cast<int>(d)) == reshape(index, one);
  Tensor values = sum(where(hit, x, full_like(x, 0)), {d}, keep);
  return {values, keep ? reshape(index, one) : index};
}
}  // namespace

Tensor cumsum(Tensor x, int dim, Here at) { return scan("cumsum", x, dim, false, at); }
Tensor cumprod(Tensor x, int dim, Here at) { return scan("cumprod", x, dim, true, at); }

ValuesAndIndices max_with_index(Tensor x, int dim, bool keep, Here at) {
  return extreme("max_with_index", ops::argmax, x, dim, keep, at);
}
ValuesAndIndices min_with_index(Tensor x, int dim, bool keep, Here at) {
  return extreme("min_with_index", ops::argmin, x, dim, keep, at);
}

ValuesAndIndices sort(Tensor x, int dim, bool descending, Here at) {
  need("sort", {x}, at);
  const Turned turned(x, dim_of("sort", x, dim, at));
  InFunction line(x, at);
  return chosen(turned, sorted_places("sort", turned.tensor, descending, at));
}
Tensor argsort(Tensor x, int dim, bool descending, Here at) {
  need("argsort", {x}, at);
  const Turned turned(x, dim_of("argsort", x, dim, at));
  InFunction line(x, at);
  return turned.back(sorted_places("argsort", turned.tensor, descending, at));
}
ValuesAndIndices topk(Tensor x, int64_t k, int dim, bool largest, Here at) {
  need("topk", {x}, at);
  const int64_t d = dim_of("topk", x, dim, at), n = x.shape()[d];
  if (k < 1 || k > n)
    refuse("topk", {x}, at, str("k is ", k, ", dim ", d, " of ", x.text(), " has ", n, " elements"));
  const Turned turned(x, d);
  InFunction line(x, at);
  int64_t passes = 0;  // of a sort
  for (int64_t run = 1, level = 0; run < n; run *= 2) passes += ++level;
  if (2 * k > passes)
    return chosen(turned, slice(sorted_places("topk", turned.tensor, largest, at), -1, 0, k));
  Tensor key = keys("topk", turned.tensor, largest, at);
  std::vector<Tensor> best;
  for (int64_t i = 0; i < k; ++i) {
    best.push_back(min(key, {-1}, true));
    if (i + 1 < k) key = where(key == best.back(), full_like(key, kLast), key);
  }
  return chosen(turned, place_of(concat(best, -1)));
}
ValuesAndIndices median(Tensor x, int dim, bool keep, Here at) {
  need("median", {x}, at);
  const int64_t d = dim_of("median", x, dim, at), n = x.shape()[d];
  if (n == 0) refuse("median", {x}, at, str("dim ", d, " of ", x.text(), " is empty"));
  const Turned turned(x, d);
  InFunction line(x, at);
  Tensor places = sorted_places("median", turned.tensor, false, at);
  Tensor middle = slice(places, -1, (n - 1) / 2, (n - 1) / 2 + 1);
  if (is_float(x.dtype())) {  // NaN is last
    Tensor last = slice(places, -1, n - 1, n);
    middle = where(isnan(gather(turned.tensor, -1, last)), last, middle);
  }
  ValuesAndIndices out = chosen(turned, middle);
  return keep ? out : ValuesAndIndices{squeeze(out.values, turned.dim), squeeze(out.indices, turned.dim)};
}

}  // namespace lockstep
