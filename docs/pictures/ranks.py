#!/usr/bin/env python3
"""Draws ranks.svg from the metrics of three runs: python3 ranks.py runs/ONE runs/TWO runs/THREE, on 1, 2 and 3
ranks."""
import json
import sys
from pathlib import Path

WIDTH, LANES = 860, 8
RANKS = ["#3d7eda", "#f2a33a", "#84b562"]
INK, PALE = "#24292f", "#57606a"


def text(x, y, words, size=13, anchor="start", fill=INK, more=""):
    return (f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{fill}"{more}>{words}</text>\n')


def stripes(x, y, digits):
    """A hash as a bar of its 16 bytes, a hue each."""
    out = ""
    for i in range(0, len(digits), 2):
        out += (f'<rect x="{x + 2.6 * i:.1f}" y="{y}" width="5.2" height="26" '
                f'fill="hsl({int(digits[i:i + 2], 16) * 360 // 256}, 55%, 52%)"/>\n')
    return out


def curve(rows, left, top, width, height, low, high):
    last = rows[-1]["step"]
    return " ".join(f'{left + width * r["step"] / last:.1f},{top + height * (high - r["loss"]) / (high - low):.1f}'
                    for r in rows)


def main():
    runs = [[json.loads(line) for line in Path(run, "metrics.jsonl").read_text().splitlines()] for run in sys.argv[1:4]]
    rows = [[r for r in run if "loss" in r] for run in runs]
    hashes = [{r["step"]: r["state_hash"] for r in run if "state_hash" in r} for run in runs]
    steps = [s for s in sorted(hashes[0]) if s % 100 == 0]
    height = 448
    out = (f'<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} '
           f'{height}" '
           f'width="{WIDTH}" height="{height}" font-family="Helvetica, Arial, sans-serif">\n<title>One hash on 1, 2 '
           f'and 3 ranks</title>\n'
           f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff" stroke="#d0d7de"/>\n')
    out += text(24, 34, "configs/quickstart.json on 1, 2 and 3 ranks: the same weights, to the last bit", 17,
                more=' font-weight="bold"')
    out += text(24, 64, "micro-batches of a step", 12, fill=PALE)
    for i, step in enumerate(steps):
        out += text(258 + 98 * i, 64, f"state at step {step}" if i == 0 else f"step {step}", 12, fill=PALE)
    for n, found in enumerate(hashes):
        y, ranks = 76 + 54 * n, n + 1
        counts = [LANES // ranks + (r < LANES % ranks) for r in range(ranks)]
        of = [r for r, count in enumerate(counts) for _ in range(count)]
        out += text(24, y + 18, f"{ranks} rank{'s' if n else ''}", 14, more=' font-weight="bold"')
        for lane, rank in enumerate(of):
            out += f'<rect x="{88 + 18 * lane}" y="{y + 5}" width="15" height="15" rx="3" fill="{RANKS[rank]}"/>\n'
        for i, step in enumerate(steps):
            out += stripes(258 + 98 * i, y, found[step])
        out += text(24, y + 42, f"state {found[steps[-1]]} after step {steps[-1]}", 11, fill=PALE,
                    more=' font-family="monospace"')
    losses = [r["loss"] for run in rows for r in run]
    low, high = int(min(losses)), max(losses)
    left, top, wide, tall = 64, 266, WIDTH - 100, 140
    out += text(24, 254, "loss, three curves drawn over each other", 12, fill=PALE)
    for value in range(low, int(high) + 1):
        y = top + tall * (high - value) / (high - low)
        out += f'<line x1="{left}" y1="{y:.1f}" x2="{left + wide}" y2="{y:.1f}" stroke="#e5e8eb"/>\n' + text(left - 10,
                                                                                                             y + 4,
                                                                                                             value, 12,
                                                                                                             "end",
                                                                                                             PALE)
    for step in (0, *steps):
        out += text(left + wide * step / steps[-1], top + tall + 20, step, 12, "middle", PALE)
    for n, thick in zip(range(3), (11, 6, 2)):
        out += (f'<polyline points="{curve(rows[n], left, top, wide, tall, low, high)}" fill="none" '
                f'stroke="{RANKS[n]}" '
                f'stroke-width="{thick}" stroke-linejoin="round"/>\n')
        out += (f'<line x1="{560 + 96 * n}" y1="286" x2="{584 + 96 * n}" y2="286" stroke="{RANKS[n]}" '
                f'stroke-width="{thick}"/>\n')
        out += text(592 + 96 * n, 290, f"{n + 1} rank{'s' if n else ''}", 13)
    Path(__file__).with_name("ranks.svg").write_text(out + "</svg>\n")


main()
