"""Makes of the extension module's stub, as nanobind writes it, one that type checkers take.

  finish_stub.py RAW OUT

Overloads that only refuse are left out; what converts implicitly is said (a number is a Schedule); defaults that are objects become "..."; the errors, which name the package
as their module, are classes here.
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


def without_refusals(stub):
    """Without the last overload of a constructor, which takes anything to say what is wrong with it."""
    refusal = r"\n    @overload\n    def __init__\(self, \*args, \*\*kwargs\) -> None: \.\.\.\n"
    classes = re.split(r"(?m)^(?=class )", stub)
    for i, text in enumerate(classes):
        if re.search(refusal, text):
            text = re.sub(refusal, "", text)
            if text.count("    def __init__(") == 1:
                text = re.sub(r"    @overload\n(    def __init__\()", r"\1", text)
            classes[i] = text
    return "".join(classes)


def finished(stub):
    lines = []
    for line in without_refusals(stub).split("\n"):
        if re.match(r"from lockstep import |from lockstep\._core import init|    \w*Error as \w*Error,?$|^\)$", line) and not line.startswith("class"):
            continue
        line = re.sub(r"= (?:init\.\w+\([^()]*\)|\w+(?:Options|Masks)\(\)|f32\b)", "= ...", line)
        line = re.sub(r"(?<=: )Schedule(?= =|,|\))", "float | Schedule", line)
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
