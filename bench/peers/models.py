#!/usr/bin/env python3
"""Training steps of models that people know, here and in PyTorch, in turns on one machine: a row of a Markdown
table for each, as it is measured.

  python3 bench/peers/models.py --bench build/bin/bench-models --torch VENV/bin/python [--device cuda] [--only resnet18-96,lstm] [--turns 3]"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# name: (family, options, samples on the CPU, samples on a GPU)
CASES = {
    "resnet18-96": ("resnet", {"layers": 18, "size": 96, "classes": 1000}, 16, 512),
    "resnet18-224": ("resnet", {"layers": 18, "size": 224, "classes": 1000}, 8, 256),
    "resnet50-96": ("resnet", {"layers": 50, "size": 96, "classes": 1000}, 8, 256),
    "resnet50-224": ("resnet", {"layers": 50, "size": 224, "classes": 1000}, 4, 128),
    "vit_s-224": ("vit", {"size": 224, "patch": 16, "width": 384, "depth": 12, "heads": 6, "classes": 1000}, 8, 256),
    "convnext_t-224": ("convnext", {"size": 224, "classes": 1000}, 4, 128),
    "bert_base": ("bert", {"vocab": 30522, "context": 128, "width": 768, "depth": 12, "heads": 12}, 4, 128),
    "t5_small": ("t5", {"vocab": 32128, "source_context": 128, "context": 128, "width": 512, "depth": 6, "heads": 8, "head_dim": 64,
                        "hidden": 2048}, 4, 128),
    "unet": ("unet", {"size": 96, "width": 32, "depth": 4}, 8, 256),
    "lstm": ("lstm", {"vocab": 10000, "context": 128, "width": 650, "hidden": 650, "depth": 2}, 8, 128),
    "dlrm": ("dlrm", {"rows": [100000] * 26, "width": 16, "bottom": [64, 16], "top": [64]}, 2048, 16384),
}


def run(words, where):
    done = subprocess.run(words, capture_output=True, text=True, timeout=1800)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["failed"])[-1], "where": where}
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", required=True)
    parser.add_argument("--torch", default=sys.executable)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="")
    parser.add_argument("--precision", default="fp32,bf16", help="of fp32, tf32, bf16")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", default="5")
    parser.add_argument("--eager", action="store_true", help="PyTorch uncompiled, too")
    a = parser.parse_args()
    print("| model | samples | precision | Lockstep ms | PyTorch compiled ms | eager ms | ratio | peak MB, ours / theirs | compile s, ours / theirs |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name in a.only.split(",") if a.only else CASES:
        family, options, cpu, gpu = CASES[name]
        batch = gpu if a.device == "cuda" else cpu
        for precision in a.precision.split(","):
            ours, theirs, eager = [], [], []
            for _ in range(a.turns):
                ours.append(run([a.bench, family, json.dumps(options), str(batch), precision, a.steps, a.device], "here"))
                words = [a.torch, os.path.join(HERE, "torch_models.py"), name, str(batch), "--device", a.device, "--steps", a.steps]
                words += [] if precision == "fp32" else ["--" + precision]
                theirs.append(run(words + ["--compile"], "torch"))
                if a.eager:
                    eager.append(run(words, "torch"))
            wrong = [r for r in ours + theirs + eager if "error" in r]
            if wrong:
                print(f"| {name} | {batch} | {precision} | {wrong[0]['where']}: {wrong[0]['error'][:160]} |", flush=True)
                continue
            mid = lambda rows, key: statistics.median(r[key] for r in rows)
            m, t = mid(ours, "ms"), mid(theirs, "ms")
            print(f"| {name} | {batch} | {precision} | {m:.2f} | {t:.2f} | {mid(eager, 'ms') if eager else 0:.1f} | {m / t:.2f} | "
                  f"{mid(ours, 'peak_mb'):.0f} / {mid(theirs, 'peak_mb'):.0f} | {ours[0]['compile_s']:.1f} / {theirs[0]['first_step_s']:.1f} |",
                  flush=True)
            if ours[0]["parameters"] != theirs[0]["parameters"]:
                print(f"parameters differ: {name}: {ours[0]['parameters']} here, {theirs[0]['parameters']} there", file=sys.stderr)


main()
