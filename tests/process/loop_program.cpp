// A program of a user's own that trains by train(): loop_program RUN STEPS MODE ... Modes: best (the
// validation's target is passed on the way to the training's), nan (a batch is none), skip (the same, passed
// over), events, slow, back (train() returns when it is stopped), word=WORD (of on_nonfinite), own (a loop of
// its own).
#include <lockstep.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <set>
using namespace lockstep;

namespace {
// A weighted sum of 8 numbers.
SampleData sums(float weight, bool broken, bool slow) {
  return {{{"x", DType::f32, {8}}, {"y", DType::f32, {}}}, [=](int64_t i, const std::vector<void*>& fields) {
            auto* x = static_cast<float*>(fields[0]);
            float sum = 0;
            for (int k = 0; k < 8; ++k) sum += x[k] = philox::normal(1, 0, i, k);
            *static_cast<float*>(fields[1]) = weight * sum;
            if (broken && i / 16 == 4) x[0] = std::nanf("");
            if (slow) usleep(300);
          }};
}
}  // namespace

int main(int argc, char** argv) {
  Session session(argc, argv);
  const int64_t steps = session.number(1, 10);
  std::set<std::string> modes(session.arguments().begin() + 2, session.arguments().end());
  State state(session.mesh(), 1);
  Linear linear(state.root() / "linear", 8, 1, true, init::zeros());
  Sgd sgd(state / "optim", {.lr = 0.02});
  auto measure = [&](const std::vector<Tensor>& batch) {
    const Tensor guess = squeeze(linear(batch[0]), -1);
    metric("mae", l1_loss(guess, batch[1]));
    return mse_loss(guess, batch[1]);
  };
  auto learn = [&](const std::vector<Tensor>& batch) {
    Loss loss = measure(batch);
    sgd.update(grad(loss, state.parameters()));
    return loss;
  };
  if (modes.count("own")) {
    Step step = compile(state, {{"x", DType::f32, {4, 8}}, {"y", DType::f32, {4}}}, {16, 4, 0}, learn,
                        CompileOptions{});
    std::puts("compiled");
    return 0;
  }
  TrainOptions options{.run = session.argument(0, "runs/loop"), .steps = steps, .report_every = 5};
  if (modes.count("best")) {
    options.validation = Validation{sums(0.4f, false, false), measure, 32, 3};
    options.best = true, options.patience = 2, options.save_every = 4;
  }
  if (modes.count("skip")) options.on_nonfinite = "skip";
  if (modes.count("events")) options.tensorboard = true;
  if (modes.count("back")) options.return_when_stopped = true;
  if (modes.count("patience")) options.patience = 3;
  for (const auto& mode : modes)
    if (mode.rfind("word=", 0) == 0) options.on_nonfinite = mode.substr(5);
  const bool broken = modes.count("nan") || modes.count("skip");
  train(session, state, sums(1, broken, modes.count("slow")), learn, options);
  if (session.rank() == 0) std::puts(session.stop_requested() ? "back, stopped" : "back");
}
