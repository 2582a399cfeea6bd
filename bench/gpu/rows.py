#!/usr/bin/env python3
"""Rows of docs/performance.md, measured anew: each group of rows.json, ours and then PyTorch's, in one call, with clocks and watts; and starts.

  python3 rows.py --root .gpu --out out 124m 1558m --starts 124m        in a folder that pack.sh made

Both read the file of tokens. A run of ours ends at its last step, without a save. "start" is ours from the command to the line of step 1;
PyTorch's is its first step alone, imports and weights left out. Writes to --out: results.jsonl (a line per run), clocks.csv, log.txt, rows.md (the table)."""
import argparse
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

from measure import IDLE_MIB, Clocks, run

HERE = os.path.dirname(os.path.abspath(__file__))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("groups", nargs="*", help="of rows.json; group:LABEL+LABEL takes some of its runs alone")
    parser.add_argument("--root", required=True, help="folder with bin/, configs/, peers/ and data/")
    parser.add_argument("--out", required=True)
    parser.add_argument("--starts", nargs="*", default=[], help="of rows.json: seconds to step 1, with empty caches and full ones")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--only", choices=["both", "ours", "torch"], default="both")
    parser.add_argument("--limit", type=float, default=150, help="seconds for one run")
    parser.add_argument("--budget", type=float, default=540, help="seconds; runs that would start later are left out and named")
    return parser.parse_args()


def descendants(pid):
    """The process and all that it started, by what /proc says."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    parents[int(entry)] = int(file.read().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError, ValueError):
                pass  # it is gone
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def end(child):
    for pid in descendants(child.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def until_step(command, step, limit, cwd, env=None):
    """Runs trainrun up to the line of a step: seconds to the line of step 1 (None: it never came), and what was printed."""
    began, first, text = time.monotonic(), None, []
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", cwd=cwd,
                             env={**os.environ, **(env or {})}, start_new_session=True)
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
    until = time.monotonic() + limit
    while time.monotonic() < until:
        try:
            said = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=20).stdout
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


class Rows:
    def __init__(self, a):
        self.a = a
        with open(os.path.join(HERE, "rows.json")) as file:
            self.data = json.load(file)
        self.began = time.monotonic()
        self.rows = []
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else a.out
        self.work = os.path.join(memory, f"lockstep-rows-{os.getpid()}")

    def late(self, what):
        if time.monotonic() - self.began <= self.a.budget:
            return False
        print(f"left out: {what}, the budget of {self.a.budget:.0f} s is used", flush=True)
        return True

    def keep(self, row):
        self.rows.append(row)
        with open(os.path.join(self.a.out, "results.jsonl"), "a") as file:
            file.write(json.dumps(row) + "\n")
        figures = " ".join(f"{key} {row[key]:.4g}" for key in ("step_ms", "first_step_s", "memory_mib", "sm_mhz", "watts") if row.get(key))
        print(f"{time.monotonic() - self.began:6.1f} s  {row['who']:8} {row['group']}, {row['label']}: {figures or row.get('error')}", flush=True)

    def command(self, group, name, options):
        return [os.path.join(self.a.root, "bin", "trainrun"), "--nproc", str(group["ranks"]), os.path.join(self.a.root, "configs", group["config"]),
                f"--name={name}", "--train.steps=1000", "--train.eval_every=0", "--checkpoint.every=0", "--log.every=1", "--log.hash_every=0",
                f"--data.paths={json.dumps([os.path.join(self.a.root, 'data', 'tokens.bin')])}", *shlex.split(group.get("set", "")), *options]

    def log(self, label, text):
        with open(os.path.join(self.a.out, "log.txt"), "a") as file:
            file.write(f"== {label}\n" + "\n".join(text[-40:]) + "\n")

    def ours(self, key, group, label, words):
        precision, *more = shlex.split(words)
        options = shlex.split(self.data["precisions"][precision]) + more
        name = f"{key}_{label}".translate(str.maketrans(", ", "__"))
        wait_for_idle(group["ranks"])
        with Clocks(self.a.out, name, group["ranks"]) as seen:
            first, text = until_step(self.command(group, name, ["--data.validation=0", *options]), group["steps"], self.a.limit, self.work)
        self.log(name, text)
        row = {"who": "ours", "group": key, "label": label, "ranks": group["ranks"], "first_step_s": first}
        seen_steps = steps_of(os.path.join(self.work, "runs", name, "metrics.jsonl"))
        counted = [one for one in seen_steps if one["step"] > group["steps"] // 3]
        if counted and seen_steps[-1]["step"] >= group["steps"] - 1:
            times = [one["step_ms"] for one in counted]
            row.update(step_ms=statistics.median(times), step_ms_min=min(times), step_ms_max=max(times), samples=len(times),
                       exposed_ms=sum(statistics.median(one[part] for one in counted) for part in counted[-1] if part.startswith("exposed_")))
        else:
            row["error"] = " ".join(text[-3:])[-400:]
        row.update(seen.summary())
        shutil.rmtree(os.path.join(self.work, "runs", name), ignore_errors=True)
        self.keep(row)

    def torch(self, key, group, label, words):
        script = os.path.join(self.a.root, "peers", "torch_step.py")
        start = [sys.executable] if group["ranks"] == 1 else [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(group["ranks"])]
        name = f"torch_{key}_{label}".replace(" ", "_")
        tokens = os.path.join(self.a.root, "data", "tokens.bin")
        wait_for_idle(group["ranks"])
        with Clocks(self.a.out, name, group["ranks"]) as seen:
            _, text = run([*start, script, *shlex.split(words), "--device", "cuda", "--tokens", tokens], self.a.limit, self.a.out, name)
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
                for label, words in group[who].items() if self.a.only in ("both", who) else ():
                    if (not labels or label in labels.split("+")) and not self.late(f"{key}, {label}"):
                        program(key, group, label, words)

    def start(self, key):
        group = self.data["starts"][key]
        caches = {name: os.path.join(self.work, f"{key}_{name}") for name in ("LOCKSTEP_CACHE", "CUDA_CACHE_PATH")}
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
                row = {"who": "ours", "group": key, "label": f"start, {state}", "ranks": group["ranks"], "first_step_s": first}
                self.keep(row if first else {**row, "error": " ".join(text[-3:])[-400:]})
                shutil.rmtree(os.path.join(self.work, "runs", name), ignore_errors=True)

    def table(self):
        text = lambda row, name, form: form % row[name] if row.get(name) else ""
        lines = ["| workload | run | ms (least to most) | exposed ms | start s | MiB | MHz | W |", "|" + " --- |" * 8]
        for row in self.rows:
            title = self.data["groups"].get(row["group"], {}).get("title", row["group"])
            steps = f"{row['step_ms']:.1f} ({row['step_ms_min']:.1f} to {row['step_ms_max']:.1f})" if row.get("step_ms") else row.get("error", "")
            lines.append("| " + " | ".join([title, f"{row['who']}, {row['label']}", steps, text(row, "exposed_ms", "%.1f"), text(row, "first_step_s", "%.1f"),
                                            text(row, "memory_mib", "%.0f"), text(row, "sm_mhz", "%.0f"), text(row, "watts", "%.0f")]) + " |")
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
