// Functions along dims that a random graph may draw: reductions, running sums, order, probabilities, norms.
#include <algorithm>
#include <cmath>

#include "tests/sweep/random_values.h"

namespace lockstep::sweep {

namespace {
constexpr double kEps = 0.1;  // rows that are nearly constant are not blown up

std::vector<int64_t> some_dims(RandomValues& values, const Known& x) {
  std::vector<int64_t> dims;
  for (int d = 0; d < x.ndim(); ++d)
    if (values.chance(0.5)) dims.push_back(values.chance(0.3) ? d - x.ndim() : d);
  if (dims.empty()) dims.push_back(x.ndim() - 1);
  return dims;
}
int64_t along(const Known& x, const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (int64_t d : dims) count *= x.tensor.size(static_cast<int>(d));
  return count;
}
int dim_of(RandomValues& values, const Known& x) {
  const int dim = static_cast<int>(values.below(x.ndim()));
  return values.chance(0.3) ? dim - x.ndim() : dim;
}

using Dims = std::vector<int64_t>;
// f over some dims of a float; `most` of x's magnitude and the number of elements that become one.
Move statistic(const char* name, double domain, Tensor (*f)(Tensor, Dims, bool),
               double (*most)(double, double)) {
  return {name, 2, false, [=](RandomValues& values) {
            auto x = values.floats(1);
            if (!x) return false;
            *x = values.within(*x, domain);
            const Dims dims = some_dims(values, *x);
            values.add(f(x->tensor, dims, values.chance(0.4)),
                       most(x->most, static_cast<double>(along(*x, dims))));
            return true;
          }};
}
// Chosen by comparisons: of integers, bool and exact floats.
Move chosen(const char* name, const std::function<void(RandomValues&, const Known&)>& draw) {
  return {name, 2, true, [=](RandomValues& values) {
            auto x = values.any([](const Known& k) { return k.exact() && k.ndim() > 0 && k.size() > 0; });
            if (!x) return false;
            draw(values, *x);
            return true;
          }};
}
Move along_dim(const char* name, double most, Tensor (*f)(Tensor, int)) {
  return {name, 3, false, [=](RandomValues& values) {
            auto x = values.floats(1);
            if (!x) return false;
            values.add(f(x->tensor, dim_of(values, *x)), std::max(most, 2 * x->most));
            return true;
          }};
}

void reductions(std::vector<Move>& out) {
  out.push_back({"sum", 4, false, [](RandomValues& v) {
                   auto x =
                       v.any([](const Known& k) { return !k.is_bool() && k.ndim() > 0 && k.size() > 0; });
                   if (!x) return false;
                   const Dims dims = some_dims(v, *x);
                   v.add(sum(x->tensor, dims, v.chance(0.4)), x->most * static_cast<double>(along(*x, dims)),
                         x->fraction);
                   return true;
                 }});
  out.insert(out.end(),
             {statistic(
                  "mean", 8, [](Tensor x, Dims d, bool k) { return mean(x, d, k); },
                  [](double m, double) { return m; }),
              statistic(
                  "var", 4, [](Tensor x, Dims d, bool k) { return var(x, d, 0, k); },
                  [](double m, double) { return m * m; }),
              statistic(
                  "prod", 1, [](Tensor x, Dims d, bool k) { return prod(x, d, k); },
                  [](double, double) { return 1.0; }),
              statistic(
                  "logsumexp", 8, [](Tensor x, Dims d, bool k) { return logsumexp(x, d, k); },
                  [](double m, double n) { return m + std::log(n); }),
              statistic(
                  "norm 2", 4, [](Tensor x, Dims d, bool k) { return norm(square(x) + 0.5, 2, d, k); },
                  [](double m, double n) { return (m * m + 1) * std::sqrt(n); }),
              statistic(
                  "norm 3", 2, [](Tensor x, Dims d, bool k) { return norm(square(x) + 0.5, 3, d, k); },
                  [](double m, double n) { return (m * m + 1) * std::cbrt(n); }),
              statistic(
                  "stddev", 4, [](Tensor x, Dims d, bool k) { return sqrt(var(x, d, 0, k) + kEps); },
                  [](double m, double) { return m + 1; })});
  out.push_back(
      {"any", 1, false, [](RandomValues& v) {
         auto x = v.any([](const Known& k) { return !k.is_float() && k.ndim() > 0 && k.size() > 0; });
         if (!x) return false;
         const Dims dims = some_dims(v, *x);
         v.add(v.chance(0.5) ? any(x->tensor, dims, v.chance(0.4)) : all(x->tensor, dims, v.chance(0.4)), 1,
               0);
         return true;
       }});
  out.insert(out.end(), {chosen("max",
                                [](RandomValues& v, const Known& x) {
                                  const Dims dims = some_dims(v, x);
                                  v.add(max(x.tensor, dims, v.chance(0.4)), x.most,
                                        x.is_float() ? x.fraction : 0);
                                }),
                         chosen("min", [](RandomValues& v, const Known& x) {
                           const Dims dims = some_dims(v, x);
                           v.add(min(x.tensor, dims, v.chance(0.4)), x.most, x.is_float() ? x.fraction : 0);
                         })});
}
void ordered(std::vector<Move>& out) {
  auto number = [](const char* name, const std::function<void(RandomValues&, const Known&, int)>& draw) {
    return chosen(name, [=](RandomValues& v, const Known& found) {
      const Known x = found.is_bool() ? v.input(DType::i32, found.shape()) : found;
      draw(v, x, dim_of(v, x));
    });
  };
  auto both = [](RandomValues& v, const Known& x, const ValuesAndIndices& made) {
    v.add(made.values, x.most, x.fraction);
    v.add(made.indices, 400, 0);
  };
  out.insert(out.end(),
             {number("argmax", [](RandomValues& v, const Known& x,
                                  int dim) { v.add(argmax(x.tensor, dim, v.chance(0.4)), 400, 0); }),
              number("argmin", [](RandomValues& v, const Known& x,
                                  int dim) { v.add(argmin(x.tensor, dim, v.chance(0.4)), 400, 0); }),
              number("max_with_index", [=](RandomValues& v, const Known& x,
                                           int dim) { both(v, x, max_with_index(x.tensor, dim)); }),
              number("min_with_index", [=](RandomValues& v, const Known& x,
                                           int dim) { both(v, x, min_with_index(x.tensor, dim, true)); }),
              number("sort", [=](RandomValues& v, const Known& x,
                                 int dim) { both(v, x, sort(x.tensor, dim, v.chance(0.5))); }),
              number("argsort",
                     [](RandomValues& v, const Known& x, int dim) { v.add(argsort(x.tensor, dim), 400, 0); }),
              number("topk",
                     [=](RandomValues& v, const Known& x, int dim) {
                       const int64_t k = v.between(1, std::min<int64_t>(3, x.tensor.size(dim)));
                       both(v, x, topk(x.tensor, k, dim, v.chance(0.5)));
                     }),
              number("median",
                     [=](RandomValues& v, const Known& x, int dim) { both(v, x, median(x.tensor, dim)); })});
  out.push_back({"cumsum", 2, false, [](RandomValues& v) {
                   auto x = v.any([](const Known& k) {
                     return !k.is_bool() && k.ndim() > 0 && k.size() > 0 && k.size() < 600;
                   });
                   if (!x) return false;
                   const int dim = dim_of(v, *x);
                   v.add(cumsum(x->tensor, dim), x->most * static_cast<double>(x->tensor.size(dim)),
                         x->fraction);
                   return true;
                 }});
  out.push_back({"cumprod", 1, false, [](RandomValues& v) {
                   auto x = v.floats(1);
                   if (!x || x->size() > 600) return false;
                   v.add(cumprod(v.within(*x, 1).tensor, dim_of(v, *x)), 1);
                   return true;
                 }});
}
void norms(std::vector<Move>& out) {
  out.insert(out.end(), {along_dim("softmax", 1, [](Tensor x, int dim) { return softmax(x, dim); }),
                         along_dim("log_softmax", 24, [](Tensor x, int dim) { return log_softmax(x, dim); }),
                         along_dim("normalize", 1,
                                   [](Tensor x, int dim) { return normalize(square(x) + 0.5, 2, dim); })});
  out.push_back({"softmax of rows", 2, false, [](RandomValues& v) {
                   auto x = v.floats(1);
                   if (!x) return false;
                   v.add(softmax(x->tensor), 1);
                   return true;
                 }});
  auto parameter = [](RandomValues& v, const Known& x, int64_t size) {
    return v.input(v.chance(0.7) ? x.tensor.dtype() : DType::f32, {size}).tensor;
  };
  out.push_back({"layer_norm", 3, false, [=](RandomValues& v) {
                   auto x = v.floats(1);
                   if (!x) return false;
                   const Tensor weight = parameter(v, *x, x->tensor.size(-1));
                   v.add(layer_norm(x->tensor, weight, v.input(weight.dtype(), weight.shape()).tensor, kEps),
                         16);
                   return true;
                 }});
  out.push_back({"rms_norm", 3, false, [=](RandomValues& v) {
                   auto x = v.floats(1);
                   if (!x) return false;
                   v.add(rms_norm(x->tensor, parameter(v, *x, x->tensor.size(-1)), kEps), 16);
                   return true;
                 }});
  // Of channels.
  out.push_back({"group_norm", 1, false, [](RandomValues& v) {
                   auto x = v.floats(3);
                   if (!x) return false;
                   const int64_t channels = x->tensor.size(1);
                   const int64_t groups =
                       channels % 2 == 0 && v.chance(0.6) ? 2 : v.pick<int64_t>({1, channels});
                   const DType dtype = x->tensor.dtype();
                   Tensor weight, bias;
                   if (v.chance(0.5))
                     weight = v.input(dtype, {channels}).tensor, bias = v.input(dtype, {channels}).tensor;
                   v.add(group_norm(x->tensor, groups, weight, bias, kEps), 24);
                   return true;
                 }});
  out.push_back({"instance_norm", 1, false, [](RandomValues& v) {
                   auto x = v.floats(3);
                   if (!x) return false;
                   v.add(instance_norm(x->tensor, {}, {}, kEps), 24);
                   return true;
                 }});
  out.push_back({"batch_norm", 2, false, [](RandomValues& v) {
                   auto x = v.floats(2);
                   if (!x) return false;
                   const Shape channels{x->tensor.size(1)};
                   const Tensor weight = v.input(x->tensor.dtype(), channels).tensor,
                                bias = v.input(x->tensor.dtype(), channels).tensor;
                   BatchNorm made = batch_norm(x->tensor, weight, bias, kEps);
                   v.add(made.y, 24);
                   if (v.chance(0.5)) v.add(made.mean, x->most), v.add(made.variance, x->most * x->most);
                   return true;
                 }});
}
}  // namespace

std::vector<Move> row_moves() {
  std::vector<Move> out;
  reductions(out);
  ordered(out);
  norms(out);
  return out;
}

}  // namespace lockstep::sweep
