// A variational autoencoder (Kingma and Welling, arXiv 1312.6114):
//   trainrun --nproc 2 ./example-vae runs/vae 100 [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

constexpr int64_t kPixels = 64, kHidden = 64, kLatent = 4;

struct Vae {
  Linear encode, mean, log_variance, decode, out;
  explicit Vae(Scope at)
      : encode(at / "encode", kPixels, kHidden, true, init::xavier_uniform()), mean(at / "mean", kHidden, kLatent),
        log_variance(at / "log_variance", kHidden, kLatent),
        decode(at / "decode", kLatent, kHidden, true, init::xavier_uniform()), out(at / "out", kHidden, kPixels) {}
  Tensor code(Tensor x, Tensor& kl) const {                      // a draw from N(mean, variance), and its distance from N(0, 1)
    Tensor h = relu(encode(x)), m = mean(h), v = log_variance(h);
    kl = 0.5 * sum(exp(v) + square(m) - 1 - v);
    return m + exp(0.5 * v) * randn(m, m.shape());               // noise belongs to the sample: the same on any rank
  }
  Tensor logits(Tensor z) const { return out(relu(decode(z))); }
};

// Sample i: an image of 8 x 8 with one bright row and one bright column.
void sample(int64_t i, const std::vector<void*>& fields) {
  const uint32_t row = philox::bits(1, 0, i, 0) % 8, column = philox::bits(1, 0, i, 1) % 8;
  for (uint32_t k = 0; k < kPixels; ++k)
    static_cast<float*>(fields[0])[k] = k / 8 == row || k % 8 == column ? 1.0f : 0.0f;
}

int main(int argc, char** argv) {
  Session session(argc, argv);
  State state(session.mesh(), /*seed=*/1);
  Vae vae(state.root());
  AdamW adamw(state / "optim", {.lr = 5e-3, .weight_decay = 0});
  SampleData data{{{"image", DType::f32, {kPixels}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {
    Tensor x = batch[0], kl;
    Tensor z = vae.code(x, kl);
    Loss pixels = binary_cross_entropy_with_logits(vae.logits(z), x);
    Loss loss{pixels.sum + kl, full(x, {}, double(x.size(0)), DType::i64)};   // one's own: a sum, and the count of samples
    metric("kl", Loss{kl, loss.count});
    adamw.update(grad(loss, state.parameters()));
    return loss;
  }, {.run = session.argument(0, "runs/vae"), .steps = session.number(1, 100)});
}
