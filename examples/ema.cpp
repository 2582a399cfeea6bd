// An average of the weights, beside them and better than they are:
//   trainrun --nproc 2 ./example-ema runs/ema 100 [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

struct Net {
  Linear hidden, out;
  explicit Net(Scope at) : hidden(at / "hidden", 16, 64, true, init::kaiming_normal()), out(at / "out", 64, 1) {}
  Tensor operator()(Tensor x) const { return squeeze(out(tanh(hidden(x))), -1); }
  Tensor by(const WeightAverage& average, Tensor x) const {      // the same function of the averaged weights
    auto layer = [&](const Linear& of, Tensor y) { return linear(y, average.of(of.weight)(y), average.of(of.bias)(y)); };
    return squeeze(layer(out, tanh(layer(hidden, x))), -1);
  }
};

// Sample i: a sum with much noise.
void sample(int64_t i, const std::vector<void*>& fields) {
  auto *x = static_cast<float*>(fields[0]), *y = static_cast<float*>(fields[1]);
  *y = 0.5f * philox::normal(2, 0, i, 0);
  for (int k = 0; k < 16; ++k) x[k] = philox::normal(1, 0, i, k), *y += 0.3f * x[k];
}

int main(int argc, char** argv) {
  Session session(argc, argv);
  State state(session.mesh(), /*seed=*/1);
  Net net(state / "net");
  AdamW adamw(state / "optim", {.lr = 1e-2});
  WeightAverage average(state / "ema", /*decay=*/0.9);           // in checkpoints as ema.FQN.average
  SampleData data{{{"x", DType::f32, {16}}, {"y", DType::f32, {}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {
    Tensor x = batch[0], y = batch[1];
    Loss loss = mse_loss(net(x), y);
    metric("loss_of_average", mse_loss(net.by(average, x), y));   // of the averages of the step before
    adamw.update(grad(loss, state.parameters()));
    average.update(x);                                           // behind the optimizer: of the new weights
    return loss;
  }, {.run = session.argument(0, "runs/ema"), .steps = session.number(1, 100)});
}
