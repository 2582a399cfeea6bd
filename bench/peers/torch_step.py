"""One training step of the second model of bench-step in PyTorch: python3 torch_step.py [steps] [--compile] [--bf16]. Prints the median in ms."""
import sys, time
import torch, torch.nn as nn, torch.nn.functional as F

steps = int(next((a for a in sys.argv[1:] if a.isdigit()), 9))
VOCAB, CONTEXT, WIDTH, DEPTH, HEADS, BATCH = 256, 256, 384, 6, 6, 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(WIDTH, dim=2)
        q, k, v = (y.view(b, t, HEADS, c // HEADS).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(DEPTH)), nn.LayerNorm(WIDTH)

    def forward(self, ids, targets):
        x = self.token(ids) + self.position(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.token.weight.t()
        return F.cross_entropy(logits.view(-1, VOCAB).float(), targets.reshape(-1))


torch.manual_seed(1)
model = Gpt()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
run = torch.compile(model) if "--compile" in sys.argv else model
ids = torch.randint(0, VOCAB, (BATCH, CONTEXT + 1))


def step():
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled="--bf16" in sys.argv):
        loss = run(ids[:, :-1], ids[:, 1:])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


for _ in range(2):
    step()
times = []
for _ in range(steps):
    start = time.perf_counter()
    step()
    times.append(time.perf_counter() - start)
print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads: {sorted(times)[len(times) // 2] * 1e3:.1f} ms per step")
