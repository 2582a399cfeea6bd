"""Compares runs by their metrics: compare.py equal|close|golden RUN [RUN ...]. equal: every value as a string, hashes
where both have one. close: the worst relative difference of a loss from the first run's. golden: against PyTorch's
numbers in tests/golden/gpt."""
import json
import pathlib
import re
import sys


def is_timing(key):
    return "_ms" in key or key in ("tokens_per_s", "samples_per_s", "slowest_rank")


def rows(run):
    out = {}
    for line in (pathlib.Path("runs") / run / "metrics.jsonl").read_text().splitlines():
        values = dict(re.findall(r'"(\w+)": ("[^"]*"|[^,}]+)', line))
        out[int(values.pop("step"))] = {k: v for k, v in values.items() if not is_timing(k)}
    return out


def main():
    mode, runs = sys.argv[1], sys.argv[2:]
    data = [rows(run) for run in runs]
    first, last = data[0], max(data[0])
    if mode == "equal":
        wrong = [f"{run} step {step} {key}: {first[step][key]} and {other[step].get(key)}"
                 for run, other in zip(runs[1:], data[1:]) for step in first
                 for key in first[step] if step not in other
                 or (key in other[step] and other[step][key] != first[step][key])]
        hashes = {r[last].get("state_hash") for r in data}
        good = not wrong and len(hashes) == 1
        print("PASS" if good else "FAIL", "equal:", *runs,
              f"({len(first)} steps, last loss {first[last]['loss']}, state {' / '.join(map(str, hashes))})",
              *wrong[:3])
    elif mode == "close":
        worst = max(abs(float(o[s]["loss"]) / float(first[s]["loss"]) - 1) for o in data[1:] for s in first if s in o)
        good = worst < 5e-5
        print("PASS" if good else "FAIL", "close:", *runs, f"(worst relative difference of a loss {worst:.2g})")
    else:
        golden = json.loads(pathlib.Path("tests/golden/gpt/golden.json").read_text())["steps"]
        worst = [max(abs(float(r[g["step"]][key]) / g[key] - 1) for r in data for g in golden)
                 for key in ("loss", "grad_norm")]
        good = worst[0] < 5e-5
        print("PASS" if good else "FAIL", "golden:", *runs,
              f"(worst relative difference: loss {worst[0]:.2g}, gradient norm {worst[1]:.2g})")
    return 0 if good else 1


sys.exit(main())
