#!/usr/bin/env python3
"""Rows of docs/performance.md, measured anew, with clocks and watts; and starts.

  python3 rows.py --root .gpu --out out 124m 1558m --starts 124m        in a folder that pack.sh made

Of each group of rows.json ours run first, then PyTorch's, all in one call; both read the file of tokens. A run of ours
ends at its last step, without a save. "start" is ours from the command to the line of step 1; PyTorch's is its first
step alone, imports and weights left out. What may be long in rows.json is a list of strings, joined by spaces.
Writes to --out: results.jsonl (a line per run), clocks.csv, log.txt, rows.md (the table)."""
import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import threading
import time

from measure import IDLE_MIB, Clocks, run
from processes import end

HERE = os.path.dirname(os.path.abspath(__file__))
SHOWN = ("step_ms", "first_step_s", "memory_mib", "sm_mhz", "watts")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("groups", nargs="*", help="of rows.json; group:LABEL+LABEL takes some of its runs alone")
    parser.add_argument("--root", required=True, help="folder with bin/, configs/, peers/ and data/")
    parser.add_argument("--out", required=True)
    parser.add_argument("--starts", nargs="*", default=[], help="of rows.json: with empty caches, then full ones")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--only", choices=["both", "ours", "torch"], default="both")
    parser.add_argument("--limit", type=float, default=150, help="seconds for one run")
    parser.add_argument("--budget", type=float, default=540, help="seconds, after which no run begins; it is named")
    return parser.parse_args()


def words(text):
    return shlex.split(text if isinstance(text, str) else " ".join(text))


def until_step(command, step, limit, cwd, env=None):
    """Runs trainrun up to the line of a step: seconds to the line of step 1 (None: it never came), and all lines."""
    began, first, text = time.monotonic(), None, []
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", cwd=cwd,
        env={**os.environ, **(env or {})}, start_new_session=True,
    )
    watchdog = threading.Timer(limit, end, [child])
    watchdog.start()
    try:
        for line in child.stdout:
            text.append(line.rstrip())
            if line.startswith("step 1/"):
                first = time.monotonic() - began
            if line.startswith(f"step {step}/"):
                break
    finally:
        watchdog.cancel()
        end(child)
        child.stdout.close()
        child.wait()
    return first, text


def wait_for_idle(gpus, limit=20):
    """Until nobody holds memory of the GPUs: what was ended before gives it back a little later."""
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    until = time.monotonic() + limit
    while time.monotonic() < until:
        try:
            said = subprocess.run(query, capture_output=True, text=True, timeout=20).stdout
        except (OSError, subprocess.TimeoutExpired):
            return
        if all(int(word) < IDLE_MIB for word in said.split()[:gpus] if word.isdigit()):
            return
        time.sleep(0.2)


def steps_of(path):
    """Rows of a run that was ended while it may have written one."""
    try:
        with open(path) as file:
            return [json.loads(line) for line in file if line.endswith("}\n")]
    except OSError:
        return []


def figures_of(steps, first):
    """Of the steps behind `first`: times, and what a step stands still for communication."""
    counted = [one for one in steps if one["step"] > first]
    times = [one["step_ms"] for one in counted]
    exposed = [part for part in counted[-1] if part.startswith("exposed_")]
    return {
        "step_ms": statistics.median(times), "step_ms_min": min(times), "step_ms_max": max(times),
        "samples": len(times),
        "exposed_ms": sum(statistics.median(one[part] for one in counted) for part in exposed),
    }


class Rows:
    def __init__(self, a):
        self.a = a
        with open(os.path.join(HERE, "rows.json")) as file:
            self.data = json.load(file)
        self.began = time.monotonic()
        self.rows = []
        self.tokens = os.path.join(a.root, "data", "tokens.bin")
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else a.out
        self.work = os.path.join(memory, f"lockstep-rows-{os.getpid()}")

    def seconds(self):
        return time.monotonic() - self.began

    def late(self, what):
        if self.seconds() <= self.a.budget:
            return False
        print(f"left out: {what}, the budget of {self.a.budget:.0f} s is used", flush=True)
        return True

    def keep(self, row):
        self.rows.append(row)
        with open(os.path.join(self.a.out, "results.jsonl"), "a") as file:
            file.write(json.dumps(row) + "\n")
        said = " ".join(f"{key} {row[key]:.4g}" for key in SHOWN if row.get(key)) or row.get("error")
        print(f"{self.seconds():6.1f} s  {row['who']:8} {row['group']}, {row['label']}: {said}", flush=True)

    def command(self, group, name, options):
        return [
            os.path.join(self.a.root, "bin", "trainrun"), "--nproc", str(group["ranks"]),
            os.path.join(self.a.root, "configs", group["config"]), f"--name={name}", "--train.steps=1000",
            "--train.eval_every=0", "--checkpoint.every=0", "--log.every=1", "--log.hash_every=0",
            f"--data.paths={json.dumps([self.tokens])}", *words(group.get("set", "")), *options,
        ]

    def log(self, label, text):
        with open(os.path.join(self.a.out, "log.txt"), "a") as file:
            file.write(f"== {label}\n" + "\n".join(text[-40:]) + "\n")

    def ours(self, key, group, label, how):
        precision, *more = words(how)
        options = ["--data.validation=0", *words(self.data["precisions"][precision]), *more]
        name = f"{key}_{label}".translate(str.maketrans(", ", "__"))
        wait_for_idle(group["ranks"])
        with Clocks(self.a.out, name, group["ranks"]) as seen:
            command = self.command(group, name, options)
            first, text = until_step(command, group["steps"], self.a.limit, self.work)
        self.log(name, text)
        row = {"who": "ours", "group": key, "label": label, "ranks": group["ranks"], "first_step_s": first}
        steps = steps_of(os.path.join(self.work, "runs", name, "metrics.jsonl"))
        if steps and steps[-1]["step"] >= group["steps"] - 1:
            row.update(figures_of(steps, group["steps"] // 3))
        else:
            row["error"] = " ".join(text[-3:])[-400:]
        row.update(seen.summary())
        shutil.rmtree(os.path.join(self.work, "runs", name), ignore_errors=True)
        self.keep(row)

    def torch(self, key, group, label, how):
        start = [sys.executable]
        if group["ranks"] > 1:
            start += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(group["ranks"])]
        script = os.path.join(self.a.root, "peers", "torch_step.py")
        name = f"torch_{key}_{label}".replace(" ", "_")
        wait_for_idle(group["ranks"])
        with Clocks(self.a.out, name, group["ranks"]) as seen:
            command = [*start, script, *words(how), "--device", "cuda", "--tokens", self.tokens]
            _, text = run(command, self.a.limit, self.a.out, name)
        row = {"who": "pytorch", "error": (text.strip().splitlines() or ["nothing printed"])[-1]}
        for line in text.splitlines():
            if line.startswith('{"who"'):
                row = json.loads(line)
        row.update(group=key, label=label, **seen.summary())
        self.keep(row)

    def group(self, asked):
        key, _, labels = asked.partition(":")
        group = self.data["groups"][key]
        for _ in range(self.a.turns):
            for who, program in (("ours", self.ours), ("torch", self.torch)):
                for label, how in group[who].items() if self.a.only in ("both", who) else ():
                    if (not labels or label in labels.split("+")) and not self.late(f"{key}, {label}"):
                        program(key, group, label, how)

    def start(self, key):
        group = self.data["starts"][key]
        names = ("LOCKSTEP_CACHE", "CUDA_CACHE_PATH")
        caches = {name: os.path.join(self.work, f"{key}_{name}") for name in names}
        for turn in range(self.a.turns):
            for folder in caches.values():
                shutil.rmtree(folder, ignore_errors=True)
            for state in ("cold", "warm"):
                if self.late(f"start of {key}, {state}"):
                    continue
                name = f"start_{key}_{state}_{turn}"
                wait_for_idle(group["ranks"])
                first, text = until_step(self.command(group, name, []), 2, self.a.limit, self.work, caches)
                self.log(name, text)
                row = {"who": "ours", "group": key, "label": f"start, {state}", "ranks": group["ranks"]}
                self.keep({**row, "first_step_s": first} if first else {**row, "error": " ".join(text[-3:])[-400:]})
                shutil.rmtree(os.path.join(self.work, "runs", name), ignore_errors=True)

    def table(self):
        heads = ["workload", "run", "ms (least to most)", "exposed ms", "start s", "MiB", "MHz", "W"]
        lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
        for row in self.rows:
            title = self.data["groups"].get(row["group"], {}).get("title", row["group"])
            cells = [title, f"{row['who']}, {row['label']}"]
            if row.get("step_ms"):
                cells.append(f"{row['step_ms']:.1f} ({row['step_ms_min']:.1f} to {row['step_ms_max']:.1f})")
            else:
                cells.append(row.get("error", ""))
            digits = {"exposed_ms": 1, "first_step_s": 1, "memory_mib": 0, "sm_mhz": 0, "watts": 0}
            cells += [f"{row[name]:.{many}f}" if row.get(name) else "" for name, many in digits.items()]
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines) + "\n"


def main():
    a = arguments()
    a.root, a.out = os.path.abspath(a.root), os.path.abspath(a.out)
    os.makedirs(a.out, exist_ok=True)
    rows = Rows(a)
    os.makedirs(rows.work, exist_ok=True)
    try:
        for key in a.starts:
            rows.start(key)
        for asked in a.groups:
            rows.group(asked)
    finally:
        shutil.rmtree(rows.work, ignore_errors=True)
        with open(os.path.join(a.out, "rows.md"), "a") as file:
            file.write(rows.table())
    print(rows.table())


if __name__ == "__main__":
    main()
