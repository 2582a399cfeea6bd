// A program of a user's own that trains a little and fails as it is told: own_program DATA RUN STEPS [FAULT
// RANK STEP]
#include <lockstep.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>
using namespace lockstep;

int main(int argc, char** argv) {
  Session session(argc, argv);
  auto arguments = session.arguments();
  const int64_t steps = std::stoll(arguments.at(2));
  const std::string fault = arguments.size() > 3 ? arguments[3] : "";
  const bool here = fault.size() && session.rank() == std::stoll(arguments.at(4));
  const int64_t when = fault.size() ? std::stoll(arguments.at(5)) : 0;

  State state(session.mesh(), 1337);
  Embedding token(state.root() / "token", 64, 32);
  Linear head(state.root() / "head", 32, 64);
  Sgd sgd(state / "optim", {.lr = 0.1});
  TokenFile data(arguments.at(0), {.global_batch = 8, .micro_batch = 2, .context = 16, .vocab = 64});
  Step step = compile(state, data.spec(), [&](Tensor ids, Tensor targets) {
    if (fault == "trace" && here) throw std::runtime_error("my own error while tracing");
    Loss loss = cross_entropy(head(token(ids)), targets);
    sgd.update(grad(loss, state.parameters()));
    return loss;
  });
  Checkpoint checkpoint(arguments.at(1), {.every = 10, .keep = 3});
  for (int64_t i = checkpoint.resume(state); i < steps; ++i) {
    if (here && i == when) {
      if (fault == "throw") throw std::runtime_error("my own error in step 5");
      if (fault == "int") throw 42;
      if (fault == "exit3") _exit(3);
      if (fault == "return") return 0;
      if (fault == "return7") return 7;
      if (fault == "exit0") _exit(0);
      if (fault == "null") raise(SIGSEGV);
    }
    session.report(i + 1, {{"loss", step(data.at(i))}});
    checkpoint.save(i + 1, state);
  }
}
