"""Makes of the extension module's stub, as nanobind writes it, one that type checkers take.

  finish_stub.py RAW OUT

What converts implicitly is said (an Init is a LinearInit); defaults that are objects become "..."; the errors, which
name the package as their module, are classes here.
"""
import pathlib
import re
import sys

ERRORS = '''__version__: str

class Error(Exception): ...
class UserError(Error): ...
class PeerError(Error): ...
class InternalError(Error): ...
'''


def finished(stub):
    # What the package's own Python adds to the classes is no name of the module.
    stub = re.sub(r"(?m)^from lockstep\.(?:calls|shown|words) import (?:\([^)]*\)|.*)\n", "", stub)
    lines = []
    for line in stub.split("\n"):
        if re.match(r"from lockstep import |from lockstep\._core import init|    \w*Error as \w*Error,?$|^\)$",
                    line) and not line.startswith("class"):
            continue
        line = re.sub(r"= (?:init\.\w+\([^()]*\)|\w+(?:Options|Masks)\(\)|f32\b)", "= ...", line)
        line = re.sub(r"(?<=: )LinearInit(?= =|,|\))", "Init | LinearInit", line)
        if re.match(r"\s+def __(eq|ne)__\(self", line) and lines[-1].endswith("@overload"):
            if "ignore" not in "".join(lines[-3:]):
                lines[-1] += "  # type: ignore[override]"
        lines.append(line)
    text = "\n".join(lines)
    at = text.index("\nclass ")
    return text[:at] + "\n" + ERRORS + text[at:]


def main():
    out = pathlib.Path(sys.argv[2])
    out.write_text(finished(pathlib.Path(sys.argv[1]).read_text()))


if __name__ == "__main__":
    main()
