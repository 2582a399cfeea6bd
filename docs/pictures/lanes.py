#!/usr/bin/env python3
"""Draws lanes.svg: the tree in which the gradients of 8 micro-batches are summed, on 1, 2 and 3 ranks."""
from pathlib import Path

LANES = 8
WIDTH, TOP, PANEL = 860, 78, 236
RANKS = ["#3d7eda", "#f2a33a", "#84b562"]
OWNER, INK, PALE = "#57606a", "#24292f", "#8c949e"


def shares(ranks):
    """Lanes of each rank: consecutive, their numbers differ by at most one."""
    counts = [LANES // ranks + (r < LANES % ranks) for r in range(ranks)]
    return [r for r, count in enumerate(counts) for _ in range(count)]


def text(x, y, words, size=13, anchor="middle", fill=INK, weight="normal"):
    return (f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}" '
            f'font-weight="{weight}">{words}</text>\n')


def panel(ranks, top):
    of = shares(ranks)
    place = lambda first, size: 150 + (first + (size - 1) / 2) * 82
    out = text(24, top, f"{ranks} rank" + "s" * (ranks > 1), 15, "start", weight="bold")
    circles = ""
    size = 1
    while size <= LANES:
        y = top + 214 - 56 * size.bit_length() + 10
        for first in range(0, LANES, size):
            x, held = place(first, size), set(of[first:first + size])
            whole = len(held) == 1
            if size > 1:
                for half in (first, first + size // 2):
                    from_x, same = place(half, size // 2), set(of[half:half + size // 2])
                    travels = not whole and len(same) == 1
                    out += (f'<line x1="{from_x:.0f}" y1="{y + 56:.0f}" x2="{x:.0f}" y2="{y:.0f}" stroke="'
                            f'{RANKS[same.pop()] if len(same) == 1 else OWNER}" stroke-width="2"'
                            + (' stroke-dasharray="6 4"' if travels else "") + "/>\n")
            fill = RANKS[of[first]] if whole else OWNER
            circles += f'<circle cx="{x:.0f}" cy="{y:.0f}" r="15" fill="{fill}"/>\n'
            circles += text(x, y + 4, str(first) if size == 1 else "+", 13, fill="#ffffff", weight="bold")
        size *= 2
    return out + circles


def main():
    height = TOP + 3 * PANEL - 10
    out = (f'<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} '
           f'{height}" width="{WIDTH}" height="{height}" font-family="Helvetica, Arial, sans-serif">\n'
           f'<title>One tree on 1, 2 and 3 ranks</title>\n'
           f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff" stroke="#d0d7de"/>\n')
    out += text(24, 32, "The gradients of 8 micro-batches are added in one tree, whoever computes them", 17, "start",
                weight="bold")
    x = 24
    for fill, words in [*zip(RANKS, ("rank 0", "rank 1", "rank 2")), (OWNER, "the owner of the row")]:
        out += f'<circle cx="{x + 7}" cy="52" r="7" fill="{fill}"/>\n' + text(x + 20, 56, words, 13, "start")
        x += 90
    out += (f'<line x1="{x + 76}" y1="52" x2="{x + 106}" y2="52" stroke="{INK}" stroke-width="2" stroke-dasharray='
            f'"6 4"/>\n' + text(x + 114, 56, "travels in the exchange", 13, "start"))
    for row, ranks in enumerate((1, 2, 3)):
        if row:
            y = TOP + row * PANEL - 12
            out += f'<line x1="24" y1="{y}" x2="{WIDTH - 24}" y2="{y}" stroke="#e5e8eb"/>\n'
        out += panel(ranks, TOP + row * PANEL + 14)
    Path(__file__).with_name("lanes.svg").write_text(out + "</svg>\n")


main()
