// A critic whose gradient is kept near 1 (Gulrajani et al., arXiv 1704.00028): a gradient inside the loss.
//   trainrun --nproc 2 ./example-wgan-gp runs/wgan-gp 200 [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

struct Mlp {
  Linear first, second, last;
  Mlp(Scope at, int64_t in, int64_t out)
      : first(at / "first", in, 64, true, init::kaiming_normal()), second(at / "second", 64, 64, true, init::kaiming_normal()),
        last(at / "last", 64, out, true, init::xavier_normal()) {}
  Tensor operator()(Tensor x) const { return last(tanh(second(tanh(first(x))))); }
};

// Sample i: a point of one of eight clouds on a circle.
void sample(int64_t i, const std::vector<void*>& fields) {
  auto* x = static_cast<float*>(fields[0]);
  const float angle = 0.7854f * static_cast<float>(i % 8);
  x[0] = 2 * std::cos(angle) + 0.1f * philox::normal(1, 0, i, 0);
  x[1] = 2 * std::sin(angle) + 0.1f * philox::normal(1, 0, i, 1);
}

int main(int argc, char** argv) {
  Session session(argc, argv);
  State state(session.mesh(), /*seed=*/1);
  Mlp critic(state / "critic", 2, 1);
  const std::vector<Parameter> of_critic = state.parameters();
  Mlp generator(state / "generator", 8, 2);
  std::vector<Parameter> of_generator = state.parameters();
  of_generator.erase(of_generator.begin(), of_generator.begin() + of_critic.size());
  AdamW critic_optim(state / "critic_optim", {.lr = 3e-3, .betas = {0, 0.9}, .parameters = of_critic});
  AdamW generator_optim(state / "generator_optim", {.lr = 1e-3, .betas = {0, 0.9}, .parameters = of_generator});
  SampleData data{{{"point", DType::f32, {2}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {
    Tensor real = batch[0], fake = generator(randn(real, {real.size(0), 8}));
    Tensor share = uniform(real, {real.size(0), 1}), between = share * real + (1 - share) * fake;
    Tensor slope = grad(critic(between), {between})[0];          // of a value with respect to another: a tensor like any other
    Tensor penalty = square(norm(slope, 2, {1}) - 1);
    Tensor apart = squeeze(critic(real) - critic(fake), -1);     // how far the critic tells them apart
    Loss critic_loss = mean_loss(10 * penalty - apart);
    critic_optim.update(grad(critic_loss, of_critic));           // through `slope`: a gradient of second order
    generator_optim.update(grad(mean_loss(apart), of_generator));
    metric("distance", mean_loss(apart)), metric("penalty", mean_loss(penalty));
    return critic_loss;
  }, {.run = session.argument(0, "runs/wgan-gp"), .steps = session.number(1, 200), .global_batch = 32, .micro_batch = 8});
}
