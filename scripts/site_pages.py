"""The pages of the site: docs/, README, ARCHITECTURE and CONTRIBUTING as they are, the API from the public headers, the
config keys from trainrun.

  scripts/site_pages.py ROOT OUT TRAINRUN

Links out of docs/ become names of files, since the site has no sources.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

root, out, trainrun = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
sys.path.insert(0, str(root / "python"))
import headers  # noqa: E402

TITLES = [("core/functions", "Functions"), ("core/ops", "Functions"), ("core/table", "Functions"),
          ("core/nn", "Layers and state"), ("core/optim", "Optimizers"),
          ("core/models", "Models"), ("core/tasks", "Tasks"),
          ("compiler", "Compiling"), ("launcher", "Programs"), ("", "More")]
OWN = {"README.md": "index.md", "ARCHITECTURE.md": "ARCHITECTURE.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}


def linked(text, where):
    """Rewrites the links and pictures of a page in folder `where` of the tree for the site."""
    page = where[5:] if where.startswith("docs/") else ""

    def one(match):
        mark, words, target = match[1], match[2], match[3]
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, _, anchor = target.partition("#")
        inside = (root / where / path).resolve().relative_to(root.resolve()).as_posix()
        anchor = "#" + anchor if anchor else ""
        there = OWN.get(inside) or (inside[5:] if inside.startswith("docs/") and (root / inside).is_file() else None)
        if not there and inside.startswith("docs/"):
            sys.exit(f"{where}: a link leads to {inside}, which is not there")
        if there:
            return f"{mark}[{words}]({os.path.relpath(there, page or '.')}{anchor})"
        return words if words == inside else f"{words} (`{inside}`)"
    return re.sub(r"(!?)\[([^\]]+)\]\(([^)\s]+)\)", one, text)


def tables(text):
    """Turns blocks of commands with explanations into tables, which a narrow page can wrap."""
    def cell(words):
        return words.replace("|", "\\|")

    def one(match):
        rows = []
        if match[1]:  # of a language
            return match[0]
        for line in match[2].splitlines():
            row = re.fullmatch(r"((?:trainrun|--)\S*(?: {1,2}\S+)*) {2,}(\S.*)", line)
            more = re.fullmatch(r" {20,}(\S.*)", line)
            if row:
                rows.append([row[1].replace("|", "|\u200b"), re.sub(" {2,}", "; ", row[2])])  # a line may end there
            elif more and rows:
                rows[-1][1] += " " + more[1]
            else:
                return match[0]
        return "\n".join(["| say | for |", "| --- | --- |"] + [f"| `{a}` | {cell(b)} |" for a, b in rows]) + "\n"
    return re.sub(r"(?ms)^```(\w*)\n(.*?)^```\n", one, text)


def flat(doc):
    return " ".join(doc.split())


def signature(function):
    params = ", ".join(f"{p.type} {p.name}" + (f" = {p.default}" if p.default else "") for p in function.params)
    return f"{function.returns} {function.name}({params})".strip()


def included(path):
    """Our headers that a header includes, in order."""
    return re.findall(r'^#include "((?:core|compiler|launcher)/[^"]+)"', (root / path).read_text(), re.M)


def api():
    lines = ["# API", "", "From the comments of the public headers, `lockstep.h` and what it includes. Python has the "
                          "same names (`import",
             "lockstep as ls`): what a struct of options holds are keyword arguments there."]
    public = [inner for path in included("lockstep.h")
              for inner in (included(path) if path.endswith(("functions/functions.h", "optim/all.h")) else [path])]
    seen, title = set(), None
    for path in sorted(public, key=lambda p: [p.startswith(f) for f, _ in TITLES].index(True)):
        new = next(words for folder, words in TITLES if path.startswith(folder))
        try:
            header = headers.read_header(root / path)
        except ValueError as error:  # written in words that the reader does not know
            sys.exit(f"API: {path}: {error}; teach python/headers.py to read it")
        parts = [(signature(f), f.doc)
                 for f in header.functions] + [(f"struct {c.name}", c.doc) for c in header.classes]
        parts = [p for p in parts if p[1] and p[0] not in seen]
        if not parts:
            continue
        if new != title:
            title = new
            lines += ["", f"## {title}"]
        lines += ["", f"### {pathlib.Path(path).stem.replace('_', ' ').capitalize()}", "",
                  f"`{path}`: {flat(header.about)}"]
        for text, doc in parts:
            seen.add(text)
            lines += ["", "```cpp", text, "```", "", flat(doc).replace("<", "&lt;")]
    return "\n".join(lines) + "\n"


def keys():
    text = subprocess.run([trainrun, "show", "--reference"], capture_output=True, text=True, check=True).stdout
    # Escapes patterns and ranges, which are not Markdown markup; text in backticks stays unchanged.
    parts = [part if i % 2 else re.sub(r"([*_<\[{])", r"\\\1", part) for i,
             part in enumerate(re.split(r"(`[^`]*`)", text))]
    lines = "".join(parts).replace("\\<", "&lt;").split("\n")
    about = "`trainrun show --reference` prints this page, `trainrun explain KEY` says more of one key."
    return "\n".join(lines[:1] + ["", about] + lines[1:])


out.mkdir(parents=True, exist_ok=True)
shutil.copytree(root / "docs" / "pictures", out / "pictures", ignore=shutil.ignore_patterns("*.py"))
for page in sorted((root / "docs").rglob("*.md")):
    place = page.relative_to(root / "docs")
    (out / place).parent.mkdir(exist_ok=True)
    (out / place).write_text(linked(page.read_text(), page.parent.relative_to(root).as_posix()))
for name, page in OWN.items():
    (out / page).write_text(tables(linked((root / name).read_text(), ".")))
(out / "site.css").write_text(".md-grid { max-width: 82rem }\n.md-typeset pre > code { white-space: pre-wrap }\n"
                             ".md-typeset table code { word-break: normal; overflow-wrap: break-word }\n"
                             ".md-typeset table:not([class]) :is(th, td) { min-width: 0; padding: .45em .6em }\n")
(out / "api.md").write_text(api())
(out / "keys.md").write_text(keys())
