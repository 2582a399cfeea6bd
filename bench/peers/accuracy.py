#!/usr/bin/env python3
"""Accuracies of a picture classifier over several seeds, ours and PyTorch's, by one recipe:

  python3 bench/peers/accuracy.py --trainrun build/bin/trainrun --torch VENV/bin/python [--seeds 5] [--device cuda]
    [--config configs/vision.json] [--KEY=VALUE ...]

Further options are keys of the config, for both. Prints a row of a Markdown table per seed, then means and standard
deviations, and whether the means differ by more than twice the standard error of their difference."""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def run(words, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=3600, **more)
    if done.returncode:
        sys.exit(f"accuracy: {' '.join(words)}: exit code {done.returncode}\n"
                 f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def ours(a, keys, seed, batches, folder):
    name = f"accuracy-{os.getpid()}-{seed}"
    run([a.trainrun, a.config, f"--name={name}", f"--train.seed={seed}", f"--train.device={a.device}",
         f"--train.eval_batches={batches}", "--log-dir", folder, *keys])
    with open(os.path.join("runs", name, "metrics.jsonl"), encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    subprocess.run(["rm", "-r", os.path.join("runs", name)], check=True)
    return [row["val_accuracy"] for row in rows if "val_accuracy" in row][-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trainrun", default="build/bin/trainrun")
    parser.add_argument("--torch", default=sys.executable)
    parser.add_argument("--config", default="configs/vision.json")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=5)
    a, keys = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "c.json")
        shown = run([a.trainrun, "show", a.config, f"--train.device={a.device}", *keys])
        with open(config, "w", encoding="utf-8") as file:
            file.write(shown)
        global_batch = json.loads(shown)["batch"]["global"]
        print("| seed | Lockstep | PyTorch |\n| --- | --- | --- |", flush=True)
        both = []
        for seed in range(1, a.seeds + 1):
            theirs = json.loads(run([a.torch, os.path.join(HERE, "torch_vision.py"), config, "--seed", str(seed),
                                     "--device", a.device]).splitlines()[-1])
            batches = -(-theirs["pictures"] // global_batch)  # a validation measures all pictures
            both.append((ours(a, keys, seed, batches, folder), theirs["accuracy"]))
            print(f"| {seed} | {both[-1][0]:.4f} | {both[-1][1]:.4f} |", flush=True)
    means = [statistics.mean(side) for side in zip(*both)]
    spreads = [statistics.stdev(side) if len(both) > 1 else 0 for side in zip(*both)]
    print("| mean | " + " | ".join(f"{mean:.4f} +- {spread:.4f}" for mean, spread in zip(means, spreads)) + " |")
    error = math.sqrt(sum(spread**2 for spread in spreads) / len(both))
    print(f"difference of the means {means[0] - means[1]:+.4f}, its standard error {error:.4f}: "
          + ("equal within two of them" if abs(means[0] - means[1]) <= 2 * error else "NOT equal within two of them"))


if __name__ == "__main__":
    main()
