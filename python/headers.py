"""Reads declarations, with their comments, out of the public headers: functions, structs of options, layers.

The headers are written in one style, which scripts/format.sh keeps. A declaration that this reader does not understand
is an error and is never left out.
"""
import dataclasses
import re


@dataclasses.dataclass
class Param:
    type: str
    name: str
    default: str | None = None


@dataclasses.dataclass
class Function:
    name: str
    returns: str
    params: list
    doc: str
    const: bool = False
    namespace: str = ""


@dataclasses.dataclass
class Field:
    type: str
    name: str
    default: str | None
    doc: str


@dataclasses.dataclass
class Class:
    name: str
    doc: str
    bases: str = ""
    constructors: list = dataclasses.field(default_factory=list)
    methods: list = dataclasses.field(default_factory=list)
    fields: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Enum:
    name: str
    values: list


@dataclasses.dataclass
class Header:
    about: str
    functions: list = dataclasses.field(default_factory=list)
    classes: list = dataclasses.field(default_factory=list)
    enums: list = dataclasses.field(default_factory=list)


OPEN, CLOSE = "([{<", ")]}>"


def split_commas(text):
    """Parts of a list, where commas inside brackets do not count."""
    out, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in OPEN:
            depth += 1
        elif c in CLOSE and text[i - 1: i + 1] != "->":
            depth -= 1
        elif c == "," and depth == 0:
            out.append(text[start:i])
            start = i + 1
    out.append(text[start:])
    return [part.strip() for part in out if part.strip()]


def parse_param(text):
    head, _, default = text.partition("=")
    match = re.fullmatch(r"(.*?)\s*\b(\w+)", head.strip(), re.S)
    if not match or not match[1] or match[1] == "const":
        return Param(head.strip(), "", None)  # it has no name
    return Param(" ".join(match[1].split()), match[2], default.strip() or None)


def statements(text):
    """(comment, declaration, trailing comment) of each declaration on this level, bodies included."""
    out, comment, fresh, code, trailing, parens, braces, body = [], [], True, "", [], 0, 0, False

    def ended():
        nonlocal code, trailing, parens, braces, body, fresh
        out.append([" ".join(comment), " ".join(code.split()), " ".join(trailing)])
        code, trailing, parens, braces, body, fresh = "", [], 0, 0, False, False

    for line in text.split("\n"):
        bare, slashes, note = line.partition("//")
        if not code.strip() and not bare.strip():
            if not slashes:
                comment, fresh = [], True
            elif out and not fresh and len(bare) > 8 and out[-1][2]:
                out[-1][2] += " " + note.strip()  # a trailing comment that continues on the next line
            else:
                comment = (comment if fresh else []) + [note.strip()]
                fresh = True
            continue
        before = len(out)
        for c in bare:
            if c == "{" and parens == 0 and braces == 0:
                body = bool(re.search(r"\)\s*(const|override|noexcept|\s)*(:[^:].*)?$", code,
                                      re.S)) or code.strip().startswith("namespace")
            code += c
            parens += (c == "(") - (c == ")")
            braces += (c == "{") - (c == "}")
            if parens == 0 and braces == 0 and (c == ";" or (c == "}" and body)):
                ended()
        code += "\n"
        if slashes and note.strip():
            if code.strip() and braces:
                continue  # inside a body, whose members have their own comments
            if code.strip():
                trailing.append(note.strip())
            elif len(out) > before:
                out[-1][2] = note.strip()
    if code.strip():
        raise ValueError(f"no end: {code[:200]!r}")
    return [(comment, re.sub(r"\[\[[^\]]*\]\]\s*", "", whole), note) for comment, whole,
            note in out if whole not in (";", "")]


def doc_of(comment, trailing):
    return " ".join(part for part in (comment, trailing) if part)


def parse_function(whole, doc, name=r"~?\w+|operator\W{1,3}"):
    match = re.match(rf"((?:explicit |inline |virtual |static |constexpr )*)([\w:<>,&* ]*?)\s*\b({name})\s*\(", whole)
    if not match:
        return None
    depth, end = 0, None
    for i in range(match.end() - 1, len(whole)):
        depth += (whole[i] == "(") - (whole[i] == ")")
        if depth == 0:
            end = i
            break
    inside = whole[match.end(): end]
    behind = whole[end + 1:]
    return Function(match[3], match[2].strip(), [parse_param(p) for p in split_commas(inside)], doc,
                    behind.lstrip().startswith("const"))


def parse_fields(whole, doc):
    """One or several members of one type: "int64_t a = 1, b = 2;"."""
    text = whole.rstrip(";").strip()
    parts = split_commas(text)
    first = parse_param(parts[0])
    out = [Field(first.type, first.name, first.default, doc)]
    for part in parts[1:]:
        name, _, default = part.partition("=")
        out.append(Field(first.type, name.strip(), default.strip() or None, doc))
    return out


def read_class(name, kind, bases, body, doc):
    out = Class(name, doc, bases or "")
    visible = kind == "struct"
    for comment, whole, trailing in statements(body):
        while match := re.match(r"(public|private|protected):\s*", whole):
            visible = match[1] == "public"
            whole = whole[match.end():]
        if not visible or "= delete" in whole or re.match(r"(using|friend|template|static|enum|struct|class)\b", whole):
            continue
        text = doc_of(comment, trailing)
        if re.match(rf"(explicit )?{name}\s*\(", whole):
            out.constructors.append(parse_function("explicit " + whole.removeprefix("explicit "), text))
        elif whole.startswith("~"):
            continue
        elif re.match(r"[\w:<>,&* ]*\boperator\(\)\s*\(", whole):
            method = parse_function(whole.replace("operator()", "operator_call", 1), text)
            method.name = "__call__"
            out.methods.append(method)
        elif "operator" in whole.split("(")[0]:
            continue
        elif match := re.match(r"[\w:<>,&* ]+\(\*(\w+)\)\s*\([^)]*\)", whole):  # a pointer to a function
            out.fields.append(Field(match[0].replace(match[1], "", 1), match[1], None, text))
        elif re.match(r"[^={]*\(", whole) and not re.match(r"std::function", whole):
            method = parse_function(whole, text)
            if not method:
                raise ValueError(f"not understood: {whole[:200]!r}")
            out.methods.append(method)
        else:
            out.fields += parse_fields(whole, text)
    return out


def read_header(path):
    text = path.read_text()
    lines = text.split("\n")
    about = []
    while lines and lines[0].startswith("//"):
        about.append(lines.pop(0)[2:].strip())
    out = Header(" ".join(about))
    # Removes preprocessor lines, and lists of rows by a macro.
    body = "\n".join(line for line in lines if not re.match(r"#|[A-Z_]+\([A-Z_]+\)$", line))
    match = re.search(r"^namespace (lockstep(?:::\w+)*) \{$(.*?)^\}  // namespace \1$", body, re.S | re.M)
    if not match:
        raise ValueError(f"{path}: no namespace lockstep")
    read_level(match[2], "", out)
    return out


def inner(text, name):
    """The lines of a struct, class or namespace, unchanged, with comments."""
    match = re.search(rf"^namespace {name} \{{$(.*?)^\}}  // namespace {name}$", text,
                      re.S | re.M) or re.search(rf"^(?:struct|class|namespace) {name}\b[^;]*?\{{$(.*?)^\}}", text,
                                                re.S | re.M)
    return match[1] if match else None


def read_level(text, namespace, out):
    for comment, whole, trailing in statements(text):
        doc = doc_of(comment, trailing)
        if match := re.match(r"namespace (\w+) \{", whole):
            read_level(inner(text, match[1]), match[1], out)
        elif match := re.match(r"enum class (\w+)\s*\{(.*)\}", whole):
            out.enums.append(Enum(match[1], [v.strip() for v in match[2].split(",") if v.strip()]))
        elif re.match(r"(template|using|static|inline constexpr|constexpr|class \w+;|struct \w+;|extern)", whole):
            continue
        elif match := re.match(r"(struct|class) (\w+)\s*(?:: ([^{]*))?\{", whole):
            body = inner(text, match[2])
            if body is None:
                body = whole[whole.index("{") + 1: whole.rindex("}")].replace("; ", ";\n")
            out.classes.append(read_class(match[2], match[1], match[3], body, doc))
        elif "operator" in whole.split("(")[0]:
            continue
        else:
            function = parse_function(whole, doc)
            if not function:
                raise ValueError(f"not understood: {whole[:200]!r}")
            function.namespace = namespace
            out.functions.append(function)
