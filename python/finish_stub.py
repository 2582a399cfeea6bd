"""Turns the extension module's stub, as nanobind writes it, into one that type checkers accept.

  finish_stub.py RAW OUT

It adds implicit conversions (an Init is a LinearInit), replaces defaults that are objects by "...", and declares the
errors, which name the package as their module, as classes.
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
    # Attributes that the package's Python code adds to the classes are not names of the module.
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
