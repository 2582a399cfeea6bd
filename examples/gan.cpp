// Two networks against each other, each with its own optimizer, in one step (Goodfellow et al., arXiv 1406.2661):
//   trainrun --nproc 2 ./example-gan runs/gan 200 [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

struct Mlp {
  Linear first, second, last;
  Mlp(Scope at, int64_t in, int64_t out)
      : first(at / "first", in, 64, true, init::kaiming_normal()), second(at / "second", 64, 64, true, init::kaiming_normal()),
        last(at / "last", 64, out, true, init::xavier_normal()) {}
  Tensor operator()(Tensor x) const { return last(leaky_relu(second(leaky_relu(first(x), 0.2)), 0.2)); }
};

// Sample i: a point near a circle.
void sample(int64_t i, const std::vector<void*>& fields) {
  auto* x = static_cast<float*>(fields[0]);
  const float angle = 6.2832f * philox::uniform(philox::bits(1, 0, i, 0));
  x[0] = 2 * std::cos(angle) + 0.1f * philox::normal(2, 0, i, 0);
  x[1] = 2 * std::sin(angle) + 0.1f * philox::normal(2, 0, i, 1);
}

int main(int argc, char** argv) {
  Session session(argc, argv);
  State state(session.mesh(), /*seed=*/1);
  Mlp critic(state / "critic", 2, 1);
  const std::vector<Parameter> of_critic = state.parameters();   // all that are recorded so far
  Mlp generator(state / "generator", 8, 2);
  std::vector<Parameter> of_generator = state.parameters();
  of_generator.erase(of_generator.begin(), of_generator.begin() + of_critic.size());
  AdamW critic_optim(state / "critic_optim", {.lr = 2e-3, .betas = {0.5, 0.99}, .parameters = of_critic});
  AdamW generator_optim(state / "generator_optim", {.lr = 1e-3, .betas = {0.5, 0.99}, .parameters = of_generator});
  SampleData data{{{"point", DType::f32, {2}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {
    Tensor real = batch[0], fake = generator(randn(real, {real.size(0), 8}));
    Tensor of_real = critic(real), of_fake = critic(fake), one = ones_like(of_real);
    Loss told_real = binary_cross_entropy_with_logits(of_real, one);
    Loss told_fake = binary_cross_entropy_with_logits(of_fake, zeros_like(of_fake));
    Loss critic_loss{told_real.sum + told_fake.sum, told_real.count};
    Loss generator_loss = binary_cross_entropy_with_logits(of_fake, one);
    critic_optim.update(grad(critic_loss, of_critic));           // a gradient is of what it names: nothing to detach, nothing to zero
    generator_optim.update(grad(generator_loss, of_generator));
    metric("generator_loss", generator_loss);
    metric("radius", mean_loss(norm(fake, 2, {1})));             // that of the circle is 2
    return critic_loss;
  }, {.run = session.argument(0, "runs/gan"), .steps = session.number(1, 200), .global_batch = 32, .micro_batch = 8});
}
