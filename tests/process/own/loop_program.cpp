// A program of a user's own that trains by train(): loop_program RUN STEPS MODE ... Modes: best (the
// validation's target is passed on the way to the training's), nan (a batch is none), skip (the same, passed
// over), unsound (samples of the validation are none), events, slow, back (train() returns when it is
// stopped), word=WORD (of on_nonfinite), own (a loop of its own), saves (checkpoints and hashes of the state
// on the way), plateau (the rate follows a validation), other (another loss), from=PATH (weights to start
// from), resume=PATH (a loop of its own that reads there).
#include <lockstep.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <optional>
#include <set>
using namespace lockstep;

namespace {
// A weighted sum of 8 numbers.
// From sample `none` on, 16 samples are no numbers; -1: all are.
SampleData sums(float weight, int64_t none, bool slow) {
  return {{{"x", DType::f32, {8}}, {"y", DType::f32, {}}}, [=](int64_t i, const std::vector<void*>& fields) {
            auto* x = static_cast<float*>(fields[0]);
            float sum = 0;
            for (int k = 0; k < 8; ++k) sum += x[k] = philox::normal(1, 0, i, k);
            *static_cast<float*>(fields[1]) = weight * sum;
            if (none >= 0 && i >= none && i < none + 16) x[0] = std::nanf("");
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
  std::optional<Plateau> plateau;
  if (modes.count("plateau")) {  // falls at each look
    plateau.emplace(state / "plateau", PlateauOptions{.factor = 0.5, .patience = 0, .threshold = 0.99});
    sgd.follow(*plateau);
  }
  auto measure = [&](const std::vector<Tensor>& batch) {
    const Tensor guess = squeeze(linear(batch[0]), -1);
    metric("mae", l1_loss(guess, batch[1]));
    return mse_loss(guess, batch[1]);
  };
  auto learn = [&](const std::vector<Tensor>& batch) {
    Loss loss = modes.count("other") ? l1_loss(squeeze(linear(batch[0]), -1), batch[1]) : measure(batch);
    sgd.update(grad(loss, state.parameters()));
    return loss;
  };
  if (modes.count("own")) {
    Step step = compile(state, {{"x", DType::f32, {4, 8}}, {"y", DType::f32, {4}}}, {16, 4, 0}, learn,
                        CompileOptions{});
    std::puts("compiled");
    return 0;
  }
  for (const auto& mode : modes) {
    if (mode.rfind("from=", 0) == 0) load_weights(state, mode.substr(5));
    if (mode.rfind("resume=", 0) == 0) {
      Checkpoint checkpoint(mode.substr(7), {.every = 1});
      const int64_t done = checkpoint.resume(state);
      std::printf("resumed %lld: state %s\n", static_cast<long long>(done),
                  state_hash(std::as_const(state).arrays(), state.mesh()).c_str());
      if (modes.count("save")) checkpoint.save(done + 1, state);
      return 0;
    }
  }
  TrainOptions options{.run = session.argument(0, "runs/loop"), .steps = steps, .report_every = 5};
  if (modes.count("best") || modes.count("unsound")) {
    options.validation = Validation{sums(0.4f, modes.count("unsound") ? 5 : -1, false), measure, 32, 3};
  }
  if (modes.count("best")) { options.best = true, options.patience = 2, options.save_every = 4; }
  if (modes.count("saves")) options.save_every = 4, options.report_every = 1, options.hash_every = 3;
  if (plateau) {
    options.validation = Validation{sums(0.4f, -1, false), measure, 32, 3};
    options.validation->measured = [&](const std::map<std::string, double>& metrics) {
      plateau->observe(metrics.at("loss"));
    };
  }
  if (modes.count("skip")) options.on_nonfinite = "skip";
  if (modes.count("events")) options.tensorboard = true;
  if (modes.count("back")) options.return_when_stopped = true;
  if (modes.count("patience")) options.patience = 3;
  for (const auto& mode : modes)
    if (mode.rfind("word=", 0) == 0) options.on_nonfinite = mode.substr(5);
  const bool broken = modes.count("nan") || modes.count("skip");
  train(session, state, sums(1, broken ? 64 : -1, modes.count("slow")), learn, options);
  if (session.rank() == 0) std::puts(session.stop_requested() ? "back, stopped" : "back");
}
