#!/usr/bin/env python3
"""Fine-tuning with adapters as PEFT does it, of the kept models: tuned.json has its losses and the logits afterwards.

    tune.py TRAINRUN             writes tuned.json (needs torch, transformers and peft); the adapters start as trainrun draws them
    tune.py compare TRAINRUN     trainrun tunes the same on two ranks; PEFT loads its adapters, transformers its merged weights, and
                                 both give the same logits
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import peft
import torch
import transformers as hf

import make

HERE = pathlib.Path(__file__).parent
STEPS, GLOBAL, CONTEXT = 6, 4, 16
TARGETS = {"gpt2": ["blocks.*.attn.qkv", "blocks.*.mlp.up"], "llama": [], "bert": []}
OPTIONS = ["--train.lora.rank=2", "--train.lora.alpha=4", "--model.dropout=0", "--optim.lr=1e-2", "--optim.weight_decay=0.1",
           f"--model.context={CONTEXT}", "--data.order=sequential"]


def tokens():
    out, x = [], 3
    while len(out) < 3000:
        x = (x * 5 + 7) % make.VOCAB
        out.append(x)
    return out


def trainrun(binary, work, *words):
    done = subprocess.run([binary, *words], cwd=work, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr


def imported(binary, work, name):
    targets = [f"--train.lora.targets={json.dumps(TARGETS[name])}"] if TARGETS[name] else []
    trainrun(binary, work, "import-hf", str(HERE / name), f"--name={name}", *OPTIONS, *targets)


def tuned(model):
    ids, losses = torch.tensor(tokens()), []
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1)
    model.train()
    for step in range(STEPS):
        first = [(step * GLOBAL + i) * CONTEXT for i in range(GLOBAL)]
        x = torch.stack([ids[at:at + CONTEXT] for at in first])
        y = torch.stack([ids[at + 1:at + CONTEXT + 1] for at in first])
        loss = torch.nn.functional.cross_entropy(model(input_ids=x).logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def write(binary):
    kept = {}
    with tempfile.TemporaryDirectory() as work:
        for name in ("gpt2", "llama"):
            imported(binary, work, name)
            trainrun(binary, work, "export-hf", name, f"{name}-start", "--adapter")
            base = hf.AutoModelForCausalLM.from_pretrained(HERE / name, dtype=torch.float64)
            if name == "gpt2":
                base.config.resid_pdrop = base.config.embd_pdrop = base.config.attn_pdrop = 0.0
                base = type(base).from_pretrained(HERE / name, dtype=torch.float64, config=base.config)
            model = peft.PeftModel.from_pretrained(base, f"{work}/{name}-start", is_trainable=True).double()
            count = sum(p.numel() for p in model.parameters() if p.requires_grad)
            losses = tuned(model)
            logits = make.logits(model.merge_and_unload(), name, torch.float64).tolist()
            kept[name] = {"trained": count, "losses": losses, "logits": logits}
            print(name, count, losses)
    short = lambda v: json.dumps(json.loads(json.dumps(v), parse_float=lambda x: round(float(x), 8)))
    (HERE / "tuned.json").write_text("{\n" + ",\n".join(f' "{n}": {short(v)}' for n, v in kept.items()) + "\n}\n")


def compare(binary):
    with tempfile.TemporaryDirectory() as work:
        (pathlib.Path(work) / "tokens.bin").write_bytes(b"".join(t.to_bytes(2, "little") for t in tokens()))
        for name in TARGETS:
            imported(binary, work, name)
            trainrun(binary, work, "--nproc", "2", f"runs/{name}/config.json", "--data.paths=tokens.bin", f"--batch.global={GLOBAL}",
                     "--batch.micro=1", f"--train.steps={STEPS}")
            trainrun(binary, work, "export-hf", name, name)
            trainrun(binary, work, "export-hf", name, f"{name}-adapter", "--adapter")
            auto = hf.AutoModelForMaskedLM if name == "bert" else hf.AutoModelForCausalLM
            merged = auto.from_pretrained(f"{work}/{name}", dtype=torch.float64)
            base = auto.from_pretrained(HERE / name, dtype=torch.float64)
            before = make.logits(base, name, torch.float64)
            model = peft.PeftModel.from_pretrained(base, f"{work}/{name}-adapter").double()
            a, b = make.logits(merged, name, torch.float64), make.logits(model, name, torch.float64)
            print(name, "moved by", (a - before).abs().max().item(), "largest difference", (a - b).abs().max().item())
            assert (a - b).abs().max() < 1e-5 < (a - before).abs().max()


if __name__ == "__main__":
    found = str(pathlib.Path(sys.argv[-1]).resolve())
    compare(found) if sys.argv[1] == "compare" else write(found)
