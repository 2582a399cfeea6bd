"""A classifier of floats, as mlp.cpp:   trainrun --nproc 2 mlp.py runs/mlp 100 [--train.precision=bf16]"""
import lockstep as ls
import numpy as np


class Mlp:
    def __init__(self, at):
        self.up, self.middle, self.down = (ls.Linear(at / "up", 20, 64), ls.Linear(at / "middle", 64, 64),
                                           ls.Linear(at / "down", 64, 4))

    def __call__(self, x):
        return self.down(ls.relu(self.middle(ls.relu(self.up(x)))))


def sample(i):
    """20 numbers from a random stream of their own, and the class that four sums of five of them decide."""
    x = np.array([ls.philox_uniform(1, 0, i, k) for k in range(20)], np.float32) - np.float32(0.5)
    sums = [np.float32(0)] * 4
    for k in range(20):
        sums[k // 5] += x[k]
    return x, np.argmax(sums)


session = ls.Session()
state = ls.State(session.mesh, seed=1)
mlp = Mlp(state.root)
adamw = ls.AdamW(state / "optim", lr=ls.warmup_cosine(1e-2, 10, 100))
data = ls.SampleData({"x": (ls.f32, [20]), "label": (ls.i32, [])}, sample)


def step(x, label):  # traced once, on one micro-batch
    logits = mlp(x)
    loss = ls.cross_entropy(logits, label)  # (sum, count)
    ls.metric("accuracy", ls.mean_loss((logits.argmax(-1) == label).to(ls.f32)))
    adamw.update(ls.grad(loss, state.parameters()))
    return loss


ls.train(session, state, data, step, run=session.argument(0, "runs/mlp"), steps=session.argument(1, 100))
