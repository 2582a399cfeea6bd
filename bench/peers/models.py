#!/usr/bin/env python3
"""Training steps of models that people know, here and in PyTorch, in turns on one machine: a row of a Markdown
table for each, as it is measured.

  python3 bench/peers/models.py --bench build/bin/bench-models --torch VENV/bin/python [--device cuda]
    [--only resnet18-96,lstm] [--turns 3]

With --at-once N PyTorch compiles N models side by side, and is timed model by model when all are compiled."""
import argparse
import fcntl
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

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
    "t5_small": ("t5", {"vocab": 32128, "source_context": 128, "context": 128, "width": 512, "depth": 6, "heads": 8,
                        "head_dim": 64, "hidden": 2048}, 4, 128),
    "unet": ("unet", {"size": 96, "width": 32, "depth": 4}, 8, 256),
    "lstm": ("lstm", {"vocab": 10000, "context": 128, "width": 650, "hidden": 650, "depth": 2}, 8, 128),
    "dlrm": ("dlrm", {"rows": [100000] * 26, "width": 16, "bottom": [64, 16], "top": [64]}, 2048, 16384),
}


def answer(code, out, err, where):
    if code:
        return {"error": (err.strip().splitlines() or ["failed"])[-1], "where": where}
    return json.loads(out.strip().splitlines()[-1])


def run(words, where):
    done = subprocess.run(words, capture_output=True, text=True, timeout=1800)
    return answer(done.returncode, done.stdout, done.stderr, where)


def at_once(calls, precision, many):
    """Answers of PyTorch's calls of a precision, {case: words}: `many` start and compile at a time; steps are timed
    alone."""
    with tempfile.TemporaryDirectory() as folder:
        gate = os.path.join(folder, "gate")
        held = open(gate, "a")
        fcntl.flock(held, fcntl.LOCK_EX)
        started, waiting = {}, list(calls)
        ready = lambda case: os.path.exists(f"{gate}.{case}.{precision}") or started[case].poll() is not None
        while waiting or not all(map(ready, started)):
            while waiting and sum(not ready(case) for case in started) < many:
                case = waiting.pop(0)
                out = [open(os.path.join(folder, f"{case}.{kind}"), "w+") for kind in ("out", "err")]
                started[case] = subprocess.Popen(calls[case] + ["--gate", gate], stdout=out[0], stderr=out[1])
            time.sleep(0.05)
        fcntl.flock(held, fcntl.LOCK_UN)
        answers = {}
        for case, process in started.items():
            code = process.wait()
            said = [open(os.path.join(folder, f"{case}.{kind}")).read() for kind in ("out", "err")]
            answers[case] = answer(code, *said, "torch")
        return answers


def row(name, batch, precision, ours, theirs, eager):
    wrong = [r for r in ours + theirs + eager if "error" in r]
    if wrong:
        return f"| {name} | {batch} | {precision} | {wrong[0]['where']}: {wrong[0]['error'][:160]} |"
    if ours[0]["parameters"] != theirs[0]["parameters"]:
        print(f"parameters differ: {name}: {ours[0]['parameters']} here, {theirs[0]['parameters']} there",
              file=sys.stderr)
    mid = lambda rows, key: statistics.median(r[key] for r in rows)
    m, t = mid(ours, "ms"), mid(theirs, "ms")
    of_eager = f"{mid(eager, 'ms'):.2f} | {m / mid(eager, 'ms'):.2f}" if eager else "|"
    return (f"| {name} | {batch} | {precision} | {m:.2f} | {batch / m * 1e3:.1f} | {t:.2f} | {m / t:.2f} | "
            f"{of_eager} | {mid(ours, 'peak_mb'):.0f} / {mid(theirs, 'peak_mb'):.0f} | "
            f"{ours[0]['compile_s']:.1f} / {theirs[0]['first_step_s']:.1f} |")


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
    parser.add_argument("--at-once", type=int, default=0, help="PyTorch's programs that start and compile side by side")
    a = parser.parse_args()
    print("| model | samples | precision | ours, ms | samples/s | PyTorch compiled, ms | ratio | eager, ms | ratio | "
          "peak MB, ours / compiled | cold compile s, ours / theirs |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    names = a.only.split(",") if a.only else list(CASES)
    batch = {name: CASES[name][3 if a.device == "cuda" else 2] for name in names}

    def here(name, precision):
        family, options = CASES[name][:2]
        return [a.bench, family, json.dumps(options), str(batch[name]), precision, a.steps, a.device]

    def torch(name, precision, compiled):
        words = [a.torch, os.path.join(HERE, "torch_models.py"), name, str(batch[name])]
        words += ["--device", a.device, "--steps", a.steps] + (["--compile"] if compiled else [])
        return words + ([] if precision == "fp32" else ["--" + precision])

    def together(precision, compiled):
        return at_once({name: torch(name, precision, compiled) for name in names}, precision, a.at_once)

    if a.at_once:
        for precision in a.precision.split(","):
            turns = []
            for _ in range(a.turns):
                theirs, eager = together(precision, True), together(precision, False) if a.eager else {}
                turns.append((theirs, eager, {name: run(here(name, precision), "here") for name in names}))
            for name in names:
                theirs, eager, ours = ([t[k][name] for t in turns if t[k]] for k in range(3))
                print(row(name, batch[name], precision, ours, theirs, eager), flush=True)
        return
    for name in names:
        for precision in a.precision.split(","):
            ours, theirs, eager = [], [], []
            for _ in range(a.turns):
                ours.append(run(here(name, precision), "here"))
                theirs.append(run(torch(name, precision, True), "torch"))
                if a.eager:
                    eager.append(run(torch(name, precision, False), "torch"))
            print(row(name, batch[name], precision, ours, theirs, eager), flush=True)


main()
