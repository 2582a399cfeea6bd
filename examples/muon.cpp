// Hidden matrices by Muon (Jordan et al., 2024), embeddings, head, norms and biases by AdamW:
//   trainrun --nproc 2 ./example-muon runs/muon 100 [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

constexpr int64_t kVocab = 32, kTokens = 16, kWidth = 32;

struct Block {
  LayerNorm norm1, norm2;  Attention attn;  Linear up, down;
  explicit Block(Scope at)
      : norm1(at / "norm1", kWidth), norm2(at / "norm2", kWidth), attn(at / "attn", kWidth, /*heads=*/4),
        up(at / "up", kWidth, 4 * kWidth), down(at / "down", 4 * kWidth, kWidth) {}
  Tensor operator()(Tensor x) const {
    x = x + attn(norm1(x));
    return x + down(gelu(up(norm2(x))));
  }
};

// Sample i: each token follows from the one before by a fixed rule, from a start of its own.
void sample(int64_t i, const std::vector<void*>& fields) {
  uint32_t token = philox::bits(1, 0, i, 0) % kVocab;
  for (int t = 0; t < kTokens; ++t) {
    static_cast<int32_t*>(fields[0])[t] = token;
    static_cast<int32_t*>(fields[1])[t] = token = (5 * token + 3) % kVocab;
  }
}

int main(int argc, char** argv) {
  Session session(argc, argv);
  State state(session.mesh(), /*seed=*/1);
  Embedding token(state / "token", kVocab, kWidth), position(state / "position", kTokens, kWidth);
  Stack<Block> blocks(state / "blocks", 2);
  LayerNorm norm(state / "norm", kWidth);
  Linear head(state / "head", kWidth, kVocab);
  Muon muon(state / "optim", {.lr = 1e-2},                       // all matrices but those that are named here
            {.lr = 3e-3, .parameters = {token.weight, position.weight, head.weight}});
  SampleData data{{{"ids", DType::i32, {kTokens}}, {"targets", DType::i32, {kTokens}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {
    Tensor x = blocks(token(batch[0]) + position(iota_like(batch[0], 1)));
    Loss loss = cross_entropy(head(norm(x)), batch[1]);
    muon.update(grad(loss, state.parameters()));
    return loss;
  }, {.run = session.argument(0, "runs/muon"), .steps = session.number(1, 100)});
}
