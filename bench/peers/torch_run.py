#!/usr/bin/env python3
"""Trains the GPT-2 of a config in PyTorch from our initial weights, in our order of data, and writes metrics.jsonl:

  trainrun show CONFIG > c.json
  trainrun CONFIG --name=first --train.steps=1 --optim.lr=0 --optim.schedule.warmup=0
  trainrun export-hf runs/first first
  python3 torch_run.py c.json --weights first/model.safetensors --out metrics.jsonl [--device cuda] [--stop STEP]

One GPU or the CPU, kind gpt on one file of uint16 tokens; AdamW, cosine, clipping, validation as the config says. The
model is torch_step.py's: autocast, torch.compile, scaled_dot_product_attention, fused AdamW. step_ms is the mean of the
steps since the last line, without validation."""
import argparse
import json
import math
import sys
import time

import numpy as np
import torch
from safetensors.torch import load_file

from torch_step import Model

ORDER = 0xEFF32A9142162ED2  # XXH3-64 of "data.order": the stream of launcher/data/order.cpp
HEADED = (20240520).to_bytes(4, "little")  # bench/gpu/make_tokens.py's files
OURS = {"transformer.wte": "token", "transformer.wpe": "position", "transformer.ln_f": "norm", "ln_1": "norm1",
        "ln_2": "norm2", "attn.c_attn": "qkv", "attn.c_proj": "out", "mlp.c_fc": "up", "mlp.c_proj": "down"}


def philox(seed, stream, step, index):
    """Word index % 4 of quad index / 4 (core/base/philox.h), of an array of indices."""
    key = (seed * 0x9E3779B97F4A7C15 & (1 << 64) - 1) ^ stream
    k0, k1 = np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    quad = index >> np.uint64(2)
    c = [quad & low, quad >> half, np.full_like(quad, step & 0xFFFFFFFF), np.full_like(quad, step >> 32)]
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> half) ^ c[1] ^ k0, p1 & low, (p0 >> half) ^ c[3] ^ k1, p0 & low]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return np.choose((index & np.uint64(3)).astype(np.int64), c)


def order(count, seed, epoch):
    """The permutation of 0..count-1 of an epoch (launcher/data/order.h): a Feistel network, walked to below count."""
    half = np.uint64(((count - 1).bit_length() + 1) // 2)
    mask = np.uint64((1 << int(half)) - 1)
    value = np.arange(count, dtype=np.uint64)
    open_ = np.arange(count)
    while len(open_):
        left, right = value[open_] >> half, value[open_] & mask
        for turn in range(8):
            mixed = left ^ (philox(seed, ORDER, epoch, np.uint64(turn << 32) | right) & mask)
            left, right = right, mixed
        value[open_] = left << half | right
        open_ = open_[value[open_] >= count]
    return value.astype(np.int64)


class Rows:
    """Rows of context + 1 tokens: the training rows in our order, and the first validation rows."""

    def __init__(self, config):
        data, self.context = config["data"], config["model"]["context"]
        tokens = np.memmap(data["paths"][0], np.uint16, "r")
        if tokens[:2].tobytes() == HEADED:
            tokens = tokens[512:]
        kept = math.floor(len(tokens) * data["validation"] + 0.5)
        self.train, self.held = tokens[:len(tokens) - kept], tokens[len(tokens) - kept:]
        self.count = (len(self.train) - 1) // self.context
        self.seed, self.orders = config["train"]["seed"], {}

    def pick(self, tokens, rows):
        at = np.asarray(rows)[:, None] * self.context + np.arange(self.context + 1)[None]
        return torch.from_numpy(tokens[at].astype(np.int64))

    def batch(self, step, size):  # step from 0 on
        rows = []
        for g in range(step * size, (step + 1) * size):
            epoch = g // self.count
            if epoch not in self.orders:
                self.orders = {epoch: order(self.count, self.seed, epoch)}
            rows.append(self.orders[epoch][g % self.count])
        return self.pick(self.train, rows)

    def validation(self, first, size):
        last = min(first + size, (len(self.held) - 1) // self.context)
        return self.pick(self.held, range(first, last))


def load(model, path):
    """Our weights, as export-hf writes them: its matrices stand [in, out]."""
    given, parameters = load_file(path), dict(model.named_parameters())
    for name, value in given.items():
        for theirs, ours in OURS.items():
            name = name.replace(theirs, ours)
        name = name.replace("transformer.h.", "blocks.")
        if value.dim() == 2 and name.startswith("blocks."):
            value = value.t()
        with torch.no_grad():
            parameters.pop(name).copy_(value)
    if parameters:
        sys.exit(f"torch_run: {path} has no {', '.join(parameters)}")


def rate(config, step):
    """The learning rate of step `step`, from 1 on (core/optim/schedule.h)."""
    optim, plan = config["optim"], config["optim"]["schedule"]
    if step <= plan["warmup"]:
        return optim["lr"] * step / plan["warmup"]
    share = (step - plan["warmup"]) / (config["train"]["steps"] - plan["warmup"])
    low = plan["min_ratio"]
    return optim["lr"] * (low + (1 - low) * (1 + math.cos(math.pi * share)) / 2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--weights", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--stop", type=int, help="the last step; default: train.steps")
    a = parser.parse_args()
    with open(a.config, encoding="utf-8") as file:
        config = json.load(file)
    train, optim, batch = config["train"], config["optim"], config["batch"]["global"]
    gpu = a.device == "cuda"
    torch.backends.cuda.matmul.allow_tf32 = train["precision"] == "tf32"
    cast = torch.autocast(a.device, torch.bfloat16, enabled=train["precision"] == "bf16")
    model = Model(dict(config["model"])).to(a.device)
    load(model, a.weights)
    run = torch.compile(model) if gpu else model
    matrices, vectors = ([p for p in model.parameters() if (p.dim() > 1) == wide] for wide in (True, False))
    adamw = torch.optim.AdamW([{"params": matrices, "weight_decay": optim["weight_decay"]},
                               {"params": vectors, "weight_decay": 0.0}],
                              lr=optim["lr"], betas=tuple(optim["betas"]), eps=optim["eps"], fused=True)
    rows = Rows(config)

    def moved(picked):
        picked = picked.pin_memory().to(a.device, non_blocking=True) if gpu else picked
        return picked[:, :-1], picked[:, 1:]

    def validated():
        losses, count = 0.0, 0
        with torch.no_grad(), cast:
            for i in range(train["eval_batches"]):
                picked = rows.validation(i * batch, batch)
                losses += float(model(*moved(picked))) * len(picked)
                count += len(picked)
        return losses / count

    steps = a.stop or train["steps"]
    with open(a.out, "w", encoding="utf-8") as out:
        since, began = 0, time.perf_counter()
        for step in range(1, steps + 1):
            for group in adamw.param_groups:
                group["lr"] = rate(config, step)
            with cast:
                loss = run(*moved(rows.batch(step - 1, batch)))
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), optim["clip"])
            adamw.step()
            adamw.zero_grad(set_to_none=True)
            since += 1
            logs = step % config["log"]["every"] == 0 or step in (1, steps)
            validates = train["eval_every"] and (step % train["eval_every"] == 0 or step == steps)
            if not logs and not validates:
                continue
            row = {"step": step, "loss": loss.item(), "grad_norm": norm.item(), "lr": rate(config, step)}
            timed = time.perf_counter() - began
            row["step_ms"] = timed / since * 1e3
            row["tokens_per_s"] = batch * rows.context * since / timed
            if validates:
                row["val_loss"] = validated()
            print(json.dumps(row), file=out, flush=True)
            since, began = 0, time.perf_counter()


if __name__ == "__main__":
    main()
