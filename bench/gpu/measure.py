#!/usr/bin/env python3
"""Interleaved runs of Lockstep and PyTorch on the same GPUs, with the clocks of each run, and a table. Called by
run.sh; see README.md.

Writes to --out: results.jsonl (a line per run), clocks.csv, log.txt (ends of what programs printed), table.txt."""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time

IDLE_MIB = 2000  # a GPU with less is nobody's
QUERY = "timestamp,index,clocks.sm,clocks.mem,power.draw,temperature.gpu,memory.used"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", required=True, help="folder with bin/, configs/, peers/ and data/")
    parser.add_argument("--out", required=True)
    parser.add_argument("--workloads", default="gpt2_124m")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=45)
    parser.add_argument("--warmup", type=int, default=12, help="our steps up to this one are not counted")
    parser.add_argument("--log-every", type=int, default=3)
    parser.add_argument("--budget", type=float, default=500, help="seconds; runs that would start later are left out")
    parser.add_argument("--limit", type=float, default=150, help="seconds for one run")
    parser.add_argument("--only", choices=["both", "ours", "torch"], default="both")
    parser.add_argument("--torch-args", default="--compile --bf16")
    parser.add_argument("overrides", nargs="*", help="config keys for our runs, as in --compile.bucket_bytes=1048576, "
                                                     "after --")
    return parser.parse_args()


class Clocks:
    """nvidia-smi in the background while a run lasts; what it saw goes to clocks.csv."""

    def __init__(self, out, label, gpus):
        self.out, self.label, self.gpus, self.rows, self.child = out, label, gpus, [], None

    def __enter__(self):
        try:
            self.child = subprocess.Popen(["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits",
                                           "-lms", "500"],
                                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            self.child = None
        return self

    def __exit__(self, *_):
        if self.child is None:
            return
        self.child.terminate()
        try:
            text = self.child.communicate(timeout=20)[0]
        except subprocess.TimeoutExpired:
            self.child.kill()
            text = self.child.communicate()[0]
        with open(os.path.join(self.out, "clocks.csv"), "a") as file:
            for line in text.splitlines():
                cells = [cell.strip() for cell in line.split(",")]
                file.write(self.label + "," + ",".join(cells) + "\n")
                try:
                    if int(cells[1]) < self.gpus:  # others of the machine rest
                        self.rows.append([float(cell) for cell in cells[1:]])
                except ValueError:
                    pass  # [N/A]

    def summary(self):
        """Medians over the samples at work (of at least 0.8 of the most power seen), and the most memory of one GPU."""
        if not self.rows:
            return {}
        most = max(row[3] for row in self.rows)
        busy = [row for row in self.rows if row[3] >= 0.8 * most]
        middle = lambda i: statistics.median(row[i] for row in busy)
        return {"sm_mhz": middle(1), "mem_mhz": middle(2), "watts": middle(3), "celsius": middle(4),
                "memory_mib": self.most_memory()}

    def most_memory(self):
        """Of one GPU, once what ran before has given its memory back."""
        most = 0
        for gpu in {row[0] for row in self.rows}:
            used = [row[5] for row in self.rows if row[0] == gpu]
            free = next((i for i, mib in enumerate(used) if mib < IDLE_MIB), 0)
            most = max(most, *used[free:])
        return most


def run(command, limit, out, label, cwd=None):
    """Exit code and output of a command, ended with its children after `limit` seconds. The end of its output goes to
    log.txt."""
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                             start_new_session=True, cwd=cwd)
    try:
        text = child.communicate(timeout=limit)[0]
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGTERM)
        try:
            text = child.communicate(timeout=15)[0]
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            text = child.communicate()[0]
        text += f"\nended after {limit} s"
    with open(os.path.join(out, "log.txt"), "a") as file:
        file.write(f"== {label}: {' '.join(command)}\n{text[-6000:]}\n== exit {child.returncode}, "
                   f"{time.monotonic() - start:.1f} s\n")
    return child.returncode, text


def metrics_of(path):
    try:
        with open(path) as file:
            return [json.loads(line) for line in file]
    except (OSError, ValueError):
        return []


def ours(a, workload, index):
    name = f"bench_{workload}_{a.ranks}_{index}"
    config = workload + ("" if a.ranks == 1 else f"_{a.ranks}gpu")
    folder = os.path.join(a.work, "runs", name)
    shutil.rmtree(folder, ignore_errors=True)
    command = [os.path.join(a.root, "bin", "trainrun"), "run", "--nproc", str(a.ranks),
               os.path.join(a.root, "configs", config + ".json"),
               f"--name={name}", f"--train.steps={a.steps}", "--train.eval_every=0", "--optim.schedule.warmup=10",
               "--data.validation=0",
               f"--data.paths={os.path.join(a.root, 'data', 'tokens.bin')}", f"--log.every={a.log_every}",
               "--log.hash_every=0",
               "--checkpoint.every=0", *a.overrides]
    with Clocks(a.out, name, a.ranks) as seen:
        code, text = run(command, a.limit, a.out, name, cwd=a.work)
    rows = metrics_of(os.path.join(folder, "metrics.jsonl"))
    counted = [row["step_ms"] for row in rows if a.warmup < row["step"] < a.steps]
    row = {"who": "ours", "workload": workload, "ranks": a.ranks, "run": index, "exit": code}
    if counted:
        row.update(step_ms=statistics.median(counted), step_ms_min=min(counted), step_ms_max=max(counted),
                   samples=len(counted),
                   exposed_ms={key[8:-3]: statistics.median(r[key] for r in rows if a.warmup < r["step"] < a.steps)
                               for key in rows[-1] if key.startswith("exposed_")},
                   loss_last=rows[-1]["loss"], loss_first=rows[0]["loss"], state_hash=rows[-1].get("state_hash", ""))
    else:
        row["error"] = text.strip().splitlines()[-1] if text.strip() else "no output"
    row.update(seen.summary())
    shutil.rmtree(folder, ignore_errors=True)
    return row


def peer(a, workload, index):
    label = f"torch_{workload}_{a.ranks}_{index}"
    script = os.path.join(a.root, "peers", "torch_step.py")
    start = [sys.executable] if a.ranks == 1 else [sys.executable, "-m", "torch.distributed.run", "--standalone",
                                                   "--nproc-per-node", str(a.ranks)]
    tokens = os.path.join(a.root, "data", "tokens.bin")
    command = [*start, script, "--model", workload, "--device", "cuda", *a.torch_args.split(),
               *(["--tokens", tokens] if os.path.exists(tokens) else [])]
    with Clocks(a.out, label, a.ranks) as seen:
        code, text = run(command, a.limit, a.out, label)
    row = {"who": "pytorch", "workload": workload, "ranks": a.ranks, "run": index, "exit": code,
           "error": "no figures printed"}
    for line in text.splitlines():
        if line.startswith('{"who"'):
            row.pop("error", None)
            row.update(json.loads(line))
    row.update(seen.summary())
    return row


def table(rows, floors):
    head = ["workload", "ranks", "ours ms", "torch ms", "floor ms", "ours/torch", "ours/floor", "exposed ms", "runs",
            "spread", "ours MiB", "torch MiB", "MHz"]
    lines = [head]
    for workload, ranks in sorted({(row["workload"], row["ranks"]) for row in rows}):
        figures = {}
        for who in ("ours", "pytorch"):
            mine = [row for row in rows if row["who"] == who and (row["workload"], row["ranks"]) == (workload, ranks)
                    and "step_ms" in row]
            times = [row["step_ms"] for row in mine]
            figures[who] = (statistics.median(times) if times else None, len(times), max(times) / min(times) - 1
                            if times else None,
                            max((row.get("memory_mib", 0) for row in mine), default=0),
                            [row["sm_mhz"] for row in mine if "sm_mhz" in row])
        a, b, floor = figures["ours"][0], figures["pytorch"][0], floors.get(workload)
        waits = [sum(row["exposed_ms"].values()) for row in rows if row.get("exposed_ms")
                 and (row["workload"], row["ranks"]) == (workload, ranks)]
        exposed = "%.2f" % statistics.median(waits) if waits else "-"
        text = lambda value, form: form % value if value else "-"
        lines.append([workload, str(ranks), text(a, "%.2f"), text(b, "%.2f"), text(floor, "%.2f"),
                      text(a and b and a / b, "%.3f"),
                      text(a and floor and a / floor, "%.3f"), exposed, f"{figures['ours'][1]}+{figures['pytorch'][1]}",
                      text(figures["ours"][2] and 100 * figures["ours"][2], "%.1f %%"),
                      text(figures["ours"][3], "%.0f"), text(figures["pytorch"][3], "%.0f"),
                      text(statistics.median(figures["ours"][4] + figures["pytorch"][4]) if figures["ours"][4]
                           + figures["pytorch"][4] else None, "%.0f")])
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
                     for line in lines) + "\n"


def main():
    a = arguments()
    began = time.monotonic()
    a.root, a.out = os.path.abspath(a.root), os.path.abspath(a.out)
    os.makedirs(a.out, exist_ok=True)
    memory = "/dev/shm"  # checkpoints at the end of a run go to memory where there is room
    a.work = os.path.join(memory if os.path.isdir(memory) and shutil.disk_usage(memory).free > 40 << 30 else a.out,
                          f"lockstep-bench-{os.getpid()}")
    os.makedirs(a.work, exist_ok=True)
    rows, floors = [], {}
    results = os.path.join(a.out, "results.jsonl")
    if os.path.exists(results):  # earlier calls of the same command, and the floors
        for row in metrics_of(results):
            if row["who"] == "floor":
                floors[row["workload"]] = row["floor_ms"]
            else:
                rows.append(row)
    programs = {"both": [ours, peer], "ours": [ours], "torch": [peer]}[a.only]
    try:
        for workload in a.workloads.split(","):
            for index in range(a.runs):
                for program in programs if index % 2 == 0 else programs[::-1]:
                    if time.monotonic() - began > a.budget:
                        print(f"left out: {program.__name__} {workload} run {index}, the budget of {a.budget:.0f} s is "
                              "used", flush=True)
                        continue
                    row = program(a, workload, index)
                    rows.append(row)
                    with open(results, "a") as file:
                        file.write(json.dumps(row) + "\n")
                    said = (f"{row['step_ms']:.2f} ms" if "step_ms" in row
                            else f"exit {row['exit']}: {row.get('error', '')}")
                    print(f"{time.monotonic() - began:6.1f} s  {row['who']:8} {workload} run {index}: {said}",
                          flush=True)
    finally:
        shutil.rmtree(a.work, ignore_errors=True)
    text = table(rows, floors)
    with open(os.path.join(a.out, "table.txt"), "w") as file:
        file.write(text)
    print(text)


if __name__ == "__main__":
    main()
