#!/usr/bin/env python3
"""Resident host memory of a run's processes over time, as a picture, with its saves.

  bench/gpu/host_memory.py PICTURE.svg TITLE trainrun --nproc 1 CONFIG [keys]

Runs the command with LOCKSTEP_LOGS=checkpoint and looks at every process named trainrun that it started, five times a
second (VmRSS). Prints its lines with their seconds. A save is drawn from its begin to its end, as its line says.
"""
import os, re, subprocess, sys, threading, time


def resident(group):
    """MiB of each process of the session `group`."""
    out = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getsid(int(pid)) == group and open(f"/proc/{pid}/comm").read().strip() == "trainrun":
                status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status") if ":" in line)
                out[int(pid)] = int(status["VmRSS"].split()[0]) / 1024
        except (OSError, KeyError, ValueError):
            pass
    return out


def saves_of(lines):
    """(begin, end) of each save, by lines (seconds, text)."""
    out = []
    for seconds, text in lines:
        found = re.search(r"\] saved .* in all, state \w+, in ([0-9.e+]+) s", text)
        if found:
            out.append((seconds - float(found[1]), seconds))
    return out


def draw(samples, saves, title):
    """`samples`: {process: [(second, MiB)]}."""
    left, top, width, height = 62, 40, 760, 260
    end = max(second for rows in samples.values() for second, _ in rows)
    most = max(amount for rows in samples.values() for _, amount in rows)
    step = next(s for s in (100, 200, 500, 1000, 2000, 5000, 10000, 50000) if most < 5 * s)
    x, y = lambda s: left + width * s / end, lambda m: top + height * (1 - m / (5 * step))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 850 350" font-family="sans-serif" font-size="13">',
           '<rect width="850" height="350" fill="white"/>', f'<text x="{left}" y="22" font-size="15">{title}</text>']
    for begin, done in saves:
        out.append(f'<rect x="{x(begin):.1f}" y="{top}" width="{x(done) - x(begin):.1f}" height="{height}" '
                   f'fill="#f1e3c8" stroke="#fff"/><text x="{(x(begin) + x(done)) / 2:.1f}" y="{top + 16}" '
                   'text-anchor="middle" fill="#7a5b1c">save</text>')
    for k in range(6):
        out.append(f'<line x1="{left}" x2="{left + width}" y1="{y(k * step):.1f}" y2="{y(k * step):.1f}" '
                   f'stroke="#ddd"/><text x="{left - 6}" y="{y(k * step) + 4:.1f}" text-anchor="end">{k * step}</text>')
    for second in range(0, int(end) + 1, 10):
        out.append(f'<text x="{x(second):.1f}" y="{top + height + 18}" text-anchor="middle">{second}</text>')
    for rows, color in zip(samples.values(), ("#888", "#1f6fb4", "#b4531f", "#2f8f4e", "#7a3fa0")):
        points = " ".join(f"{x(s):.1f},{y(m):.1f}" for s, m in rows)
        out.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
    out.append(f'<text x="{left + width / 2}" y="{top + height + 38}" text-anchor="middle">seconds; MiB of resident '
               'memory</text></svg>')
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    picture, title, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    begin, samples, lines = time.monotonic(), {}, []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               start_new_session=True,
                               env={**os.environ, "LOCKSTEP_LOGS": "checkpoint"})

    def look():
        while process.poll() is None:
            for pid, amount in resident(process.pid).items():
                samples.setdefault(pid, []).append((time.monotonic() - begin, amount))
            time.sleep(0.2)

    looker = threading.Thread(target=look)
    looker.start()
    for line in process.stdout:
        lines.append((time.monotonic() - begin, line.rstrip()))
        print(f"{lines[-1][0]:7.2f} {lines[-1][1]}", flush=True)
    looker.join()
    with open(picture, "w") as file:
        file.write(draw(samples, saves_of(lines), title))
    raise SystemExit(process.wait())


if __name__ == "__main__":
    main()
