// Masked tokens of sequences of different lengths (Devlin et al., arXiv 1810.04805):
//   trainrun --nproc 2 ./example-bert runs/bert 100 [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

constexpr int64_t kVocab = 32, kTokens = 24, kWidth = 32, kHeads = 4;

struct Block {
  LayerNorm norm1, norm2;  Linear q, k, v, out, up, down;
  explicit Block(Scope at)
      : norm1(at / "norm1", kWidth), norm2(at / "norm2", kWidth), q(at / "q", kWidth, kWidth), k(at / "k", kWidth, kWidth),
        v(at / "v", kWidth, kWidth), out(at / "out", kWidth, kWidth), up(at / "up", kWidth, 4 * kWidth),
        down(at / "down", 4 * kWidth, kWidth) {}
  Tensor operator()(Tensor x, Tensor lengths) const {
    auto heads = [](Tensor y) { return unflatten(y, -1, {kHeads, -1}); };
    Tensor seen = sdpa(heads(q(x)), heads(k(x)), heads(v(x)), {.lengths = lengths});     // padding is not seen
    x = norm1(x + out(flatten(seen, 2)));
    return norm2(x + down(gelu_erf(up(x))));
  }
};

// Sample i: a sequence that counts up by its own step; a fifth of its tokens are hidden, as id 0, and are the targets.
void sample(int64_t i, const std::vector<void*>& fields) {
  auto random = [&](int k) { return static_cast<int32_t>(philox::bits(1, 0, i, k) >> 8); };
  auto *ids = static_cast<int32_t*>(fields[0]), *targets = static_cast<int32_t*>(fields[2]);
  const int32_t length = kTokens / 2 + random(0) % (kTokens / 2 + 1);
  *static_cast<int32_t*>(fields[1]) = length;
  for (int t = 0; t < kTokens; ++t) {
    const int32_t token = 1 + (random(1) % 4 + t * (1 + random(2) % 2)) % (kVocab - 1);
    const bool hidden = t < length && (t == 0 || random(3 + t) % 5 == 0);
    ids[t] = hidden || t >= length ? 0 : token;
    targets[t] = hidden ? token : kIgnoreIndex;                  // what is ignored is not counted either
  }
}

int main(int argc, char** argv) {
  Session session(argc, argv);
  State state(session.mesh(), /*seed=*/1);
  Embedding token(state / "token", kVocab, kWidth), position(state / "position", kTokens, kWidth);
  LayerNorm norm(state / "norm", kWidth);
  Block one(state / "blocks" / 0), two(state / "blocks" / 1);
  AdamW adamw(state / "optim", {.lr = 3e-3});
  SampleData data{{{"ids", DType::i32, {kTokens}}, {"length", DType::i32, {}}, {"targets", DType::i32, {kTokens}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {
    Tensor ids = batch[0], lengths = batch[1], targets = batch[2];
    Tensor x = two(one(norm(token(ids) + position(iota_like(ids, 1))), lengths), lengths);
    Loss loss = cross_entropy(token.logits(x), targets);         // the count is that of hidden tokens, over all ranks
    adamw.update(grad(loss, state.parameters()));
    return loss;
  }, {.run = session.argument(0, "runs/bert"), .steps = session.number(1, 100)});
}
