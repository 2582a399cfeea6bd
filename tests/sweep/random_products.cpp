// Functions that a random graph may draw: contractions, indices, convolutions, pools, attention, losses.
#include <algorithm>
#include <cmath>

#include "core/functions/spatial/convolution.h"
#include "core/functions/spatial/pooling.h"
#include "tests/sweep/random_values.h"

namespace lockstep::sweep {

namespace {
Move of_floats(const char* name, int weight, int least_dims, int most_dims,
               const std::function<bool(RandomValues&, const Known&)>& draw) {
  return {name, weight, false, [=](RandomValues& values) {
            auto x = values.floats(least_dims, most_dims);
            return x && x->size() <= 2000 && draw(values, *x);
          }};
}
// Sums of n products of elements of a and b.
void add_product(RandomValues& values, Tensor made, const Known& a, const Known& b, int64_t n) {
  values.add(made, a.most * b.most * static_cast<double>(std::max<int64_t>(n, 1)),
             a.exact() && b.exact() ? a.fraction + b.fraction : kRounded);
}
// A weight of this shape: a value that has it, or a new input.
Known weight(RandomValues& values, const Known& x, const Shape& shape) {
  auto known =
      values.any([&](const Known& k) { return k.tensor.dtype() == x.tensor.dtype() && k.shape() == shape; });
  return known ? *known : values.input(x.tensor.dtype(), shape);
}

void contractions(std::vector<Move>& out) {
  out.insert(
      out.end(),
      {of_floats("matmul", 4, 1, 4,
                 [](RandomValues& v, const Known& x) {
                   const int64_t k = x.tensor.size(-1), n = v.between(1, 6);
                   Shape shape{k, n};
                   if (v.chance(0.2)) shape = {k};
                   if (x.ndim() > 2 && v.chance(0.5))
                     shape.insert(shape.begin(), x.tensor.size(-3)), shape.resize(3, n), shape[1] = k;
                   const Known b = weight(v, x, shape);
                   add_product(v, matmul(x.tensor, b.tensor), x, b, k);
                   return true;
                 }),
       of_floats("matmul with itself", 2, 2, 4,
                 [](RandomValues& v, const Known& x) {
                   const bool left = v.chance(0.5);
                   const Tensor y = transpose(x.tensor, -1, -2);
                   add_product(v, left ? matmul(y, x.tensor) : matmul(x.tensor, y), x, x,
                               x.tensor.size(left ? -2 : -1));
                   return true;
                 }),
       of_floats("linear", 4, 1, 4,
                 [](RandomValues& v, const Known& x) {
                   const int64_t n = v.between(1, 7);
                   const Known w = weight(v, x, {n, x.tensor.size(-1)});
                   const Tensor bias = v.chance(0.5) ? v.input(x.tensor.dtype(), {n}).tensor : Tensor{};
                   v.add(linear(x.tensor, w.tensor, bias),
                         x.most * w.most * static_cast<double>(x.tensor.size(-1)) + 2);
                   return true;
                 }),
       of_floats("outer", 1, 1, 1,
                 [](RandomValues& v, const Known& x) {
                   const Known b = weight(v, x, {v.between(1, 6)});
                   add_product(v, outer(x.tensor, b.tensor), x, b, 1);
                   return true;
                 }),
       of_floats("tensordot", 1, 2, 3,
                 [](RandomValues& v, const Known& x) {
                   const Known b = weight(v, x, {x.tensor.size(1), v.between(1, 4), x.tensor.size(0)});
                   add_product(v, tensordot(x.tensor, b.tensor, {0, 1}, {2, 0}), x, b,
                               x.tensor.size(0) * x.tensor.size(1));
                   return true;
                 }),
       of_floats("einsum of matrices", 2, 2, 2,
                 [](RandomValues& v, const Known& x) {
                   const int64_t i = x.tensor.size(0), j = x.tensor.size(1);
                   const Known b = weight(v, x, {j, i}), c = weight(v, x, {j});
                   const int which = static_cast<int>(v.below(4));
                   const Tensor made = which == 0   ? einsum("ij,ji->i", {x.tensor, b.tensor})
                                       : which == 1 ? einsum("ij,jk->ki", {x.tensor, b.tensor})
                                       : which == 2 ? einsum("ij,j->ji", {x.tensor, c.tensor})
                                                    : einsum("ij,j,ji->j", {x.tensor, c.tensor, b.tensor});
                   v.add(made, x.most * b.most * c.most * static_cast<double>(i * j));
                   return true;
                 }),
       of_floats("einsum of batches", 2, 3, 3,
                 [](RandomValues& v, const Known& x) {
                   const Known b = weight(v, x, {x.tensor.size(0), x.tensor.size(2), v.between(1, 4)});
                   const Tensor made = v.chance(0.5) ? einsum("bij,bjk->bik", {x.tensor, b.tensor})
                                                     : einsum("bij,bjk->kb", {x.tensor, b.tensor});
                   v.add(made, x.most * b.most * static_cast<double>(x.size()));
                   return true;
                 }),
       of_floats("sdpa", 2, 4, 4, [](RandomValues& v, const Known& x) {
         AttentionOptions how;
         how.causal = v.chance(0.5);
         if (!how.causal && v.chance(0.3))
           how.mask = v.input(DType::boolean, {1, 1, x.tensor.size(1), x.tensor.size(1)}).tensor;
         const Known k = weight(v, x, x.shape());
         v.add(sdpa(x.tensor, k.tensor, x.tensor, how), x.most);
         return true;
       })});
}

void indices(std::vector<Move>& out) {
  out.insert(
      out.end(),
      {of_floats("take", 3, 1, 3,
                 [](RandomValues& v, const Known& x) {
                   const Known from = v.integers();
                   if (from.size() * x.size() > 4000) return false;
                   v.add(take(x.tensor, v.ids(from, x.tensor.size(0))), x.most, x.fraction);
                   return true;
                 }),
       of_floats("embedding", 2, 2, 2,
                 [](RandomValues& v, const Known& x) {
                   const Known from = v.integers();
                   if (from.size() * x.size() > 4000) return false;
                   const Tensor ids = v.ids(from, x.tensor.size(0));
                   const bool padded = v.chance(0.3);
                   v.add(padded ? embedding(x.tensor, ids, 0) : embedding(x.tensor, ids), x.most, x.fraction);
                   if (padded) v.smooth = false;  // the padding's row is read, and has no gradient
                   return true;
                 }),
       of_floats("embedding_bag", 1, 2, 2,
                 [](RandomValues& v, const Known& x) {
                   const Known from = v.input(DType::i32, {v.between(1, 3), v.between(1, 4)});
                   v.add(
                       embedding_bag(x.tensor, v.ids(from, x.tensor.size(0)), v.pick({Bag::sum, Bag::mean})),
                       4 * x.most);
                   return true;
                 }),
       of_floats("index_add", 2, 1, 3,
                 [](RandomValues& v, const Known& x) {
                   const int64_t count = v.between(1, 5);
                   const Known from = v.input(DType::i32, {x.tensor.size(0)});
                   v.add(index_add(v.ids(from, count), x.tensor, count),
                         x.most * static_cast<double>(x.tensor.size(0)), x.fraction);
                   return true;
                 }),
       of_floats("index_select", 2, 1, 3,
                 [](RandomValues& v, const Known& x) {
                   const int dim = static_cast<int>(v.below(x.ndim()));
                   const Known from = v.input(DType::i32, {v.between(1, 5)});
                   v.add(index_select(x.tensor, dim, v.ids(from, x.tensor.size(dim))), x.most, x.fraction);
                   return true;
                 }),
       of_floats("gather", 2, 1, 3,
                 [](RandomValues& v, const Known& x) {
                   const int dim = static_cast<int>(v.below(x.ndim()));
                   const Known from = v.input(DType::i32, x.shape());
                   v.add(gather(x.tensor, dim, v.ids(from, x.tensor.size(dim))), x.most, x.fraction);
                   return true;
                 }),
       of_floats("scatter_add", 2, 1, 3,
                 [](RandomValues& v, const Known& x) {
                   const int dim = static_cast<int>(v.below(x.ndim()));
                   const Known from = v.input(DType::i32, x.shape());
                   const Known source = weight(v, x, x.shape());
                   v.add(scatter_add(x.tensor, dim, v.ids(from, x.tensor.size(dim)), source.tensor),
                         x.most + source.most * static_cast<double>(x.tensor.size(dim)));
                   return true;
                 }),
       of_floats("scatter", 1, 1, 3,
                 [](RandomValues& v, const Known& x) {
                   const int dim = static_cast<int>(v.below(x.ndim()));
                   const Known from = v.input(DType::i32, x.shape());
                   v.add(scatter(x.tensor, dim, v.ids(from, x.tensor.size(dim)), 0.5), x.most + 1);
                   return true;
                 }),
       of_floats("one_hot", 1, 0, 5, [](RandomValues& v, const Known& x) {
         const Known from = v.integers();
         if (from.ndim() > 3 || from.size() > 150) return false;
         v.add(one_hot(from.tensor, 4, x.tensor.dtype()), 1, 0);
         return true;
       })});
}

// x as [batch, channels, places...] with 1 or 2 dims of places.
Known as_image(const Known& x) {
  Known out = x;
  while (out.tensor.ndim() < 3) out.tensor = unsqueeze(out.tensor, 0);
  return out;
}
int spatial(const Known& x) { return x.tensor.ndim() - 2; }
int64_t smallest_place(const Known& x) {
  int64_t out = x.tensor.size(2);
  for (int d = 3; d < x.tensor.ndim(); ++d) out = std::min(out, x.tensor.size(d));
  return out;
}

void images(std::vector<Move>& out) {
  out.insert(out.end(),
             {of_floats("convolution", 4, 1, 4,
                        [](RandomValues& v, const Known& given) {
                          const Known x = as_image(given);
                          const int64_t channels = x.tensor.size(1),
                                        size = v.between(1, std::min<int64_t>(3, smallest_place(x)));
                          ConvolutionOptions how;
                          how.groups = channels % 2 == 0 && v.chance(0.4) ? 2 : 1;
                          how.stride = {v.between(1, 2)}, how.padding = {v.below(2)};
                          if (v.chance(0.3) && (size - 1) * 2 < smallest_place(x)) how.dilation = {2};
                          Shape shape{how.groups * v.between(1, 3), channels / how.groups};
                          for (int d = 0; d < spatial(x); ++d) shape.push_back(size);
                          const Known w = weight(v, x, shape);
                          const Tensor bias =
                              v.chance(0.5) ? v.input(x.tensor.dtype(), {shape[0]}).tensor : Tensor{};
                          v.add(convolution(x.tensor, w.tensor, bias, how),
                                x.most * w.most * static_cast<double>(numel(shape) / shape[0]) + 2);
                          return true;
                        }),
              of_floats("convolution_transposed", 2, 1, 4,
                        [](RandomValues& v, const Known& given) {
                          const Known x = as_image(given);
                          TransposedOptions how;
                          how.stride = {v.between(1, 2)};
                          Shape shape{x.tensor.size(1), v.between(1, 3)};
                          for (int d = 0; d < spatial(x); ++d) shape.push_back(v.between(1, 2));
                          if (x.size() > 200) return false;
                          const Known w = weight(v, x, shape);
                          v.add(convolution_transposed(x.tensor, w.tensor, {}, how),
                                x.most * w.most * static_cast<double>(numel(shape)));
                          return true;
                        }),
              of_floats("avg_pool", 2, 1, 4,
                        [](RandomValues& v, const Known& given) {
                          const Known x = as_image(given);
                          PoolOptions how;
                          how.stride = {v.between(1, 2)}, how.count_padding = v.chance(0.5);
                          const int64_t size = v.between(1, std::min<int64_t>(3, smallest_place(x)));
                          how.padding = {size > 1 ? v.below(2) : 0};
                          v.add(avg_pool(x.tensor, {size}, how), x.most);
                          return true;
                        }),
              of_floats("adaptive_avg_pool", 1, 1, 4,
                        [](RandomValues& v, const Known& given) {
                          v.add(adaptive_avg_pool(as_image(given).tensor, {v.between(1, 3)}), given.most);
                          return true;
                        }),
              of_floats("unfold", 1, 1, 4,
                        [](RandomValues& v, const Known& given) {
                          const Known x = as_image(given);
                          if (x.size() > 150) return false;
                          PoolOptions how;
                          how.stride = {1};
                          v.add(unfold(x.tensor, {std::min<int64_t>(2, smallest_place(x))}, how), x.most,
                                x.fraction);
                          return true;
                        }),
              of_floats("interpolate_linear", 1, 1, 4,
                        [](RandomValues& v, const Known& given) {
                          const Known x = as_image(given);
                          if (x.size() > 150) return false;
                          const Shape places(static_cast<size_t>(spatial(x)), v.between(1, 4));
                          v.add(interpolate_linear(x.tensor, places, v.chance(0.5)), x.most);
                          return true;
                        }),
              of_floats("interpolate_nearest", 1, 1, 4, [](RandomValues& v, const Known& given) {
                const Known x = as_image(given);
                if (x.size() > 150) return false;
                v.add(interpolate_nearest(x.tensor, Shape(static_cast<size_t>(spatial(x)), v.between(1, 4))),
                      x.most, x.fraction);
                return true;
              })});
  out.push_back({"max_pool", 3, true, [](RandomValues& v) {
                   auto given = v.exact_floats(1, 4);
                   if (!given || given->size() > 2000) return false;
                   const Known x = as_image(*given);
                   PoolOptions how;
                   how.stride = {v.between(1, 2)};
                   const int64_t size = v.between(1, std::min<int64_t>(3, smallest_place(x)));
                   how.padding = {size > 1 ? v.below(2) : 0};
                   v.add(v.chance(0.8) ? max_pool(x.tensor, {size}, how) : adaptive_max_pool(x.tensor, {2}),
                         x.most, x.fraction);
                   return true;
                 }});
}

Tensor mean_of(const Loss& loss) { return loss.sum / convert(loss.count, loss.sum.dtype()); }
void losses(std::vector<Move>& out) {
  out.insert(
      out.end(),
      {of_floats("cross_entropy", 3, 1, 3,
                 [](RandomValues& v, const Known& x) {
                   Shape rows = x.shape();
                   rows.pop_back();
                   const Tensor targets = v.ids(v.input(DType::i32, rows), x.tensor.size(-1));
                   CrossEntropyOptions how;
                   const int which = static_cast<int>(v.below(4));
                   if (which == 1) how.smoothing = 0.1;
                   if (which == 2) how.z_loss = 0.01;
                   v.add(mean_of(which == 0 ? cross_entropy(x.tensor, targets)
                                            : cross_entropy(x.tensor, targets, how)),
                         24);
                   return true;
                 }),
       of_floats("mse_loss", 2, 0, 4,
                 [](RandomValues& v, const Known& x) {
                   const Known target = weight(v, x, x.shape());
                   v.add(mean_of(mse_loss(x.tensor, target.tensor)),
                         4 * (x.most + target.most) * (x.most + target.most));
                   return true;
                 }),
       of_floats("binary_cross_entropy_with_logits", 1, 0, 4,
                 [](RandomValues& v, const Known& x) {
                   const Tensor target = sigmoid(weight(v, x, x.shape()).tensor);
                   v.add(mean_of(binary_cross_entropy_with_logits(x.tensor, target)), 2 * x.most + 2);
                   v.smooth = false;  // |x| stands in it
                   return true;
                 }),
       of_floats("soft_cross_entropy", 1, 1, 3,
                 [](RandomValues& v, const Known& x) {
                   v.add(mean_of(soft_cross_entropy(x.tensor, softmax(weight(v, x, x.shape()).tensor))), 24);
                   return true;
                 }),
       of_floats("kl_div", 1, 1, 3,
                 [](RandomValues& v, const Known& x) {
                   const Tensor target = softmax(weight(v, x, x.shape()).tensor);
                   v.add(mean_of(kl_div(log_softmax(x.tensor), target)), 50);
                   return true;
                 }),
       of_floats("cosine_similarity", 1, 2, 2,
                 [](RandomValues& v, const Known& x) {
                   const Tensor a = square(x.tensor) + 0.5,
                                b = exp(v.within(weight(v, x, x.shape()), 1).tensor);
                   v.add(cosine_similarity(a, b), 1);
                   return true;
                 }),
       of_floats("custom_gradient", 1, 0, 4, [](RandomValues& v, const Known& x) {
         auto f = custom_gradient(
             [](const std::vector<Tensor>& in) { return Computed{{sin(in[0])}, {cos(in[0])}}; },
             [](const std::vector<Tensor>& saved, const std::vector<Tensor>& dy) {
               return std::vector<Tensor>{dy[0] * saved[0]};
             });
         v.add(f({x.tensor})[0], 1);
         return true;
       })});
}
}  // namespace

std::vector<Move> product_moves() {
  std::vector<Move> out;
  contractions(out);
  indices(out);
  images(out);
  losses(out);
  return out;
}

}  // namespace lockstep::sweep
