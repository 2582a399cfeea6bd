// A classifier of floats:   trainrun --nproc 2 ./example-mlp runs/mlp 100 [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

struct Mlp {
  Linear up, middle, down;
  explicit Mlp(Scope at) : up(at / "up", 20, 64), middle(at / "middle", 64, 64), down(at / "down", 64, 4) {}
  Tensor operator()(Tensor x) const { return down(relu(middle(relu(up(x))))); }
};

// Sample i: 20 numbers from its own random stream, and the class that four sums of five of them decide.
void sample(int64_t i, const std::vector<void*>& fields) {
  auto* x = static_cast<float*>(fields[0]);
  float sums[4] = {};
  for (int k = 0; k < 20; ++k) {
    x[k] = static_cast<float>(philox::uniform(philox::bits(1, 0, static_cast<uint64_t>(i), static_cast<uint64_t>(k)))) - 0.5f;
    sums[k / 5] += x[k];
  }
  *static_cast<int32_t*>(fields[1]) = static_cast<int32_t>(std::max_element(sums, sums + 4) - sums);
}

int main(int argc, char** argv) {
  Session session(argc, argv);
  State state(session.mesh(), /*seed=*/1);
  Mlp mlp(state.root());
  AdamW adamw(state / "optim", {.lr = warmup_cosine(1e-2, 10, 100)});
  SampleData data{{{"x", DType::f32, {20}}, {"label", DType::i32, {}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {   // traced once, on one micro-batch
    Tensor logits = mlp(batch[0]), label = batch[1];
    Loss loss = cross_entropy(logits, label);                           // (sum, count)
    metric("accuracy", mean_loss(convert(argmax(logits, -1) == label, DType::f32)));
    adamw.update(grad(loss, state.parameters()));
    return loss;
  }, {.run = session.argument(0, "runs/mlp"), .steps = session.number(1, 100)});
}
