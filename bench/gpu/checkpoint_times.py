#!/usr/bin/env python3
"""Seconds that a run stands still to save and to resume, seen from outside: the run is the ordinary one.

  checkpoint_times.py [--events FILE] RUN_FOLDER COMMAND ...

Starts COMMAND, a trainrun that saves or resumes the run in RUN_FOLDER. Stamps each line that it prints and, every 10
ms, the folders of its checkpoints and the bytes that its processes have read and written (/proc/PID/io). Prints one
line of JSON per save and per load.

A save lasts from the line of its step to its folder's last name: all that the run stands still for, from the search for
values that are not finite over hash, writing and fsync to the rename. A load lasts from the first 8 MiB that are read
in one 10th of a second to the line that says from what the run resumed: reading, checksums, and the hash of the
state."""
import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time

from processes import family


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", help="file for all that was seen, a line each")
    parser.add_argument("folder")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args()


def moved(processes):
    """Bytes that each process has passed to read and write so far."""
    out = {}
    for process in processes:
        try:
            with open(f"/proc/{process}/io") as file:
                fields = dict(line.split(": ") for line in file.read().splitlines())
            out[process] = (int(fields["rchar"]), int(fields["wchar"]))
        except (OSError, ValueError, KeyError):
            pass
    return out


def names(folder):
    try:
        return set(os.listdir(os.path.join(folder, "ckpt")))
    except OSError:
        return set()


def bytes_in(path):
    try:
        return sum(entry.stat().st_size for entry in os.scandir(path))
    except OSError:
        return 0


def report(what, seconds, path, **more):
    size = bytes_in(path)
    row = {"who": "lockstep", "what": what, "bytes": size, "seconds": round(seconds, 3),
           "gb_per_s": round(size / seconds / 1e9, 3) if seconds else 0}
    print(json.dumps({**row, **more}), flush=True)


def main():
    a = arguments()
    begin = time.monotonic()
    events, lines = [], []
    since = lambda: time.monotonic() - begin
    child = subprocess.Popen(a.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                             bufsize=1)

    def listen():
        for line in child.stdout:
            lines.append((since(), line.rstrip()))

    ear = threading.Thread(target=listen, daemon=True)
    ear.start()
    there, family_at, processes = names(a.folder), -1.0, []
    steps, second = {}, (0.0, {})
    reading = []  # moments from which much was read
    while child.poll() is None:
        now = since()
        if now - family_at > 0.5:
            processes, family_at = family(child.pid), now
        if now - second[0] >= 0.1:
            seen = moved(processes)
            read, written = (sum(seen[p][i] - second[1][p][i] for p in seen if p in second[1]) for i in (0, 1))
            if read > 1 << 20 or written > 1 << 20:
                events.append((now, f"read {read >> 20} MiB, wrote {written >> 20} MiB in {now - second[0]:.2f} s"))
            if read > 8 << 20:
                reading.append(second[0])
            second = (now, seen)
        before, there = there, names(a.folder)
        for name in there ^ before:
            events.append((now, f"folder {name} {'there' if name in there else 'gone'}"))
            steps.setdefault(name, now)
        time.sleep(0.01)
    ear.join(5)
    if a.events:
        with open(a.events, "a") as file:
            file.write(f"== {' '.join(a.command)}\n")
            file.writelines(f"{at:9.3f} {text}\n" for at, text in sorted(events + lines))
    for name, at in steps.items():
        number = re.fullmatch(r"step-(\d+)", name)
        stamps = [t for t, text in lines if number and re.match(rf"step {number[1]}/", text)]
        if stamps:
            path = os.path.join(a.folder, "ckpt", name)
            report("save", at - stamps[0], path, write_s=round(at - steps.get(name + ".tmp", at), 3))
    for at, text in lines:
        found = re.match(r"resumed from (\S+)", text)
        burst = [t for t in reading if t < at]
        while len(burst) > 1 and burst[-1] - burst[-2] < 2:  # back to the first of the reads that end here
            burst.pop()
        if found and burst:
            report("load", at - burst[-1], os.path.join(a.folder, "ckpt", os.path.basename(found[1])))
    if child.returncode:
        print("\n".join(text for _, text in lines[-5:]))
    sys.exit(child.returncode)


main()
