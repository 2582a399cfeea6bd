// An encoder and a decoder that reads it, with a learned bias by distance (Raffel et al., arXiv 1910.10683):
//   trainrun --nproc 2 ./example-t5 runs/t5 100 [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

constexpr int64_t kVocab = 16, kTokens = 10, kWidth = 32, kHeads = 4;

struct Attention5 {
  RmsNorm norm;  Linear q, k, v, out;
  explicit Attention5(Scope at)
      : norm(at / "norm", kWidth), q(at / "q", kWidth, kWidth, false), k(at / "k", kWidth, kWidth, false),
        v(at / "v", kWidth, kWidth, false), out(at / "out", kWidth, kWidth, false) {}
  Tensor operator()(Tensor x, Tensor memory, const AttentionOptions& options) const {   // empty memory: of x itself
    auto heads = [](Tensor y) { return unflatten(y, -1, {kHeads, -1}); };
    Tensor y = norm(x), from = memory.defined() ? memory : y;
    return x + out(flatten(sdpa(heads(q(y)), heads(k(from)), heads(v(from)), options), 2));
  }
};
struct Feed {
  RmsNorm norm;  Linear up, down;
  explicit Feed(Scope at)
      : norm(at / "norm", kWidth), up(at / "up", kWidth, 4 * kWidth, false), down(at / "down", 4 * kWidth, kWidth, false) {}
  Tensor operator()(Tensor x) const { return x + down(relu(up(norm(x)))); }
};
struct Distance {                                                // a bias [heads, tokens, keys] of attention scores
  Parameter table;
  explicit Distance(Scope at) : table(at.parameter("table", {2 * kTokens - 1, kHeads}, init::normal(0.02))) {}
  Tensor operator()(Tensor x) const {
    Tensor grid = iota(x, {kTokens, kTokens}, 1, DType::i32) - iota(x, {kTokens, kTokens}, 0, DType::i32);
    return permute(take(table(x), grid + (kTokens - 1)), {2, 0, 1});
  }
};
// Sample i: tokens, each of them twice; the same in reverse order behind a start token, which the decoder reads; its targets.
void sample(int64_t i, const std::vector<void*>& fields) {
  auto id = [&](int t) { return static_cast<int32_t>(1 + philox::bits(1, 0, i, t / 2) % (kVocab - 1)); };
  for (int t = 0; t < kTokens; ++t) {
    static_cast<int32_t*>(fields[0])[t] = id(t);
    static_cast<int32_t*>(fields[1])[t] = t == 0 ? 0 : id(kTokens - t);
    static_cast<int32_t*>(fields[2])[t] = id(kTokens - 1 - t);
  }
}

int main(int argc, char** argv) {
  Session session(argc, argv);
  State state(session.mesh(), /*seed=*/1);
  Embedding token(state / "token", kVocab, kWidth);
  Attention5 inner(state / "encoder" / "attn"), own(state / "decoder" / "attn"), cross(state / "decoder" / "cross");
  Feed feed1(state / "encoder" / "feed"), feed2(state / "decoder" / "feed");
  Distance far1(state / "encoder" / "bias"), far2(state / "decoder" / "bias");
  AdamW adamw(state / "optim", {.lr = 5e-3});
  SampleData data{{{"ids", DType::i32, {kTokens}}, {"given", DType::i32, {kTokens}}, {"targets", DType::i32, {kTokens}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {
    Tensor x = token(batch[0]), y = token(batch[1]);
    Tensor memory = feed1(inner(x, {}, {.bias = far1(x)}));
    y = feed2(cross(own(y, {}, {.causal = true, .bias = far2(y)}), memory, {}));
    Loss loss = cross_entropy(token.logits(y), batch[2]);
    adamw.update(grad(loss, state.parameters()));
    return loss;
  }, {.run = session.argument(0, "runs/t5"), .steps = session.number(1, 100)});
}
