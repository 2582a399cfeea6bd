// An op of one's own, and a function with a gradient of one's own (units of -1 and 1 that learn: arXiv 1308.3432):
//   trainrun --nproc 2 ./example-own-op runs/own-op 100 [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

// 1 / (1 + x^2) as code of an element, which is fused with what stands beside it, on the CPU and on CUDA.
// check_op("mine::bump") tries it by all laws of the op table: gradient, second gradient, splits, bits.
Tensor bump(Tensor x) {
  static const OpId op = register_op({
      .name = "mine::bump",
      .scalar = "1.0f / (1.0f + {0} * {0})",
      .formula = [](std::span<const double> in, const Attrs&) { return 1 / (1 + in[0] * in[0]); },
      .gradient = [](const VjpContext& c) { return std::vector{c.grad[0] * c.in[0] * square(c.out[0]) * -2}; },
      .samples = {{.in = {{DType::f32, {3, 5}}}}}});
  return apply1(op, {x});
}

// The sign of x forward; backward the gradient as it comes, where x lies between -1 and 1.
Tensor binary(Tensor x) {
  static const CustomGradient function = custom_gradient(
      [](const std::vector<Tensor>& in) {
        return Computed{.outputs = {where(in[0] < 0, full_like(in[0], -1), ones_like(in[0]))}, .saved = in};
      },
      [](const std::vector<Tensor>& saved, const std::vector<Tensor>& dy) {
        return std::vector{where(abs(saved[0]) <= 1, dy[0], zeros_like(dy[0]))};
      });
  return function({x})[0];
}

struct Net {
  Linear first, second, out;
  explicit Net(Scope at)
      : first(at / "first", 16, 64, true, init::xavier_normal()), second(at / "second", 64, 64, true, init::xavier_normal()),
        out(at / "out", 64, 3) {}
  Tensor operator()(Tensor x) const { return out(binary(second(bump(first(x))))); }
};

// Sample i: three numbers out of 16, and which of them is the largest.
void sample(int64_t i, const std::vector<void*>& fields) {
  auto* x = static_cast<float*>(fields[0]);
  for (int k = 0; k < 16; ++k) x[k] = philox::normal(1, 0, i, k);
  *static_cast<int32_t*>(fields[1]) = static_cast<int32_t>(std::max_element(x, x + 3) - x);
}

int main(int argc, char** argv) {
  Session session(argc, argv);
  State state(session.mesh(), /*seed=*/1);
  Net net(state.root());
  AdamW adamw(state / "optim", {.lr = 1e-2});
  SampleData data{{{"x", DType::f32, {16}}, {"largest", DType::i32, {}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {
    Tensor logits = net(batch[0]);
    Loss loss = cross_entropy(logits, batch[1]);
    metric("accuracy", mean_loss(convert(argmax(logits, -1) == batch[1], DType::f32)));
    adamw.update(grad(loss, state.parameters()));
    return loss;
  }, {.run = session.argument(0, "runs/own-op"), .steps = session.number(1, 100), .global_batch = 32, .micro_batch = 8});
}
