// DLRM: an MLP over numbers, a table per category, products of every pair of their vectors, and an MLP to one
// logit. Naumov et al., arXiv 1906.00091.
//
// Shapes: D = width, n tables of rows[t]. FQNs are those of the original; layers have even numbers, since
// activations count, too.
//
//   bot_l.(2I).{weight [out,in],bias [out]}: dense -> bottom..., D
//   emb_l.T.weight [rows[T],D]
//   top_l.(2I).{weight,bias}: D + n (n + 1) / 2 -> top..., 1
//
// Initialisation, the original's: layers normal of variance 2 / (in + out), biases of variance 1 / out;
// tables uniform in +-1 / sqrt(rows).
#include <cmath>

#include "core/base/error.h"
#include "core/models/families.h"
#include "core/nn/layers.h"

namespace lockstep::models {

namespace {
struct DlrmOptions {
  int64_t dense = key(&dense, "dense", 13, "numbers of a sample", between(1, 0x1p20));
  std::vector<int64_t> rows =
      key(&rows, "rows", {1000, 1000, 1000, 1000}, "categories of each table; a sample has an id of each",
          between(1, 0x1p31 - 1));
  int64_t width = key(&width, "width", 16, "features of a category", between(1, 0x1p16));
  std::vector<int64_t> bottom =
      key(&bottom, "bottom", {64, 32}, "features inside the MLP of the numbers", between(1, 0x1p20));
  std::vector<int64_t> top =
      key(&top, "top", {64, 32}, "features inside the MLP of the products", between(1, 0x1p20));
  bool sparse = key(&sparse, "sparse", false,
                    "gradients and updates only of the table rows that a step reads; optim.kind is "
                    "sparse_adam, rowwise_adagrad, adagrad or sgd");
};

class Mlp {
 public:
  Mlp(const Scope& at, std::vector<int64_t> sizes) {
    for (size_t i = 0; i + 1 < sizes.size(); ++i) {
      const auto in = static_cast<double>(sizes[i]), out = static_cast<double>(sizes[i + 1]);
      layers_.emplace_back(
          at / static_cast<int64_t>(2 * i), sizes[i], sizes[i + 1], true,
          LinearInit{init::normal(std::sqrt(2 / (in + out))), init::normal(std::sqrt(1 / out))});
    }
  }
  // relu after every layer, after the last one only if `last`.
  Tensor operator()(Tensor x, bool last) const {
    for (size_t i = 0; i < layers_.size(); ++i) {
      x = layers_[i](x);
      if (last || i + 1 < layers_.size()) x = relu(x);
    }
    return x;
  }

 private:
  std::vector<Linear> layers_;
};

std::vector<int64_t> sizes(int64_t in, const std::vector<int64_t>& inner, int64_t out) {
  std::vector<int64_t> all{in};
  all.insert(all.end(), inner.begin(), inner.end());
  all.push_back(out);
  return all;
}

// The elements of x [B,n,n] below the diagonal, row by row: [B, n (n - 1) / 2]. Each element is one load,
// here and in the gradient. With n - 1 concatenated slices, and a sum of their pads in the gradient, a kernel
// would test every slice for each element.
Tensor below_diagonal(const Tensor& x) {
  const int64_t n = x.size(1), samples = x.size(0), count = n * (n - 1) / 2;
  auto begin = [](const Tensor& row) { return row * (row - 1) / 2; };  // the first element of a row
  // Takes element `place` of each sample of [B,m]
  auto take_at = [](const Tensor& from, const Tensor& place) {
    const Tensor at = place + iota_like(place, 0) * static_cast<double>(from.size(1));
    return reshape(take(reshape(from, {-1}), reshape(at, {-1})), place.shape());
  };
  const CustomGradient below = custom_gradient(
      [&](const std::vector<Tensor>& in) {
        const Tensor k = iota(in[0], {samples, count}, 1, DType::i32);
        // The rounded root may miss the row by one.
        Tensor row = convert((sqrt(convert(k, DType::f32) * 8 + 1) + 1) * 0.5, DType::i32);
        row = row + convert(begin(row + 1) <= k, DType::i32) - convert(begin(row) > k, DType::i32);
        return Computed{
            {take_at(reshape(in[0], {samples, n * n}), row * static_cast<double>(n) + k - begin(row))}};
      },
      [&](const std::vector<Tensor>&, const std::vector<Tensor>& dy) {
        const Tensor cell = iota(dy[0], {samples, n * n}, 1, DType::i32);
        const Tensor row = cell / static_cast<double>(n), column = cell - row * static_cast<double>(n);
        const Tensor inside = column < row;
        const Tensor taken = take_at(dy[0], where(inside, begin(row) + column, full_like(row, 0)));
        return std::vector{reshape(where(inside, taken, full_like(taken, 0)), {samples, n, n})};
      });
  return below({x})[0];
}

class Dlrm {
 public:
  Dlrm(const Scope& at, const DlrmOptions& o)
      : bottom_(at / "bot_l", sizes(o.dense, o.bottom, o.width)),
        top_(at / "top_l", sizes(o.width + products(o), o.top, 1)) {
    for (size_t t = 0; t < o.rows.size(); ++t) {
      const double bound = 1 / std::sqrt(static_cast<double>(o.rows[t]));
      tables_.emplace_back(at / "emb_l" / static_cast<int64_t>(t), o.rows[t], o.width,
                           EmbeddingOptions{init::uniform(-bound, bound), o.sparse});
    }
  }
  Tensor operator()(Tensor dense, Tensor categories) const {
    Tensor x = bottom_(dense, true);
    std::vector<Tensor> vectors{x};
    for (size_t t = 0; t < tables_.size(); ++t)
      vectors.push_back(tables_[t](select(categories, 1, static_cast<int64_t>(t))));
    Tensor all = stack(vectors, 1), each = bmm(all, transpose(all, 1, 2));  // [B,n+1,n+1]
    return top_(concat({x, below_diagonal(each)}, 1), false);
  }

 private:
  static int64_t products(const DlrmOptions& o) {
    const auto n = static_cast<int64_t>(o.rows.size());
    return n * (n + 1) / 2;
  }
  Mlp bottom_, top_;
  std::vector<Embedding> tables_;
};

std::vector<std::string> errors(const DlrmOptions& o) {
  if (o.rows.empty()) return {"model.rows is empty; give the categories of at least one table"};
  return {};
}
Model make(Scope at, const DlrmOptions& o, Here) {
  Dlrm net(at, o);
  return {
      {{"dense", DType::f32, {o.dense}}, {"categories", DType::i32, {static_cast<int64_t>(o.rows.size())}}},
      [net](const std::vector<Tensor>& in) { return std::vector{net(in[0], in[1])}; },
      1};
}
}  // namespace

const Family& dlrm() {
  static const Family row = family_of<DlrmOptions>(
      {.kind = "dlrm",
       .about = "DLRM: numbers and categories, products of every two, one logit (Naumov et al., 2019)",
       .output = Output::values,
       .task = "binary",
       .make = make,
       .errors = errors});
  return row;
}

}  // namespace lockstep::models
