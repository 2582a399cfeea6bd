// Images as sequences of patches (Dosovitskiy et al., arXiv 2010.11929):
//   trainrun --nproc 2 ./example-vit runs/vit 100 [--train.precision=bf16]
#include <lockstep.h>
using namespace lockstep;

constexpr int64_t kSide = 16, kPatch = 4, kWidth = 64, kHeads = 4, kTokens = kSide * kSide / kPatch / kPatch + 1;

struct Block {
  LayerNorm norm1, norm2;  Linear qkv, out, up, down;
  explicit Block(Scope at)
      : norm1(at / "norm1", kWidth), norm2(at / "norm2", kWidth), qkv(at / "qkv", kWidth, 3 * kWidth),
        out(at / "out", kWidth, kWidth), up(at / "up", kWidth, 4 * kWidth), down(at / "down", 4 * kWidth, kWidth) {}
  Tensor operator()(Tensor x) const {
    Tensor heads = unflatten(qkv(norm1(x)), -1, {3, kHeads, -1});                       // [n, tokens, 3, heads, features]
    Tensor seen = sdpa(select(heads, 2, 0), select(heads, 2, 1), select(heads, 2, 2), /*causal=*/false);
    x = x + out(flatten(seen, 2));
    return x + down(gelu(up(norm2(x))));
  }
};

struct Vit {
  Conv2d patches;  Parameter start, position;  Stack<Block> blocks;  LayerNorm norm;  Linear head;
  explicit Vit(Scope at)
      : patches(at / "patches", 3, kWidth, {kPatch}, {.stride = {kPatch}}),
        start(at.parameter("class", {1, 1, kWidth}, init::normal(0.02))),
        position(at.parameter("position", {kTokens, kWidth}, init::normal(0.02))),
        blocks(at / "blocks", 2), norm(at / "norm", kWidth), head(at / "head", kWidth, 4) {}
  Tensor operator()(Tensor image) const {
    Tensor x = transpose(flatten(patches(image), 2), 1, 2);                             // [n, 16, width]
    x = concat({broadcast_to(start.computed(x), {x.size(0), 1, kWidth}), x}, 1) + position.computed(x);
    return head(select(norm(blocks(x)), 1, 0));                                         // what the class token became
  }
};

// Sample i: noise and a bright square in the quarter of the image that is its class, i % 4.
void sample(int64_t i, const std::vector<void*>& fields) {
  for (int k = 0; k < 3 * kSide * kSide; ++k) {
    bool bright = (k / kSide % kSide / 8) == i % 4 / 2 && (k % kSide / 8) == i % 2;
    static_cast<float*>(fields[0])[k] = 0.5f * philox::normal(1, 0, i, k) + (bright ? 2.0f : 0.0f);
  }
  *static_cast<int32_t*>(fields[1]) = i % 4;
}

int main(int argc, char** argv) {
  Session session(argc, argv);
  State state(session.mesh(), /*seed=*/1);
  Vit vit(state.root());
  AdamW adamw(state / "optim", {.lr = 3e-3});
  SampleData data{{{"image", DType::f32, {3, kSide, kSide}}, {"label", DType::i32, {}}}, sample};
  train(session, state, data, [&](const std::vector<Tensor>& batch) {
    Loss loss = cross_entropy(vit(batch[0]), batch[1]);
    adamw.update(grad(loss, state.parameters()));
    return loss;
  }, {.run = session.argument(0, "runs/vit"), .steps = session.number(1, 100)});
}
