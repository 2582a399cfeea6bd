"""TensorBoard's own reader against metrics.jsonl: every number of every step, whatever was stopped and resumed.

    python3 -m venv /tmp/tb && /tmp/tb/bin/pip install tensorboard
    trainrun --nproc 2 configs/quickstart.json --log.tensorboard=true
    /tmp/tb/bin/python tests/golden/events/compare.py runs/quickstart
"""
import json
import pathlib
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def single(value):
    """The number as a float of 32 bits, which is what an event holds."""
    return struct.unpack("f", struct.pack("f", float(value)))[0]


def main(folder):
    rows = [json.loads(line) for line in (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()]
    events = EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    read = {}
    for tag in events.Tags()["scalars"]:
        name = tag.split("/", 1)[1]
        name = tag.replace("/", ".", 1) if tag.startswith(("grad_norm/", "weight_norm/")) else name
        for event in events.Scalars(tag):
            assert (event.step, name) not in read, f"step {event.step} has {name} twice"
            read[event.step, name] = event.value
    wanted = {
        (row["step"], name): single(value)
        for row in rows
        for name, value in row.items()
        if name not in ("step", "state_hash", "certificate")
    }
    same = lambda a, b: a == b or (a != a and b != b)
    wrong = [key for key in wanted if key not in read or not same(read[key], wanted[key])]
    more = [key for key in read if key not in wanted]
    print(f"{folder}: {len(rows)} rows, {len(wanted)} numbers, {len(events.Tags()['scalars'])} tags, "
          f"{len(list(pathlib.Path(folder).glob('events.out.tfevents.*')))} event files; "
          f"{len(wrong)} differ, {len(more)} are in the events alone")
    for key in (wrong + more)[:10]:
        print("  step %d %s:" % key, wanted.get(key), read.get(key))
    return 1 if wrong or more or not wanted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
