// A recurrent language model (Hochreiter and Schmidhuber, 1997), its cell written by hand:
//   trainrun --nproc 2 ./example-lstm runs/lstm 100 [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

constexpr int64_t kVocab = 16, kTokens = 12, kWidth = 32;

struct Cell {
  Linear input, state;                                           // gates of what comes in, and of what was
  explicit Cell(Scope at)
      : input(at / "input", kWidth, 4 * kWidth, true, init::xavier_uniform()),
        state(at / "state", kWidth, 4 * kWidth, false, init::orthogonal()) {}
  Tensor operator()(Tensor x) const {                            // [n, tokens, width] -> [n, tokens, width]
    Tensor gates = input(x);                                     // of all tokens at once
    Tensor h = zeros(x, {x.size(0), kWidth}), c = h;
    std::vector<Tensor> outputs;
    for (int64_t t = 0; t < x.size(1); ++t) {                    // traced: the graph holds one step per token
      auto g = chunk(select(gates, 1, t) + state(h), 4, -1);
      c = sigmoid(g[1]) * c + sigmoid(g[0]) * tanh(g[2]);
      h = sigmoid(g[3]) * tanh(c);
      outputs.push_back(h);
    }
    return stack(outputs, 1);
  }
};

// Sample i: a sequence that counts up by one of three steps, and the same one place on.
void sample(int64_t i, const std::vector<void*>& fields) {
  const uint32_t first = philox::bits(1, 0, i, 0), step = 1 + philox::bits(1, 0, i, 1) % 3;
  for (int t = 0; t < kTokens; ++t) {
    static_cast<int32_t*>(fields[0])[t] = (first + step * t) % kVocab;
    static_cast<int32_t*>(fields[1])[t] = (first + step * (t + 1)) % kVocab;
  }
}

int main(int argc, char** argv) {
  Session session(argc, argv);
  State state(session.mesh(), /*seed=*/1);
  Embedding token(state / "token", kVocab, kWidth, init::normal(1));
  Cell cell(state / "cell");
  Linear head(state / "head", kWidth, kVocab);
  AdamW adamw(state / "optim", {.lr = 1e-2});
  SampleData data{{{"ids", DType::i32, {kTokens}}, {"targets", DType::i32, {kTokens}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {
    Loss loss = cross_entropy(head(cell(token(batch[0]))), batch[1]);
    adamw.update(grad(loss, state.parameters()));
    return loss;
  }, {.run = session.argument(0, "runs/lstm"), .steps = session.number(1, 100)});
}
