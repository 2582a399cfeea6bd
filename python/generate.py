"""Writes the binding of every public function, layer and optimizer, as their headers declare them.

  generate.py ROOT OUT      writes OUT/functions_*.cpp, OUT/layers.cpp, OUT/optimizers.cpp

A function that is added to one of the headers below is in the Python package without another line. Its C++ comment is
its docstring. Declarations that are bound by hand, in module.cpp and the files next to it, are listed in BY_HAND.
"""
import pathlib
import re
import sys

import headers

FUNCTIONS = {
    "a": [
        "core/functions/" + name
        for name in (
            "activations.h",
            "attention.h",
            "contract.h",
            "creation.h",
            "image.h",
            "index.h",
            "lanes.h",
        )
    ],
    "b": [
        "core/functions/" + name for name in ("losses.h", "norms.h", "operators.h", "order.h", "patterns.h")
    ],
    "c": ["core/functions/" + name for name in ("pointwise.h", "random.h", "reduce.h", "gradients.h")],
    "d": [
        "core/functions/shape.h",
        "core/functions/spatial/convolution.h",
        "core/functions/spatial/pooling.h",
        "core/functions/matrices/linalg.h",
        "core/nn/assign.h",
        "core/nn/metric.h",
        "core/nn/init.h",
    ],
}
LAYERS = ["core/nn/" + name for name in ("attention.h", "convolution.h", "layers.h", "normalization.h", "recurrent.h")]
OPTIMIZERS = ["core/optim/" + name for name in
              ("gradients.h", "clip.h", "schedule.h", "plateau.h", "average.h")]  # in addition to those of all.h
BY_HAND = {"NumberAt", "Computed", "CustomGradient", "custom_gradient", "gradients_of_ones_own", "check_heads",
           "adagrad_group", "adamw_group", "InLayer", "Evaluation", "Schedule", "Init", "LinearInit", "Convolution",
           "TransposedConvolution", "Gradients", "Loss", "fill", "misfit"}
# sdpa(q, k, v) is causal in C++ and not in PyTorch, so Python callers must state it.
WITHOUT_DEFAULT = {("sdpa", "causal")}
# This C++ overload has a default and would hide the one with options.
LEFT_OUT = {("sdpa", "bool")}
KEYWORDS = {"in", "lambda", "from", "is", "not", "and", "or"}
PLAIN = {"int", "int64_t", "double", "bool", "size_t", "uint64_t", "std::string", "DType", "Scope", "Parameter", "Loss",
         "Gradients", "Plateau", "Init", "LinearInit", "Schedule", "std::vector<Tensor>", "std::vector<Parameter>",
         "std::optional<double>", "std::optional<Init>", "std::vector<double>", "Number", "std::vector<Number>"}
# Types that the binding takes as another one, and how that becomes the parameter.
TAKEN = {"std::string_view": ("std::string", ""), "Init::Elements": ("std::function<double(int64_t)>", ""),
         "Tensor": ("Tensor", ""), "TensorAt": ("Tensor", ""), "std::vector<int64_t>": ("Ints", ".values"),
         "Shape": ("Ints", ".values"), "Schedule": ("Rate", '.of("{owner}")')}


class Types:
    def __init__(self, read):
        self.structs, self.enums = {}, {}
        for header in read:
            for c in header.classes:
                if not c.constructors and c.fields and not c.methods:
                    self.structs[c.name] = c
            for e in header.enums:
                self.enums[e.name] = e

    def is_options(self, name):
        return name in self.structs and any(f.default is not None
                                            for f in self.structs[name].fields) and name not in BY_HAND


def bare(type_):
    return type_.removeprefix("const ").removesuffix("&").strip()


def literal(text):
    return 'R"doc(' + text + ')doc"'


def python_text(default):
    """A C++ default as Python would write it."""
    text = default.replace("true", "True").replace("false", "False").replace("DType::", "").replace("init::", "init.")
    text = text.replace("kInitStd", "0.02").replace("kIgnoreIndex", "-100").replace("0x1p-23", "1.1920929e-07")
    text = text.replace("::", ".")
    text = re.sub(r"init\.kReluGain|kReluGain", "2 ** 0.5", text).replace("Fan.", "")
    if re.fullmatch(r"\{.*\}", text):
        return "[" + text[1:-1] + "]"
    return text


def is_known(types, type_):
    several = re.fullmatch(r"std::vector<(\w+)>", type_)
    return (type_ in PLAIN or type_ in TAKEN or type_ in types.enums or types.is_options(type_)
            or type_.startswith(("std::optional<", "std::array<"))
            or several is not None and types.is_options(several[1]))


def default_of(types, type_, default):
    """A default as the C++ value in the binding, and as text of the signature; None for those that are not needed."""
    if default is None:
        return None, None
    if default == "{}" and (type_ in ("Tensor", "TensorAt") or type_.startswith("std::optional<")):
        return "nb::none()", "None"
    if type_ in ("std::vector<int64_t>", "Shape"):
        return f"Ints{{{default}}}", python_text(default)
    if type_ == "Schedule":
        return f"double({default})", None
    if types.is_options(type_):
        return f"{type_}{default if default.startswith('{') else '{}'}", f"{type_}()"
    if type_.startswith("std::vector<") and types.is_options(type_[12:-1]):
        return f"{type_}{{}}", None
    if type_ in ("Init", "LinearInit", "DType"):
        return f"{type_}({default})", python_text(default)
    return f"{type_}{default}" if default.startswith("{") or type_.startswith("std::array<") else default, None


class Argument:
    """One C++ parameter in the binding: its type, the expression passed to C++, and its nb::arg."""

    def __init__(self, types, param, owner):
        name, self.name = param.name, param.name + ("_" if param.name in KEYWORDS else "")
        type_, default = bare(param.type), param.default and re.sub(r"^(k\w+Gain)", r"init::\1", param.default)
        if (owner, name) in WITHOUT_DEFAULT:
            default = None
        if not is_known(types, type_):
            raise ValueError(f"{owner}: no Python type for {param.type} {param.name}")
        self.type, how = TAKEN.get(type_, (type_, ""))
        self.expression = f"{name}_value" + how.format(owner=owner)
        value, sig = default_of(types, type_, default)
        if value == "nb::none()" and self.type == "Tensor":
            self.type, self.expression = "std::optional<Tensor>", f"{name}_value.value_or(Tensor())"
        self.arg = f'nb::arg("{self.name}")' + (f".sig({literal(sig)})" if sig
                                                else "") + (f" = {value}" if value else "")
        if value == "nb::none()":
            self.arg = f'nb::arg("{self.name}").none() = nb::none()'
        if type_ == "DType":  # an integer is not a DType
            self.arg = self.arg.replace(f'nb::arg("{self.name}")', f'nb::arg("{self.name}").noconvert()', 1)
        self.parameter = f"{self.type} {name}_value"
        if type_.startswith("std::vector<Parameter") or type_.startswith("std::vector<Tensor"):
            self.parameter = f"const {self.type}& {name}_value"


def flattened(types, params, owner):
    """Arguments, the statements that fill structs of options, and the expressions to call with."""
    before, keywords, statements, call, flat = [], [], [], [], False
    for param in params:
        type_ = bare(param.type)
        if type_ == "Here":
            continue
        if types.is_options(type_) and not flat:
            flat = True
            start = param.default if param.default and param.default.startswith("{.") else "{}"
            statements.append(f"{type_} {param.name}_options{start};")
            changed = dict(re.findall(r"\.(\w+) = (\w+)", start))
            for field in types.structs[type_].fields:
                field_default = changed.get(field.name, field.default)
                argument = Argument(types, headers.Param(field.type, field.name, field_default), owner)
                keywords.append(argument)
                statements.append(f"{param.name}_options.{field.name} = {argument.expression};")
            call.append(f"{param.name}_options")
            continue
        argument = Argument(types, param, owner)
        (keywords if flat else before).append(argument)
        call.append(argument.expression)
    return before, keywords, statements, call


def definition(types, target, name, params, doc, body, owner, first=None, extra=(), method=False):
    """One .def: `body` makes a statement of the call's expressions."""
    before, keywords, statements, call = flattened(types, params, owner)
    arguments = before + keywords
    taken = ([first] if first else []) + [a.parameter for a in arguments]
    args = [a.arg for a in before[1 if method else 0:]] + (["nb::kw_only()"] if keywords
                                                           else []) + [a.arg for a in keywords]
    lines = ["CallingLine line;"] + statements + [body(", ".join(call))]
    inner = " ".join(lines)
    behind = "".join(f", {each}" for each in [*args, *extra, literal(doc)])
    return f'{target}.def("{name}", []({", ".join(taken)}) {{ {inner} }}{behind});'


def bind_function(types, f, out):
    if f.name in BY_HAND or any((f.name, p.type) in LEFT_OUT for p in f.params):
        return
    scope = "" if not f.namespace else f.namespace + "::"
    target = "m" if not f.namespace else f"{f.namespace}_module"
    back = "" if f.returns == "void" else "return "
    body = lambda call: f"{back}lockstep::{scope}{f.name}({call});"
    out.append(definition(types, target, f.name, f.params, f.doc, body, f.name))
    first = f.params[0] if f.params else None
    if first and not f.namespace and bare(first.type) in ("Tensor", "TensorAt") and first.name in ("x", "a"):
        out.append(definition(types, "tensor", f.name, f.params, f.doc, body, f.name, method=True))


def bind_struct(types, c, out):
    """Binds a struct of options, constructed from keywords, or of several results, which unpack."""
    if c.name in BY_HAND:
        return
    fields = ". ".join(f"{f.name}: {f.doc}" for f in c.fields if f.doc)
    if types.is_options(c.name):
        params = [headers.Param(f"const {c.name}&", "own", "{}")]
        out.append(f'nb::class_<{c.name}> {c.name}_class(m, "{c.name}", {literal(c.doc or fields)});')
        out.append(definition(types, f"{c.name}_class", "__init__", params, fields,
                              lambda call: f"new (self) {c.name}(own_options);", c.name, f"{c.name}* self"))
        return
    out.append(f'nb::class_<{c.name}> {c.name}_class(m, "{c.name}", {literal(c.doc or fields)});')
    for f in c.fields:
        out.append(f'{c.name}_class.def_ro("{f.name}", &{c.name}::{f.name}, {literal(f.doc)});')
    items = ", ".join(f"self.{f.name}" for f in c.fields)
    out.append(f'{c.name}_class.def("__iter__", [](const {c.name}& self) '
               f'{{ return nb::iter(nb::make_tuple({items})); }}, "For y, z = ...");')
    count = len(c.fields)
    out.append(f'{c.name}_class.def("__len__", [](const {c.name}&) {{ return {count}; }});')
    out.append(f'{c.name}_class.def("__getitem__", [](const {c.name}& self, int i) {{ '
               f'if (i < -{count} || i >= {count}) throw nb::index_error("there are {count} results"); '
               f'const Tensor results[] = {{{items}}}; return results[i < 0 ? i + {count} : i]; }}, nb::arg("i"), '
               f'"In the order in which they unpack.");')


def bind_class(types, c, out):
    if c.name in BY_HAND:
        return
    optimizer = "RuleOptimizer" in c.bases
    bases = ", Optimizer" if optimizer else ""
    out.append(f'nb::class_<{c.name}{bases}> {c.name}_class(m, "{c.name}", {literal(c.doc)});')
    keep = ["nb::keep_alive<1, 2>()"]
    for constructor in c.constructors:
        out.append(definition(types, f"{c.name}_class", "__init__", constructor.params, constructor.doc,
                              lambda call: f"new (self) {c.name}({call});", c.name,
                              f"{c.name}* self", keep))
    if not c.constructors:  # an aggregate: its fields, in order
        params = [headers.Param(f.type, f.name, f.default) for f in c.fields]
        out.append(definition(types, f"{c.name}_class", "__init__", params, "",
                              lambda call: f"new (self) {c.name}{{{call}}};", c.name, f"{c.name}* self"))
    for method in c.methods:
        called = "self" if method.name == "__call__" else f"self.{method.name}"
        back = "" if method.returns == "void" else "return "
        wrapped = lambda call, called=called, back=back: f"{back}{called}({call});"
        constant = "const " if method.const else ""
        out.append(definition(types, f"{c.name}_class", method.name, method.params, method.doc, wrapped, c.name,
                              f"{constant}{c.name}& self"))
    if c.constructors:
        for f in c.fields:
            out.append(f'{c.name}_class.def_prop_ro("{f.name}", [](const {c.name}& self) {{ return self.{f.name}; }}, '
                       f'nb::keep_alive<0, 1>(), {literal(f.doc)});')


def casters(types):
    out = []
    for e in types.enums.values():
        words = "typing.Literal[" + ", ".join(f"'{v}'" for v in e.values) + "]"
        rows = ", ".join(f'{{"{v}", {e.name}::{v}}}' for v in e.values)
        out.append(f'template <> struct nanobind::detail::type_caster<lockstep::{e.name}> : '
                   f'lockstep::python::WordCaster<lockstep::{e.name}> {{\n'
                   f'  static constexpr auto Name = const_name("{words}");\n'
                   f'  type_caster() : WordCaster({{{rows.replace(e.name + "::", "lockstep::" + e.name + "::")}}}) '
                   f'{{}}\n'
                   f'  static handle from_cpp(lockstep::{e.name} value, rv_policy, cleanup_list*) noexcept '
                   f'{{ return word_of(type_caster().words, value); }}\n}};')
    return "\n".join(out)


HEAD = """// Written by python/generate.py from the public headers.
#include "python/binding.h"
#include <python_words.h>

namespace lockstep::python {
"""


def write(path, text):
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main():
    root, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    optimizers = OPTIMIZERS + re.findall(r'#include "(core/optim/.*)"', (root / "core/optim/all.h").read_text())
    every = [name for names in [*FUNCTIONS.values(), LAYERS, optimizers] for name in names]
    read = {name: headers.read_header(root / name) for name in every}
    types = Types(read.values())
    write(out / "python_words.h", "// Written by python/generate.py: enumerations as words.\n#pragma once\n#include "
                                  "\"python/binding.h\"\n\n" + casters(types) + "\n")
    structs = []
    for name, header in read.items():
        for c in header.classes:
            if c.name in types.structs:
                bind_struct(types, c, structs)
    # A struct that has another as a field comes after it.
    write(out / "options.cpp", HEAD + "void bind_options(nb::module_& m) {\n  " + "\n  ".join(ordered(types, structs))
          + "\n}\n}  // namespace lockstep::python\n")
    for part, names in FUNCTIONS.items():
        lines = []
        for name in names:
            for f in read[name].functions:
                bind_function(types, f, lines)
        inits = ('nb::module_ init_module = m.def_submodule("init", "How a parameter starts, as torch.nn.init.");\n  '
                 if part == "d" else "")
        write(out / f"functions_{part}.cpp", HEAD + f"void bind_functions_{part}(nb::module_& m, nb::class_<Tensor>& "
                                                    f"tensor) {{\n  (void)tensor;\n  {inits}" +
              "\n  ".join(lines) + "\n}\n}  // namespace lockstep::python\n")
    for part, names in (("layers", LAYERS), ("optimizers", optimizers)):
        lines = []
        for name in names:
            if name.endswith("average.h"):  # after the type that its follow() takes
                lines.append("bind_optimizer(m);")
            for f in read[name].functions:
                bind_function(types, f, lines) if part == "optimizers" or f.name == "torch_linear" else None
            for c in read[name].classes:
                if c.name not in types.structs:
                    bind_class(types, c, lines)
        write(out / f"{part}.cpp", HEAD + f"void bind_{part}(nb::module_& m) {{\n  " + "\n  ".join(lines)
              + "\n}\n}  // namespace lockstep::python\n")


def ordered(types, lines):
    """Lines of structs without options inside them first."""
    nested = {c.name for c in types.structs.values() if any(types.is_options(bare(f.type)) for f in c.fields)}
    later = [line for line in lines if any(f"{name}_class" in line for name in nested)]
    return [line for line in lines if line not in later] + later


if __name__ == "__main__":
    main()
