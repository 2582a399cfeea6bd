#!/usr/bin/env python3
"""One training step (forward, backward, AdamW) of a model of bench/peers/models.py in PyTorch, torchvision and
transformers, as people write it. Prints one line of JSON, times in ms.

  python3 torch_models.py CASE BATCH [--compile] [--bf16] [--device cuda] [--steps 5]"""
import argparse
import fcntl
import json
import resource
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Lstm(nn.Module):
    def __init__(self, vocab=10000, width=650, depth=2):
        super().__init__()
        self.token = nn.Embedding(vocab, width)
        self.lstm = nn.LSTM(width, width, depth, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        return self.head(self.lstm(self.token(ids))[0])


class Unet(nn.Module):
    def __init__(self, classes=2, width=32, depth=4):
        super().__init__()

        def double(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True),
                                 nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True))

        sizes = [width << i for i in range(depth + 1)]
        self.down = nn.ModuleList([double(3, sizes[0])] + [double(sizes[i], sizes[i + 1]) for i in range(depth)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(sizes[i + 1], sizes[i], 2, stride=2)
                                 for i in reversed(range(depth))])
        self.join = nn.ModuleList([double(2 * sizes[i], sizes[i]) for i in reversed(range(depth))])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        kept.pop()
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.head(x)


class Dlrm(nn.Module):
    def __init__(self, rows, width=16, bottom=(64, 16), top=(64, 1)):
        super().__init__()

        def mlp(sizes):
            layers = []
            for a, b in zip(sizes, sizes[1:]):
                layers += [nn.Linear(a, b), nn.ReLU()]
            return nn.Sequential(*layers[:-1])

        self.tables = nn.ModuleList([nn.Embedding(n, width) for n in rows])
        pairs = (len(rows) + 1) * len(rows) // 2
        self.bottom, self.top = mlp((13,) + tuple(bottom)), mlp((pairs + width,) + tuple(top))
        self.register_buffer("at", torch.tril_indices(len(rows) + 1, len(rows) + 1, -1), persistent=False)

    def forward(self, dense, categories):
        x = F.relu(self.bottom(dense))
        parts = torch.stack([x] + [t(categories[:, i]) for i, t in enumerate(self.tables)], 1)
        dots = parts @ parts.transpose(1, 2)
        return self.top(torch.cat([x, dots[:, self.at[0], self.at[1]]], 1))


def make(case, batch, device):
    """The model, its inputs, and the loss of its output."""
    ids = lambda n, t: torch.randint(0, n, (batch, t), device=device)
    if case.startswith(("resnet", "convnext", "vit")):
        import torchvision.models as tv
        kind, size = case.rsplit("-", 1)
        models = {"resnet18": tv.resnet18, "resnet50": tv.resnet50, "convnext_t": tv.convnext_tiny,
                  "vit_s": lambda: tv.VisionTransformer(image_size=int(size), patch_size=16, num_layers=12, num_heads=6,
                                                        hidden_dim=384, mlp_dim=1536)}
        x, y = torch.rand(batch, 3, int(size), int(size),
                          device=device), torch.randint(0, 1000, (batch,), device=device)
        return models[kind](), (x,), lambda out: F.cross_entropy(out.float(), y)
    if case == "bert_base":
        from transformers import BertConfig, BertForMaskedLM
        x, y = ids(30522, 128), ids(30522, 128)
        y[torch.rand_like(y, dtype=torch.float) > 0.15] = -100
        model = BertForMaskedLM(BertConfig(hidden_dropout_prob=0, attention_probs_dropout_prob=0))
        return model, (x,), lambda out: F.cross_entropy(out.logits.float().flatten(0, 1), y.flatten())
    if case == "t5_small":
        from transformers import T5Config, T5ForConditionalGeneration
        x, d, y = ids(32128, 128), ids(32128, 128), ids(32128, 128)
        model = T5ForConditionalGeneration(T5Config(dropout_rate=0, decoder_start_token_id=0))
        model.forward_ids = d
        return (model, {"input_ids": x, "decoder_input_ids": d, "use_cache": False},
                lambda out: F.cross_entropy(out.logits.float().flatten(0, 1), y.flatten()))
    if case == "lstm":
        x, y = ids(10000, 128), ids(10000, 128)
        return Lstm(), (x,), lambda out: F.cross_entropy(out.float().flatten(0, 1), y.flatten())
    if case == "unet":
        x, y = torch.rand(batch, 3, 96, 96, device=device), torch.randint(0, 2, (batch, 96, 96), device=device)
        return Unet(), (x,), lambda out: F.cross_entropy(out.float(), y)
    if case == "dlrm":
        rows = [100000] * 26
        x, c = torch.rand(batch, 13, device=device), torch.randint(0, 100000, (batch, 26), device=device)
        y = torch.rand(batch, 1, device=device).round()
        return Dlrm(rows), (x, c), lambda out: F.binary_cross_entropy_with_logits(out.float(), y)
    raise SystemExit(f"no case {case}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case")
    parser.add_argument("batch", type=int)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--tf32", action="store_true",
                        help="products and convolutions in TF32; else, without --bf16, in fp32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--gate", help="a file: once compiled, makes FILE.CASE.PRECISION and times its steps when "
                                       "nobody else holds a lock on FILE")
    a = parser.parse_args()
    torch.manual_seed(0)
    if not a.bf16:
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = a.tf32
    model, inputs, loss_of = make(a.case, a.batch, a.device)
    model = model.to(a.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    call = torch.compile(model) if a.compile else model

    # A step on a GPU copies its batch from pinned memory, as a loader leaves it.
    pinned = lambda t: t.cpu().pin_memory() if torch.is_tensor(t) and a.device == "cuda" else t
    host = {k: pinned(v) for k, v in inputs.items()} if isinstance(inputs, dict) else tuple(pinned(v) for v in inputs)
    sent = lambda t: t.to(a.device, non_blocking=True) if torch.is_tensor(t) else t

    def step():
        inputs = {k: sent(v) for k, v in host.items()} if isinstance(host, dict) else tuple(sent(v) for v in host)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(a.device, torch.bfloat16, enabled=a.bf16):
            out = call(**inputs) if isinstance(inputs, dict) else call(*inputs)
        loss = loss_of(out)
        loss.backward()
        optimizer.step()
        if a.device == "cuda":
            torch.cuda.synchronize()
        return loss

    start = time.perf_counter()
    step()
    first = time.perf_counter() - start
    step()
    if a.gate:
        open(f"{a.gate}.{a.case}.{'bf16' if a.bf16 else 'tf32' if a.tf32 else 'fp32'}", "w").close()
        gate = open(a.gate, "a")
        fcntl.flock(gate, fcntl.LOCK_EX)
        step()
    times = []
    for _ in range(a.steps):
        start = time.perf_counter()
        loss = step()
        times.append(time.perf_counter() - start)
    ms = statistics.median(times) * 1e3
    print(json.dumps({"case": a.case, "batch": a.batch, "compiled": a.compile, "bf16": a.bf16, "ms": ms,
                      "ms_min": min(times) * 1e3,
                      "samples_per_s": a.batch / ms * 1e3, "first_step_s": first, "loss": float(loss.detach()),
                      "parameters": sum(p.numel() for p in model.parameters()),
                      "peak_mb": (torch.cuda.max_memory_allocated() / 2**20 if a.device == "cuda" else
                                  resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}))


main()
