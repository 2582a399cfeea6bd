// The optimizer is chosen by a word, with a schedule that is warm, stable, and decays:
//   trainrun --nproc 2 ./example-lion runs/lion 100 [lion | adamw | sgd | rmsprop | adagrad] [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

std::unique_ptr<Optimizer> optimizer_of(const std::string& word, Scope at, int64_t steps) {
  auto rate = [&](double lr) { return warmup_stable_decay(lr, /*warmup=*/5, steps, /*decay=*/steps / 5); };
  if (word == "lion") return std::make_unique<Lion>(at, LionOptions{.lr = rate(3e-3)});
  if (word == "adamw") return std::make_unique<AdamW>(at, AdamWOptions{.lr = rate(1e-2)});
  if (word == "sgd") return std::make_unique<Sgd>(at, SgdOptions{.lr = rate(0.1), .momentum = 0.9});
  if (word == "rmsprop") return std::make_unique<Rmsprop>(at, RmspropOptions{.lr = rate(3e-3)});
  if (word == "adagrad") return std::make_unique<Adagrad>(at, AdagradOptions{.lr = rate(3e-2)});
  throw UserError("the optimizer is \"" + word + "\"; choose lion, adamw, sgd, rmsprop or adagrad");
}

// Sample i: a point of the plane, and which of two spirals it lies on.
void sample(int64_t i, const std::vector<void*>& fields) {
  auto* x = static_cast<float*>(fields[0]);
  const float along = philox::uniform(philox::bits(1, 0, i, 0)), angle = 6.0f * along + 3.1416f * static_cast<float>(i % 2);
  x[0] = 2 * along * std::cos(angle) + 0.03f * philox::normal(2, 0, i, 0);
  x[1] = 2 * along * std::sin(angle) + 0.03f * philox::normal(2, 0, i, 1);
  *static_cast<int32_t*>(fields[1]) = i % 2;
}

int main(int argc, char** argv) {
  Session session(argc, argv);
  const int64_t steps = session.number(1, 100);
  State state(session.mesh(), /*seed=*/1);
  Linear first(state / "first", 2, 64, true, init::kaiming_normal()), second(state / "second", 64, 64, true, init::kaiming_normal());
  Linear last(state / "last", 64, 2);
  auto optimizer = optimizer_of(session.argument(2, "lion"), state / "optim", steps);
  SampleData data{{{"point", DType::f32, {2}}, {"spiral", DType::i32, {}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {
    Loss loss = cross_entropy(last(silu(second(silu(first(batch[0]))))), batch[1]);
    optimizer->update(grad(loss, state.parameters()));
    return loss;
  }, {.run = session.argument(0, "runs/lion"), .steps = steps, .global_batch = 64, .micro_batch = 16});
}
