"""What a name is here that PyTorch spells in another way: what the error of an absent attribute says."""
import difflib

# Those that no spelling leads to.
ELSEWHERE = {
    "Adam": "AdamW (weight_decay=0 is Adam)",
    "Module": "a function or class of your own that calls layers: examples/gpt.py",
    "Sequential": "a function that calls one layer after the other",
    "DataLoader": "arrays, or SampleData",
    "no_grad": "Forward, or a validation of train",
    "tensor": "NumPy's arrays: a step takes them as its fields",
    "save": "Checkpoint",
    "optim": "the optimizers themselves, as AdamW",
    "nn": "the layers themselves, as Linear",
}


def plain(name):
    return name.replace("_", "").lower()


def missing(name, known):
    """What is said of lockstep.NAME, where `known` are the names that there are."""
    text = f"module 'lockstep' has no attribute {name!r}"
    if name.startswith("_"):
        return text
    if name in ELSEWHERE:
        return f"{text}; here that is {ELSEWHERE[name]}"
    names = {}
    for each in sorted(known):
        if not each.startswith("_"):
            names.setdefault(plain(each), each)
    wanted = plain(name)
    for spelled in (wanted, wanted.removesuffix("loss"), wanted.removesuffix("2d")):
        if spelled in names:
            return f"{text}; did you mean {names[spelled]}?"
    near = difflib.get_close_matches(wanted, names, 1, 0.75)
    return f"{text}; did you mean {names[near[0]]}?" if near else f"{text}; docs/pytorch.md has PyTorch's words beside ours"
