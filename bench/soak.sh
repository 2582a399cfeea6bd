#!/usr/bin/env bash
# A soak: STEPS steps of a tiny model on 2 ranks, a checkpoint every 20, and every 500 steps a rank is killed, so that
# the run restarts. Twice a
# second it looks at memory, open files and threads of trainrun and of rank 0, and at what lies in /dev/shm; it prints
# each at the beginning and
# at the end, and draws them.
#   bench/soak.sh TRAINRUN [STEPS=20000] [PICTURE=soak.svg]
# Files of the run go to a temporary folder. Exit code 1 where the run did not end well or something grew.
set -eu
trainrun=$(realpath "${1:?usage: bench/soak.sh TRAINRUN [STEPS] [PICTURE]}")
picture=$(realpath -m "${3:-soak.svg}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 - "$trainrun" "${2:-20000}" "$picture" <<'DRIVER'
import glob, json, os, signal, subprocess, sys, time

trainrun, steps, picture = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with open("text.txt", "w") as file:
    for i in range(4000):
        file.write(f"the quick brown fox jumps over the lazy dog and runs far away from {i} other animals\n")
json.dump({
    "name": "soak", "model": {"kind": "gpt", "width": 32, "depth": 1, "context": 32, "heads": 2},
    "data": {"kind": "text", "paths": ["text.txt"]}, "batch": {"global": 4, "micro": 2},
    "train": {"steps": steps, "device": "cpu"}, "checkpoint": {"every": 20, "keep": 3}, "log": {"every": 100},
}, open("c.json", "w"))


def of_process(pid):
    try:
        status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
        return int(status["VmRSS"].split()[0]) / 1024, len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"])
    except (OSError, KeyError, ValueError):
        return None


def last_step():
    try:
        with open("runs/soak/metrics.jsonl", "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            return json.loads(file.read().split(b"\n")[-2])["step"]
    except (OSError, IndexError, ValueError):
        return 0


def rank0():
    for path in sorted(glob.glob("runs/soak/logs/attempt-*/worker-0.json"), key=os.path.getmtime)[-1:]:
        try:
            return json.load(open(path))["pid"], json.load(open(path.replace("worker-0", "worker-1")))["pid"]
        except (OSError, ValueError, KeyError):
            pass
    return None


begin = time.monotonic()
process = subprocess.Popen([trainrun, "--nproc", "2", "--max-restarts", "100000", "--keep-attempts", "10", "c.json"],
                           stdout=open("out", "w"), stderr=subprocess.STDOUT)
rows, killed_at, kills, shown = [], 0, 0, 0.0
while process.poll() is None:
    time.sleep(0.05)
    step, pids = last_step(), rank0()
    own, rank = of_process(process.pid), of_process(pids[0]) if pids else None
    if own and rank and step > killed_at and time.monotonic() - shown > 0.5:
        shown, shared = time.monotonic(), glob.glob("/dev/shm/**", recursive=True)
        entries = len(shared), len(os.listdir("runs/soak/logs")), len(glob.glob("runs/soak/ckpt/*"))
        rows.append((step, *own, *rank, *entries))
    if step >= 500 * (kills + 1) and step > killed_at and pids and step < steps - 100:
        killed_at, kills = step, kills + 1
        try:
            os.kill(pids[kills % 2], signal.SIGKILL)
        except OSError:
            pass
    if time.monotonic() - begin > 1500:
        process.kill()
names = ["trainrun: memory, MiB", "trainrun: open files", "trainrun: threads",
         "rank 0: memory, MiB", "rank 0: open files", "rank 0: threads",
         "entries of /dev/shm", "entries of logs", "entries of ckpt"]
seconds = time.monotonic() - begin
print(f"{steps} steps in {seconds:.0f} s, exit code {process.returncode}, {kills} kills, {len(rows)} looks")
if process.returncode != 0 or len(rows) < 20:
    print(open("out").read()[-3000:])
    sys.exit(1)
middle = lambda values: sorted(values)[len(values) // 2]
quarter, grew = len(rows) // 4, False
for i, name in enumerate(names):
    values = [row[i + 1] for row in rows]
    first, last = middle(values[quarter // 2:quarter + quarter // 2]), middle(values[-quarter:])
    grows = last > first * 1.05 + 2
    grew |= grows
    print(f"  {name:24s} {first:8.1f} after an eighth, {last:8.1f} at the end, at most {max(values):8.1f}"
          f"{'   GROWS' if grows else ''}")
width, height, out = 300, 90, []
for i, name in enumerate(names):
    x0, y0 = 20 + (i % 3) * (width + 30), 40 + (i // 3) * (height + 50)
    values, most = [row[i + 1] for row in rows], max(1e-9, max(row[i + 1] for row in rows)) * 1.15
    points = " ".join(f"{x0 + width * row[0] / steps:.1f},{y0 + height - height * value / most:.1f}"
                      for row, value in zip(rows, values))
    out.append(f'<rect x="{x0}" y="{y0}" width="{width}" height="{height}" fill="none" stroke="#ccc"/>'
               f'<text x="{x0}" y="{y0 - 6}">{name}: {values[0]:.0f} to {values[-1]:.0f}</text>'
               f'<polyline points="{points}" fill="none" stroke="#2563eb" stroke-width="1.2"/>')
open(picture, "w").write(
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1010 480" font-family="sans-serif" font-size="12" '
    f'fill="#222"><rect width="1010" height="480" fill="white"/><text x="20" y="16">{steps} steps, a checkpoint '
    f'every 20, a rank killed every 500 ({kills} times): over the steps, each from 0</text>' + "".join(out) + "</svg>\n")
print(f"drawn: {picture}")
sys.exit(1 if grew else 0)
DRIVER
