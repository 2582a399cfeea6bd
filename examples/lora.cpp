// Fine-tuning by two small matrices beside a frozen one (Hu et al., arXiv 2106.09685):
//   trainrun --nproc 2 ./example-lora runs/lora 100 [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

constexpr int64_t kWidth = 32, kRank = 2;

// What was learned before, as a formula of the element, so that this page needs no file.
float learned(int64_t element) { return 0.2f * philox::normal(7, 0, 0, element); }

struct LoraLinear {
  Parameter weight, a, b;
  LoraLinear(Scope at, int64_t in, int64_t out, int64_t rank)
      : weight(at.frozen("weight", {out, in}, init::elements(learned))),   // in checkpoints, but without gradient and moments
        a(at.parameter("lora_a", {rank, in}, init::kaiming_uniform())), b(at.parameter("lora_b", {out, rank}, init::zeros())) {}
  Tensor operator()(Tensor x) const {
    return linear(x, weight.computed(x)) + linear(linear(x, a.computed(x)), b.computed(x));
  }
};

// Sample i: x, and what the learned matrix makes of it, with a change of rank 1 that is to be found.
void sample(int64_t i, const std::vector<void*>& fields) {
  auto *x = static_cast<float*>(fields[0]), *y = static_cast<float*>(fields[1]);
  float along = 0;
  for (int k = 0; k < kWidth; ++k) x[k] = philox::normal(1, 0, i, k), along += 0.4f * x[k] * (k % 3 - 1);
  for (int r = 0; r < kWidth; ++r) {
    y[r] = along * (r % 2 ? 1.0f : -0.5f);
    for (int k = 0; k < kWidth; ++k) y[r] += learned(r * kWidth + k) * x[k];
  }
}

int main(int argc, char** argv) {
  Session session(argc, argv);
  State state(session.mesh(), /*seed=*/1);
  LoraLinear layer(state / "layer", kWidth, kWidth, kRank);
  AdamW adamw(state / "optim", {.lr = 2e-2, .weight_decay = 0});
  SampleData data{{{"x", DType::f32, {kWidth}}, {"y", DType::f32, {kWidth}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {
    Loss loss = mse_loss(layer(batch[0]), batch[1]);
    adamw.update(grad(loss, state.parameters()));                // the frozen matrix is not among them
    return loss;
  }, {.run = session.argument(0, "runs/lora"), .steps = session.number(1, 100), .global_batch = 64, .micro_batch = 16});
}
