// Experts of which each sample asks two (Shazeer et al., arXiv 1701.06538), kept in balance by a second loss:
//   trainrun --nproc 2 ./example-moe runs/moe 100 [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

constexpr int64_t kExperts = 4, kWidth = 16, kHidden = 32;

struct Experts {
  Linear gate;  Parameter up, down;
  explicit Experts(Scope at)
      : gate(at / "gate", kWidth, kExperts), up(at.parameter("up", {kExperts, kWidth, kHidden}, init::normal(0.2))),
        down(at.parameter("down", {kExperts, kHidden, kWidth}, init::normal(0.2))) {}
  struct Result {
    Tensor y, balance;
  };
  Result operator()(Tensor x) const {                            // [n, width] -> [n, width]
    Tensor p = softmax(gate(x));
    auto [best, index] = topk(p, 2);                             // [n, 2]; gradients go to the two that were chosen
    best = best / sum(best, {1}, true);
    Tensor share = sum(convert(unsqueeze(index, -1) == iota(x, {kExperts}, 0, DType::i32), best.dtype()) *
                       unsqueeze(best, -1), {1});                // [n, experts]: 0 but for two
    Tensor hidden = relu(einsum("nd,edh->neh", {x, up(x)}));
    Tensor y = einsum("neh,ehd,ne->nd", {hidden, down(x), share});
    Tensor load = mean(convert(share > 0, p.dtype()), {0});
    return {y, double(kExperts) / 2 * sum(load * mean(p, {0}))};   // 1 where all experts are asked alike
  }
};

// Sample i: 16 numbers, one of which says by its sign which of two linear maps gives the 16 numbers wanted.
void sample(int64_t i, const std::vector<void*>& fields) {
  auto *x = static_cast<float*>(fields[0]), *y = static_cast<float*>(fields[1]);
  for (int k = 0; k < kWidth; ++k) x[k] = philox::normal(1, 0, i, k);
  for (int k = 0; k < kWidth; ++k) y[k] = x[0] > 0 ? x[(k + 1) % kWidth] : -x[(k + 5) % kWidth];
}

int main(int argc, char** argv) {
  Session session(argc, argv);
  State state(session.mesh(), /*seed=*/1);
  Experts experts(state / "experts");
  AdamW adamw(state / "optim", {.lr = 1e-2, .weight_decay = 0});
  SampleData data{{{"x", DType::f32, {kWidth}}, {"y", DType::f32, {kWidth}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {
    auto [y, balance] = experts(batch[0]);
    Loss even = mean_loss(balance), loss = mse_loss(y, batch[1]) + 0.01 * even;   // each over its own count
    metric("balance", even);
    adamw.update(grad(loss, state.parameters()));
    return loss;
  }, {.run = session.argument(0, "runs/moe"), .steps = session.number(1, 100), .global_batch = 32, .micro_batch = 8});
}
