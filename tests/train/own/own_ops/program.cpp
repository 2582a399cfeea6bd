// Trains with the ops of a library:  program LIBRARY [WORD]. WORD "differs": rank 1 registers other code
// under one name.
#include <lockstep.h>

#include <cstdio>
using namespace lockstep;

int main(int argc, char** argv) {
  Session session(argc, argv);
  const auto arguments = session.arguments();
  load_ops(arguments.at(0));
  const bool differs = arguments.size() > 1 && arguments[1] == "differs";
  register_op({.name = "mine::more",
               .scalar = differs && session.rank() == 1 ? "{0} + {0}" : "{0} * 2.0f",
               .formula = [](std::span<const double> x, const Attrs&) { return 2 * x[0]; },
               .samples = {{.in = {{DType::f32, {3, 5}}}}}});

  State state(session.mesh(), 7);
  Linear first(state / "first", 6, 8), last(state / "last", 8, 1);
  Sgd sgd(state / "optim", {.lr = 0.02});
  Step step = compile(
      state, {{"x", DType::f32, {2, 6}}}, {8, 2, 0},
      [&](const std::vector<Tensor>& batch) {
        Tensor h = apply1(intern("mine::scan"), {first(batch[0])}, {{"reverse", false}});
        Loss loss = mean_loss(square(last(apply1(intern("mine::cube"), {tanh(h)})) - 1.0));
        sgd.update(grad(loss, state.parameters()));
        return loss;
      },
      CompileOptions{});
  state.materialize();
  for (int64_t i = 1; i <= 12; ++i) {
    const StepResult result =
        step.run({i, [&](int64_t from, int64_t count, const std::vector<void*>& fields) {
                    for (int64_t e = 0; e < count * 6; ++e)
                      static_cast<float*>(fields[0])[e] =
                          static_cast<float>((e + from * 6 + i * 5) % 13) / 13;
                  }});
    session.report(i, {{"loss", static_cast<float>(result.metrics.at("loss"))}});
  }
  const std::string hash = state_hash(std::as_const(state).arrays(), session.mesh());
  if (session.rank() == 0) std::printf("step state %s\n", hash.c_str());
}
