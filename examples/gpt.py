"""A GPT of one's own with a loop of one's own, as gpt.cpp:   trainrun --nproc 2 gpt.py tokens.bin runs/gpt 40"""
import lockstep as ls
import numpy as np


class Block:
    def __init__(self, at, width, heads):
        self.norm1, self.norm2 = ls.LayerNorm(at / "norm1", width), ls.LayerNorm(at / "norm2", width)
        self.attn = ls.Attention(at / "attn", width, heads)
        self.up, self.down = ls.Linear(at / "mlp" / "up", width,
                                       4 * width), ls.Linear(at / "mlp" / "down", 4 * width, width)

    def __call__(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.down(ls.gelu(self.up(self.norm2(x))))


class Gpt:
    def __init__(self, at, vocab, context, width, depth, heads):
        self.token, self.position = ls.Embedding(at / "token", vocab,
                                                 width), ls.Embedding(at / "position", context, width)
        self.blocks = [Block(at / "blocks" / i, width, heads) for i in range(depth)]
        self.norm = ls.LayerNorm(at / "norm", width)

    def __call__(self, ids):  # [micro, context] -> [micro, context, vocab]
        x = self.token(ids) + self.position(ls.iota_like(ids, 1))
        for block in self.blocks:
            x = block(x)
        return self.token.logits(self.norm(x))


session = ls.Session()
file, run, steps = session.argument(0, "data/tokens.bin"), session.argument(1, "runs/gpt"), session.argument(2, 100)
state = ls.State(session.mesh, seed=1337)
gpt = Gpt(state.root, vocab=256, context=64, width=64, depth=2, heads=4)
adamw = ls.AdamW(state / "optim", lr=ls.warmup_cosine(3e-3, 10, steps), weight_decay=0.1)


def loss_of(ids, targets):  # traced once, on one micro-batch
    loss = ls.cross_entropy(gpt(ids), targets)
    adamw.update(ls.grad(loss, state.parameters()))
    return loss


step = ls.compile(state, {"ids": (ls.i32, [64]), "targets": (ls.i32, [64])}, loss_of, global_batch=16, micro_batch=4)
tokens = np.memmap(file, np.uint16, "r").astype(np.int32)
rows = (len(tokens) - 1) // 64
checkpoint = ls.Checkpoint(run, every=20, keep=3)
step.done = checkpoint.resume(state)  # allocates shard by shard, or loads
while step.done < steps:
    starts = (step.done * 16 + np.arange(16)) % rows * 64
    batch = tokens[starts[:, None] + np.arange(65)]
    result = step(batch[:, :-1], batch[:, 1:])
    session.report(step.done, loss=result["loss"])
    checkpoint.save(step.done, state)
