// Regression of floats, mean squared error, SGD with Nesterov momentum:
//   trainrun --nproc 2 ./example-regression runs/regression 100 [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

struct Net {
  Linear hidden, out;
  explicit Net(Scope at)
      : hidden(at / "hidden", 8, 64, true, init::kaiming_normal()), out(at / "out", 64, 1, true, init::kaiming_normal()) {}
  Tensor operator()(Tensor x) const { return squeeze(out(tanh(hidden(x))), -1); }   // [n, 8] -> [n]
};

// Sample i: 8 standard normal numbers of its own random stream, and a function of the first three.
void sample(int64_t i, const std::vector<void*>& fields) {
  auto* x = static_cast<float*>(fields[0]);
  for (int k = 0; k < 8; ++k) x[k] = philox::normal(1, 0, i, k);
  *static_cast<float*>(fields[1]) = std::sin(x[0]) + 0.5f * x[1] - x[2];
}

int main(int argc, char** argv) {
  Session session(argc, argv);                                  // rank, device, mesh and precision of this run
  State state(session.mesh(), /*seed=*/1);                      // records what is trained; nothing is allocated yet
  Net net(state.root());
  Sgd sgd(state / "optim", {.lr = 0.02, .momentum = 0.9, .nesterov = true});
  SampleData data{{{"x", DType::f32, {8}}, {"y", DType::f32, {}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {
    Tensor guess = net(batch[0]), y = batch[1];
    Loss loss = mse_loss(guess, y);                             // sum and count: divided once, over all ranks
    metric("mae", l1_loss(guess, y));                           // a mean over the step's samples, told beside the loss
    sgd.update(grad(loss, state.parameters()));
    return loss;
  }, {.run = session.argument(0, "runs/regression"), .steps = session.number(1, 100)});
}
