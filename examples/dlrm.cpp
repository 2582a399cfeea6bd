// Recommendation: floats, categories, and bags of ids (Naumov et al., arXiv 1906.00091):
//   trainrun --nproc 2 ./example-dlrm runs/dlrm 100 [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

constexpr int64_t kDense = 8, kTables = 3, kRows = 50, kBag = 6, kWidth = 16;

struct Dlrm {
  Linear bottom, top, out;  Parameter bag;  std::vector<Embedding> tables;
  explicit Dlrm(Scope at)
      : bottom(at / "bottom", kDense, kWidth, true, init::kaiming_normal()),
        top(at / "top", kWidth + (kTables + 2) * (kTables + 1) / 2, 32, true, init::kaiming_normal()), out(at / "out", 32, 1),
        bag(at.parameter("bag", {kRows, kWidth}, init::normal(0.3))) {
    for (int64_t i = 0; i < kTables; ++i) tables.emplace_back(at / "tables" / i, kRows, kWidth, init::normal(0.3));
  }
  Tensor operator()(Tensor dense, Tensor categories, Tensor ids) const {
    std::vector<Tensor> vectors{relu(bottom(dense)), embedding_bag(bag(dense), ids, Bag::sum, /*padding=*/0)};
    for (int64_t i = 0; i < kTables; ++i) vectors.push_back(tables[i](select(categories, 1, i)));
    Tensor v = stack(vectors, 1), products = bmm(v, transpose(v, 1, 2));   // [n, 5, width] -> [n, 5, 5]
    std::vector<Tensor> features{vectors[0]};
    for (int64_t i = 1; i < v.size(1); ++i) features.push_back(slice(select(products, 1, i), 1, 0, i));   // each pair once
    return squeeze(out(relu(top(concat(features, 1)))), -1);
  }
};

// Sample i: whether there was a click depends on two floats, one category and how many ids are in the bag.
void sample(int64_t i, const std::vector<void*>& fields) {
  auto* dense = static_cast<float*>(fields[0]);
  auto *categories = static_cast<int32_t*>(fields[1]), *ids = static_cast<int32_t*>(fields[2]);
  for (int k = 0; k < kDense; ++k) dense[k] = philox::normal(1, 0, i, k);
  for (int k = 0; k < kTables; ++k) categories[k] = philox::bits(2, 0, i, k) % kRows;
  const int full = philox::bits(3, 0, i, kBag) % (kBag + 1);
  for (int k = 0; k < kBag; ++k) ids[k] = k < full ? 1 + philox::bits(3, 0, i, k) % (kRows - 1) : 0;
  *static_cast<float*>(fields[3]) = dense[0] + dense[1] + 0.1f * (categories[0] - 25) + 0.5f * (full - 3) > 0 ? 1.0f : 0.0f;
}

int main(int argc, char** argv) {
  Session session(argc, argv);
  State state(session.mesh(), /*seed=*/1);
  Dlrm dlrm(state.root());
  AdamW adamw(state / "optim", {.lr = 1e-2, .weight_decay = 0});
  SampleData data{{{"dense", DType::f32, {kDense}}, {"categories", DType::i32, {kTables}}, {"ids", DType::i32, {kBag}},
                   {"click", DType::f32, {}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {
    Loss loss = binary_cross_entropy_with_logits(dlrm(batch[0], batch[1], batch[2]), batch[3]);
    adamw.update(grad(loss, state.parameters()));
    return loss;
  }, {.run = session.argument(0, "runs/dlrm"), .steps = session.number(1, 100), .global_batch = 64, .micro_batch = 16});
}
