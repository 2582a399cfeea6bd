#!/usr/bin/env bash
# Goodput and recovery under kills: steps a second of a run of 4 ranks of which a random one is killed (SIGKILL) about
# every EVERY seconds,
# beside an undisturbed run; seconds from each kill to the next new step; state hashes of both.
#   bench/goodput.sh TRAINRUN [KILLED=120] [EVERY=30] [MEMORY_EVERY=10] [QUIET=40]
# KILLED and QUIET are the seconds of the two runs, which take eight turns each; a turn is counted from its first step.
# MEMORY_EVERY=0: from the disk instead, with a checkpoint every 50 steps. The quiet run keeps none in memory. The
# kills come at EVERY * (0.7 to 1.3), from a fixed seed. Files go to a temporary folder.
set -eu
trainrun=$(realpath "${1:?usage: bench/goodput.sh TRAINRUN [KILLED] [EVERY] [MEMORY_EVERY] [QUIET]}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 - "$trainrun" "${2:-120}" "${3:-30}" "${4:-10}" "${5:-40}" <<'DRIVER'
import glob, json, os, random, signal, subprocess, sys, time

trainrun, killed_s, every, memory_every, quiet_s = sys.argv[1], *map(int, sys.argv[2:])
save_every = memory_every or 50
where = [f"--checkpoint.memory_every={memory_every}" if memory_every else f"--checkpoint.every={save_every}"]
with open("text.txt", "w") as file:
    for i in range(4000):
        file.write(f"the quick brown fox jumps over the lazy dog and runs far away from {i} other animals\n")
config = {
    "name": "run", "model": {"kind": "gpt", "width": 64, "depth": 2, "context": 32, "heads": 2},
    "data": {"kind": "text", "paths": ["text.txt"]}, "batch": {"global": 8, "micro": 2},
    "train": {"steps": 10**6, "device": "cpu"}, "checkpoint": {"every": 5000}, "log": {"every": 1, "hash_every": 100},
}
json.dump(config, open("c.json", "w"))
draw = random.Random(7)


def rows(name):
    out = {}
    with open(f"runs/{name}/metrics.jsonl") as file:
        for line in file:
            if line.endswith("\n"):
                row = json.loads(line)
                out[row["step"]] = row
    return out


def size(name):
    try:
        return os.stat(f"runs/{name}/metrics.jsonl").st_size
    except OSError:
        return 0


def last_line(name):  # the newest whole row, from the end of the file
    with open(f"runs/{name}/metrics.jsonl", "rb") as file:
        file.seek(max(0, size(name) - 4096))
        lines = file.read().split(b"\n")[:-1]
    return json.loads(lines[-1])["step"] if lines else 0


def cost_of_a_save(name):
    """Seconds by which the steps right behind a save are longer than the others."""
    behind, others, reach = [], [], min(25, save_every // 2)
    for step, row in rows(name).items():
        if "step_ms" in row and step % 5000 > 100:
            (behind if step % save_every < reach else others).append(row["step_ms"])

    return max(0, reach * (sum(behind) / len(behind) - sum(others) / len(others)) / 1000)


def attempts(name):
    return len(glob.glob(f"runs/{name}/logs/attempt-*"))


def recovered(name, attempt, killed_at, limit=60):  # seconds to the first row of the next attempt
    log = f"runs/{name}/logs/attempt-{attempt + 1}/rank-0.log"
    while time.monotonic() - killed_at < limit:
        try:
            with open(log) as file:
                if "\nstep " in file.read():
                    return time.monotonic() - killed_at
        except OSError:
            pass
        time.sleep(0.002)
    return None


def window(name, seconds, keys=(), kills=None):  # kills: when the next is due, in this run's seconds so far
    before = last_line(name) if size(name) else 0
    out = open(name + ".log", "a")
    run = subprocess.Popen(
        [trainrun, "--nproc", "4", "--max-restarts", "1000", "c.json", f"--name={name}", *keys], stdout=out, stderr=out
    )
    while not size(name) or last_line(name) == before:
        time.sleep(0.01)
    begin, first = time.monotonic(), last_line(name)
    while time.monotonic() < begin + seconds:
        if kills and time.monotonic() - begin >= kills["due"]:
            attempt = attempts(name)
            pid = json.load(open(f"runs/{name}/logs/attempt-{attempt}/worker-{draw.randrange(4)}.json"))["pid"]
            os.kill(pid, signal.SIGKILL)
            at = time.monotonic()
            time.sleep(0.02)
            step = last_line(name)
            kills["recoveries"].append(recovered(name, attempt, at))
            text = open(f"runs/{name}/logs/attempt-{attempt + 1}/rank-0.log").read()
            kills["lost"].append(step - int(text.split("(step ", 1)[1].split(",")[0]) if "resumed from" in text else step)
            kills["due"] += every * draw.uniform(0.7, 1.3)
        time.sleep(0.01)
    took, done = time.monotonic() - begin, last_line(name)
    if kills:
        kills["due"] -= took
    run.send_signal(signal.SIGTERM)
    code = run.wait()
    assert code == 80, open(name + ".log").read()
    return done - first, took


def speed(windows):
    return sum(steps for steps, _ in windows) / sum(took for _, took in windows)


subprocess.run(
    [trainrun, "--nproc", "4", "c.json", "--name=warm", "--train.steps=2"], check=True, capture_output=True
)  # kernels are compiled once
# A machine's speed drifts within minutes, so both runs are cut and take turns.
turns, quiet_windows, killed_windows = 8, [], []
kills = {"due": every * draw.uniform(0.3, 1.0), "recoveries": [], "lost": []}
for _ in range(turns):
    quiet_windows.append(window("quiet", quiet_s / turns))
    killed_windows.append(window("killed", killed_s / turns, where, kills))
quiet, rate, recoveries, lost = speed(quiet_windows), speed(killed_windows), kills["recoveries"], kills["lost"]
hashes = [{s: r["state_hash"] for s, r in rows(name).items() if "state_hash" in r} for name in ("quiet", "killed")]
common = sorted(set(hashes[0]) & set(hashes[1]))
equal = sum(hashes[0][s] == hashes[1][s] for s in common)
memory = open("killed.log").read().count("resumed from memory")
each = [round(steps / took) for steps, took in quiet_windows], [round(steps / took) for steps, took in killed_windows]
print(f"quiet: {quiet:.1f} steps/s in {quiet_s} s; in turns {each[0]}, killed {each[1]}")
print(f"killed about every {every} s, {killed_s} s, {where[0][2:]}: {rate:.1f} steps/s, {100 * rate / quiet:.1f} %; "
      f"{len(recoveries)} kills, {memory} resumed from memory")
moving = rate * killed_s / (killed_s - sum(recoveries))  # steps a second, of this run while nothing stands still
gone = 100 * (sum(recoveries) + sum(lost) / moving) / killed_s
saving = 100 * cost_of_a_save("killed") * rate / save_every
print(f"of its time {gone:.1f} % went with kills (standing still, and steps done again), {saving:.1f} % with saves: "
      f"{100 - gone - saving:.1f} % were left")
print("seconds from a kill to the next step: " + " ".join(f"{r:.2f}" for r in recoveries))
print("steps lost: " + " ".join(map(str, lost)))
print(f"state hashes: {equal} of {len(common)} equal; step {common[-1]}: {hashes[0][common[-1]]} quiet, {hashes[1][common[-1]]} killed")
sys.exit(equal != len(common) or not common)
DRIVER
