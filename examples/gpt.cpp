// A GPT of one's own, on whatever mesh it is launched on:   trainrun --nproc 2 ./gpt tokens.bin runs/gpt 40
// Alone it is a mesh of one rank:                            ./gpt tokens.bin runs/gpt 40
#include <lockstep.h>
using namespace lockstep;

struct Block {                                                   // a user's own block; lockstep::models has gpt and llama
  LayerNorm norm1, norm2;  Attention attn;  Linear up, down;
  Block(Scope at, int width, int heads)
      : norm1(at / "norm1", width), norm2(at / "norm2", width), attn(at / "attn", width, heads),
        up(at / "mlp" / "up", width, 4 * width), down(at / "mlp" / "down", 4 * width, width) {}
  Tensor operator()(Tensor x) const {
    x = x + attn(norm1(x));
    return x + down(gelu(up(norm2(x))));
  }
};

struct Gpt {
  Embedding token, position;  Stack<Block> blocks;  LayerNorm norm;
  Gpt(Scope at, int vocab, int context, int width, int depth, int heads)
      : token(at / "token", vocab, width), position(at / "position", context, width),
        blocks(at / "blocks", depth, width, heads), norm(at / "norm", width) {}
  Tensor operator()(Tensor ids) const {                          // [micro, context] -> [micro, context, vocab]
    return token.logits(norm(blocks(token(ids) + position(iota_like(ids, 1)))));
  }
};

int main(int argc, char** argv) {
  Session session(argc, argv);                                   // rank, device and peers, as trainrun set them
  auto arguments = session.arguments();
  std::string file = arguments.size() > 0 ? arguments[0] : "data/tokens.bin", run = arguments.size() > 1 ? arguments[1] : "runs/gpt";
  int64_t steps = arguments.size() > 2 ? std::stoll(arguments[2]) : 100;

  State state(session.mesh(), /*seed=*/1337);                    // records specs; nothing is allocated yet
  Gpt gpt(state.root(), /*vocab=*/256, /*context=*/64, /*width=*/64, /*depth=*/2, /*heads=*/4);
  AdamW adamw(state / "optim", {.lr = warmup_cosine(3e-3, 10, steps), .weight_decay = 0.1});
  TokenFile data(file, {.global_batch = 16, .micro_batch = 4, .context = 64, .vocab = 256});
  state.place({{"tp", "blocks.*.attn.qkv.*", Shard(0, 3)}, {"tp", "blocks.*.mlp.up.*", Shard(0)},
               {"tp", "blocks.*.{attn.out,mlp.down}.weight", Shard(1)}, {"dp_shard", "**", Shard(0)}});
  Step step = compile(state, data.spec(), [&](Tensor ids, Tensor targets) {   // traced here, once, on one micro-batch
    Loss loss = cross_entropy(gpt(ids), targets);                // (sum, count)
    adamw.update(grad(loss, state.parameters()));
    return loss;
  });
  Checkpoint checkpoint(run, {.every = 20, .keep = 3});
  for (int64_t i = checkpoint.resume(state); i < steps; ++i) {   // allocates shard by shard, or loads
    session.report(i + 1, {{"loss", step(data.at(i))}});
    checkpoint.save(i + 1, state);
  }
}
