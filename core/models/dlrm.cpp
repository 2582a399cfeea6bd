// DLRM: numbers through an MLP, categories through a table each, products of every two of them, an MLP to one
// logit. Naumov et al., arXiv 1906.00091.
//
// Shapes: D = width, n tables of rows[t]. FQNs are those of the original; layers stand at even numbers, the
// activations between them have none.
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
                    "gradients and updates of the rows that a step takes of a table alone; optim.kind is "
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
  // relu behind every layer, behind the last one only where `last`.
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
    std::vector<Tensor> parts{x};
    for (int64_t i = 1; i < each.size(1); ++i) parts.push_back(slice(select(each, 1, i), 1, 0, i));
    return top_(concat(parts, 1), false);
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
