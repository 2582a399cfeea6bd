#!/usr/bin/env python3
"""Draws loss curves as SVG:

    python3 curve.py --out docs/pictures/bf16_vs_fp32.svg fp32=runs/a/metrics.jsonl bf16=runs/b/metrics.jsonl

Above: the loss of each run over the steps; dots are validation losses. Below: the difference of the second and the
first run, on the steps that both logged. Prints the last losses and the differences. Standard library alone; the same
files give the same bytes."""
import argparse
import json
import math
import sys

WIDTH, LEFT, RIGHT = 880, 74, 24
UPPER, LOWER = (54, 330), (384, 510)  # y of the two frames
COLORS = ["#1f5fa8", "#c8501e", "#2f8f4e", "#7d4aa8"]


def read(argument, begin):
    """Name, losses by step, validation losses by step, from step `begin` on."""
    name, _, path = argument.partition("=")
    if not path:
        sys.exit(f"curve: {argument}: write NAME=METRICS.jsonl")
    losses, validation = {}, {}
    with open(path) as file:
        for line in file:
            row = json.loads(line)
            for key, into in (("loss", losses), ("val_loss", validation)):
                if row["step"] >= begin and isinstance(row.get(key), (int, float)):
                    into[row["step"]] = row[key]
    if len(losses) < 2:
        sys.exit(f"curve: {path} holds {len(losses)} steps with a loss; two are needed")
    return name, losses, validation


def ticks(low, high, count=6):
    """Round numbers from low to high."""
    raw = (high - low) / count
    unit = 10 ** math.floor(math.log10(raw))
    step = unit * next(m for m in (1, 2, 5, 10) if m * unit >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def frame(out, box, xs, ys, y_name, x_name):
    """Axes with ticks; returns the mapping of a point."""
    top, bottom = box
    right = WIDTH - RIGHT
    x_of = lambda x: LEFT + (x - xs[0]) / (xs[1] - xs[0]) * (right - LEFT)
    y_of = lambda y: bottom - (y - ys[0]) / (ys[1] - ys[0]) * (bottom - top)
    out.append(f'<rect x="{LEFT}" y="{top}" width="{right - LEFT}" height="{bottom - top}" fill="none" stroke="#888"/>')
    for y in ticks(*ys, count=5):
        out.append(f'<line x1="{LEFT}" x2="{right}" y1="{y_of(y):.1f}" y2="{y_of(y):.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y_of(y) + 4:.1f}" text-anchor="end">{y:.6g}</text>')
    for x in ticks(*xs, count=8):
        out.append(f'<line x1="{x_of(x):.1f}" x2="{x_of(x):.1f}" y1="{bottom}" y2="{bottom + 5}" stroke="#888"/>')
        out.append(f'<text x="{x_of(x):.1f}" y="{bottom + 19}" text-anchor="middle">{x:.6g}</text>')
    out.append(f'<text x="20" y="{(top + bottom) / 2:.0f}" text-anchor="middle" transform="rotate(-90 20 '
               f'{(top + bottom) / 2:.0f})">{y_name}</text>')
    if x_name:
        out.append(f'<text x="{(LEFT + right) / 2:.0f}" y="{bottom + 38}" text-anchor="middle">{x_name}</text>')
    return lambda x, y: f"{x_of(x):.1f},{y_of(y):.1f}"


def line(out, at, points, color):
    out.append(f'<polyline fill="none" stroke="{color}" stroke-width="1.4" '
               f'points="{" ".join(at(x, y) for x, y in points)}"/>')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--title", default="Loss of GPT-2 124M, the same tokens and the same seed")
    parser.add_argument("--begin", type=int, default=0, help="the first step that is drawn")
    parser.add_argument("curves", nargs="+")
    options = parser.parse_args()
    curves = [read(argument, options.begin) for argument in options.curves]
    steps = [step for _, rows, _ in curves for step in rows]
    losses = [loss for _, rows, _ in curves for loss in rows.values()]
    xs, span = (0, max(steps)), max(losses) - min(losses) or 1.0
    ys = (min(losses) - 0.04 * span, max(losses) + 0.04 * span)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 564" font-family="sans-serif" '
           'font-size="13">',
           f'<rect width="{WIDTH}" height="564" fill="white"/>',
           f'<text x="{LEFT}" y="24" font-size="16">{options.title}</text>']
    at = frame(out, UPPER, xs, ys, "loss", "")
    for i, (name, rows, validation) in enumerate(curves):
        color, last = COLORS[i % len(COLORS)], max(rows)
        line(out, at, sorted(rows.items()), color)
        for step, loss in sorted(validation.items()):
            x, y = at(step, loss).split(",")
            out.append(f'<circle cx="{x}" cy="{y}" r="{3.4 - i}" fill="{color}" stroke="white" stroke-width="0.6"/>')
        text = f"{name}: {rows[last]:.4f} at step {last}"
        if validation:
            text += f", validation {validation[max(validation)]:.4f}"
        x = LEFT + 12 + i * (360 if validation else 230)
        out.append(f'<line x1="{x}" x2="{x + 26}" y1="41" y2="41" stroke="{color}" stroke-width="2.5"/>')
        out.append(f'<text x="{x + 32}" y="45">{text}</text>')
        print(f"{text}, {len(rows)} points")
    if len(curves) > 1:
        (first, a, _), (second, b, _) = curves[:2]
        shared = sorted(set(a) & set(b))
        if len(shared) < 2:
            sys.exit(f"curve: {first} and {second} share {len(shared)} logged steps; use the same log.every")
        gaps = [(step, b[step] - a[step]) for step in shared]
        most = max(abs(gap) for _, gap in gaps) or 1e-6
        at = frame(out, LOWER, xs, (-1.1 * most, 1.1 * most), f"{second} - {first}", "step")
        line(out, at, [(0, 0.0), (max(steps), 0.0)], "#888")
        line(out, at, gaps, COLORS[1])
        tail = [gap for step, gap in gaps if step > 0.8 * shared[-1]]
        text = (f"last difference {gaps[-1][1]:+.5f}, mean over the last fifth {sum(tail) / len(tail):+.5f}, largest "
                f"{most:.5f}")
        out.append(f'<text x="{LEFT + 8}" y="{LOWER[0] - 8}">{text}</text>')
        print(f"{second} - {first}: {text}")
    out.append("</svg>")
    with open(options.out, "w") as file:
        file.write("\n".join(out) + "\n")


main()
