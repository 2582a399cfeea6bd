// Images: convolutions beside shortcuts (He et al., arXiv 1512.03385), with a batch norm of one's own:
//   trainrun --nproc 2 ./example-resnet runs/resnet 100 [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

struct Norm {                                                    // a layer that keeps running statistics
  Parameter weight, bias, mean, variance;
  Norm(Scope at, int64_t c)
      : weight(at.parameter("weight", {c}, init::ones())), bias(at.parameter("bias", {c}, init::zeros())),
        mean(at.buffer("running_mean", DType::f32, {c}, init::zeros())),
        variance(at.buffer("running_var", DType::f32, {c}, init::ones())) {}
  Tensor operator()(Tensor x) const {
    if (Evaluation::active()) return batch_norm_by(x, mean(x), variance(x), weight(x), bias(x));
    BatchNorm now = batch_norm(x, weight(x), bias(x));           // by the statistics of this micro-batch
    keep(mean, now.mean), keep(variance, now.variance);
    return now.y;
  }
  void keep(Parameter running, Tensor now) const {               // their mean over all micro-batches, on all ranks
    Tensor total = sum_lanes(now), count = sum_lanes(full(now, {}, 1, DType::i64));
    assign(running, 0.9 * running(now) + 0.1 * total / convert(count, DType::f32));
  }
};

struct Block {
  Conv2d first, second, shortcut;  Norm norm1, norm2;
  Block(Scope at, int64_t in, int64_t out)                       // half the resolution
      : first(at / "first", in, out, {3}, {.stride = {2}, .padding = {1}}, false),
        second(at / "second", out, out, {3}, {.padding = {1}}, false),
        shortcut(at / "shortcut", in, out, {1}, {.stride = {2}}, false), norm1(at / "norm1", out), norm2(at / "norm2", out) {}
  Tensor operator()(Tensor x) const { return relu(norm2(second(relu(norm1(first(x))))) + shortcut(x)); }
};

// Sample i: noise and a wave, along a direction that its class, i % 4, says; [3, 16, 16] as in PyTorch.
void sample(int64_t i, const std::vector<void*>& fields) {
  const float direction = static_cast<float>(i % 4) * 0.7854f, phase = philox::normal(2, 0, i, 0);
  for (int k = 0; k < 3 * 16 * 16; ++k)
    static_cast<float*>(fields[0])[k] = 0.5f * philox::normal(1, 0, i, k) +
        std::sin(phase + std::cos(direction) * (k / 16 % 16) + std::sin(direction) * (k % 16));
  *static_cast<int32_t*>(fields[1]) = i % 4;
}

int main(int argc, char** argv) {
  Session session(argc, argv);
  State state(session.mesh(), /*seed=*/1);
  Conv2d stem(state / "stem", 3, 16, {3}, {.padding = {1}});
  Block one(state / "one", 16, 16), two(state / "two", 16, 32);
  Linear head(state / "head", 32, 4);
  AdamW adamw(state / "optim", {.lr = 5e-3});
  SampleData data{{{"image", DType::f32, {3, 16, 16}}, {"label", DType::i32, {}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {
    Loss loss = cross_entropy(head(global_avg_pool(two(one(relu(stem(batch[0])))))), batch[1]);
    adamw.update(grad(loss, state.parameters()));
    return loss;
  }, {.run = session.argument(0, "runs/resnet"), .steps = session.number(1, 100)});
}
