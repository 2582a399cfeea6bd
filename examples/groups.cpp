// Parameter groups: no decay on embeddings, biases and norms, and another rate for the head:
//   trainrun --nproc 2 ./example-groups runs/groups 100 [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

constexpr int64_t kWords = 40, kTokens = 8, kWidth = 32, kClasses = 4;

struct Backbone {
  Embedding word;  LayerNorm norm;  Linear up, down;
  explicit Backbone(Scope at)
      : word(at / "word", kWords, kWidth, init::normal(1)), norm(at / "norm", kWidth),
        up(at / "up", kWidth, 4 * kWidth, true, init::kaiming_normal()), down(at / "down", 4 * kWidth, kWidth) {}
  Tensor operator()(Tensor ids) const {
    Tensor x = mean(word(ids), {1});
    return x + down(relu(up(norm(x))));
  }
};

// Sample i: words, most of which are of its class.
void sample(int64_t i, const std::vector<void*>& fields) {
  for (int t = 0; t < kTokens; ++t) {
    const uint32_t word = philox::bits(1, 0, i, t) % kWords;
    static_cast<int32_t*>(fields[0])[t] = t % 4 ? word / kClasses * kClasses + i % kClasses : word;
  }
  *static_cast<int32_t*>(fields[1]) = i % kClasses;
}

int main(int argc, char** argv) {
  Session session(argc, argv);
  const int64_t steps = session.number(1, 100);
  State state(session.mesh(), /*seed=*/1);
  Backbone backbone(state / "backbone");
  Linear head(state / "head", kWidth, kClasses);
  std::vector<Parameter> plain{backbone.word.weight};            // those of one dim, and the table of words
  for (const Parameter& p : state.parameters())
    if (p.shape().size() < 2 && p.fqn() != "head.bias") plain.push_back(p);
  AdamW adamw(state / "optim", {.lr = 3e-3, .weight_decay = 0.1, .clip = 1},   // all that no group names; one clip for all
              {{.lr = 3e-3, .weight_decay = 0, .parameters = plain},
               {.lr = warmup_cosine(1e-2, 5, steps), .betas = {0.9, 0.999}, .parameters = {head.weight, head.bias}}});
  SampleData data{{{"words", DType::i32, {kTokens}}, {"class", DType::i32, {}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {
    Loss loss = cross_entropy(head(backbone(batch[0])), batch[1], {.smoothing = 0.1});
    adamw.update(grad(loss, state.parameters()));
    return loss;
  }, {.run = session.argument(0, "runs/groups"), .steps = steps});
}
