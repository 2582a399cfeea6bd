// Validates a definition and prints it.
#include "core/table/definition.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/philox.h"
#include "core/functions/functions.h"
#include "core/ir/print.h"
#include "core/ir/walk.h"
#include "core/ops/rules.h"

namespace lockstep {

bool is_own_name(const std::string& name) {
  const std::vector<std::string> parts = split(name, ':');  // "a::b" is a, nothing, b
  if (parts.size() < 3 || parts.size() % 2 == 0) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool between = i % 2 == 1;
    if (parts[i].empty() != between) return false;
    for (char c : parts[i])
      if (!(std::islower(static_cast<unsigned char>(c)) || std::isdigit(static_cast<unsigned char>(c)) ||
            c == '_'))
        return false;
  }
  return true;
}

namespace {
bool is_rule(const std::string& placement) { return placement.find("->") != std::string::npos; }
bool has_code(const OpDefinition& d) { return !d.cpp.empty() || !d.cuda.empty() || d.host; }
bool takes(const OpDefinition& d, DType dtype) {
  if (!d.dtypes.empty()) return std::find(d.dtypes.begin(), d.dtypes.end(), dtype) != d.dtypes.end();
  return has_code(d) ? dtype == DType::f32 : is_float(dtype);
}
std::string dtypes_text(const OpDefinition& d) {
  if (d.dtypes.empty()) return has_code(d) ? "f32" : "floats";
  std::vector<std::string> names;
  for (DType dtype : d.dtypes) names.emplace_back(name(dtype));
  return join(names, " or ");
}

// Words in braces that name neither an operand nor an attribute.
std::string wrong_placeholder(const OpDefinition& d) {
  const std::string& code = d.scalar;
  for (size_t open = code.find('{'); open != std::string::npos; open = code.find('{', open + 1)) {
    const size_t close = code.find('}', open);
    if (close == std::string::npos) return "its scalar code has a { without a }";
    const std::string word = code.substr(open + 1, close - open - 1);
    const bool operand = word.size() == 1 && word[0] >= '0' && word[0] < '0' + d.inputs;
    const bool attribute =
        std::any_of(d.attrs.begin(), d.attrs.end(), [&](const auto& attr) { return attr.first == word; });
    if (!operand && !attribute)
      return str("its scalar code names {", word, "}, which is neither one of its ", d.inputs,
                 " operands {0}... nor an attribute");
  }
  return "";
}
// What the preludes of every target have for the code of an element: what the table's own rows call.
const std::vector<std::string>& callable() {
  static const std::vector<std::string> all = {
      "ls_abs",   "ls_atan",    "ls_ceil",    "ls_clamp",     "ls_cos",  "ls_eq",  "ls_erf",
      "ls_exp",   "ls_expm1",   "ls_floor",   "ls_fma",       "ls_le",   "ls_log", "ls_log1p",
      "ls_lt",    "ls_maximum", "ls_minimum", "ls_ne",        "ls_not",  "ls_pow", "ls_reciprocal",
      "ls_round", "ls_rsqrt",   "ls_sigmoid", "ls_remainder", "ls_sign", "ls_sin", "ls_sqrt",
      "ls_tanh",  "ls_trunc",   "ls_where"};
  return all;
}
// A function that its scalar code calls and that no kernel has: sinf, std::exp.
std::string wrong_call(const OpDefinition& d) {
  const std::string& code = d.scalar;
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t open = code.find('('); open != std::string::npos; open = code.find('(', open + 1)) {
    size_t end = open, begin;
    while (end > 0 && code[end - 1] == ' ') --end;
    for (begin = end; begin > 0 && in_word(code[begin - 1]);) --begin;
    const std::string word = code.substr(begin, end - begin);
    const std::vector<std::string>& known = callable();
    if (word.empty() || word.starts_with("ls_to_") ||
        std::find(known.begin(), known.end(), word) != known.end())
      continue;
    const std::string near = nearest(word.starts_with("ls_") ? word : "ls_" + word, known);
    return str("its scalar code calls ", word, ", which kernels do not have; ",
               near.empty() ? "" : str("did you mean ", near, "? "), "They have ", join(known, ", "));
  }
  return "";
}
std::string missing_piece(const OpDefinition& d) {
  const int ways = !d.scalar.empty() + (!d.cpp.empty() || d.host);
  if (!d.cpp.empty() && d.host) return "it has C++ source and a host function; give one of them";
  if (ways > 1) return "it has scalar code and code of its own; give one of them";
  if (d.scalar.empty() && !has_code(d) && !d.expand)
    return "it has nothing to run: give scalar, expand, cpp, cuda or host";
  if (!d.scalar.empty() && d.expand)
    return "it has scalar code and an expansion; give one of them, and a formula";
  if (!d.formula && !d.formula_of_all && !d.expand)
    return "nothing says what it computes: give formula, formula_of_all or expand, which its code is "
           "compared with";
  if (d.formula && d.placement != "pointwise")
    return str("formula is of one element, and its placement is \"", d.placement, "\"; give formula_of_all");
  if (d.samples.empty()) return "it has no samples; give types of inputs on which it can be tried";
  if (!d.scalar.empty() && d.placement != "pointwise")
    return str("scalar code is of one element, and its placement is \"", d.placement,
               "\"; it must be \"pointwise\"");
  return "";
}
std::string wrong_source(const OpDefinition& d) {
  for (const std::string* source : {&d.cpp, &d.cuda})
    if (!source->empty() && source->find("OWN_FN") == std::string::npos)
      return str("its ", source == &d.cpp ? "C++" : "CUDA",
                 " source defines no OWN_FN void run(const Tensor* in, const Tensor* out, const double* "
                 "attrs, i64 item)");
  if (has_code(d))
    for (DType dtype : d.dtypes)
      if (dtype == DType::bf16 || dtype == DType::f16)
        return str("its dtypes name ", name(dtype),
                   ", which code of one's own does not compute in; convert around it");
  for (const auto& [attr, type] : d.attrs)
    if ((has_code(d) || !d.scalar.empty()) &&
        (type == AttrType::word || type == AttrType::list || type == AttrType::dtype) && !d.host)
      return str("its attribute \"", attr, "\" is neither a flag nor a number, and code takes only these");
  return "";
}
// The errors of types and placement on the samples.
std::string wrong_sample(const OpDefinition& d) {
  const std::vector<TypedShape> none;
  for (size_t i = 0; i < d.samples.size(); ++i) {
    const Sample& sample = d.samples[i];
    const auto wrong = [&](const std::string& what) { return str("its sample ", i, " fails: ", what); };
    for (const auto& [attr, type] : d.attrs)
      if (!sample.attrs.has(attr)) return wrong(str("it has no attribute \"", attr, "\""));
    const InferContext context{OpId(), sample.in, sample.attrs, {}};
    try {
      const std::vector<TypedShape> out = types_of(d, context);
      if (out.empty()) return wrong("its type rule gives no output");
      if (std::string rule = split_of(d, context); !rule.empty())
        (void)parse_split_rule(rule, sample.in, out);
    } catch (const UserError& error) {
      std::string what = error.what();
      if (what.starts_with("[] ?: ")) what = what.substr(6);
      return wrong(what);
    } catch (const InternalError& error) {  // from the placement rule: the reason is at the end of the text
      const std::string what = error.what();
      return wrong(what.substr(what.rfind(": ") + 2));
    }
  }
  return "";
}
}  // namespace

std::string defect_of(const OpDefinition& d) {
  if (!is_own_name(d.name))
    return "a name has at least two parts of small letters, digits and _, as \"mine::gelu3\"";
  if (d.inputs < 1 || d.inputs > 9) return str("it has ", d.inputs, " inputs; 1 to 9 are possible");
  if (d.placement != "pointwise" && d.placement != "rows" && d.placement != "replicated" &&
      !is_rule(d.placement))
    return str("its placement is \"", d.placement,
               "\"; known: \"pointwise\", \"rows\", \"replicated\", or a rule as \"...mk,...kn->...mn\"");
  for (auto check : {missing_piece, wrong_placeholder, wrong_call, wrong_source, wrong_sample})
    if (std::string what = check(d); !what.empty()) return what;
  return "";
}

// Scalar code gets its numbers in operand 0's dtype, source code in doubles.
namespace {
void expect_exact(const OpDefinition& d, const InferContext& c) {
  for (const auto& [attr, type] : d.attrs) {
    if (type != AttrType::number && type != AttrType::integer) continue;
    if (!c.attrs.has(attr)) continue;  // which the row's check reports
    if (!d.scalar.empty() && is_integer(c.in[0].dtype)) rules::expect_held(c, attr, c.in[0].dtype);
    const Number number = number_of(c.attrs, attr, DType::i64);
    if ((!d.cpp.empty() || !d.cuda.empty()) && number.is_integer() &&
        (number.real() >= 0x1p63 || static_cast<int64_t>(number.real()) != number.bits()))
      c.fail(str("the attribute \"", attr, "\" is ", number.text(),
                 ", and source takes doubles, which hold integers up to 2^53; give it in two parts"));
  }
}
}  // namespace

std::vector<TypedShape> types_of(const OpDefinition& d, const InferContext& c) {
  if (c.in.size() != static_cast<size_t>(d.inputs))
    c.fail(str("takes ", d.inputs, d.inputs == 1 ? " input, got " : " inputs, got ", c.in.size()));
  for (size_t i = 0; i < c.in.size(); ++i) {
    if (!takes(d, c.in[i].dtype) && !(d.infer && !is_float(c.in[i].dtype) && d.dtypes.empty()))
      c.fail(str("input ", i, " is ", rules::in_text(c, i), ", needs ", dtypes_text(d), "; convert it?"));
    if (d.placement == "pointwise") rules::expect_like(c, i, 0);
  }
  expect_exact(d, c);
  if (d.placement == "rows" && c.in[0].shape.empty())
    c.fail(str("input 0 is ", rules::in_text(c, 0), ", needs [..., row]"));
  std::vector<TypedShape> out = d.infer ? d.infer(c) : std::vector<TypedShape>{c.in[0]};
  for (size_t o = 0; o < out.size(); ++o) {
    if (d.placement == "pointwise" && out[o].shape != c.in[0].shape)
      c.fail(str("its type rule gives ", rules::text(out[o]), " for output ", o,
                 ", and a pointwise op keeps the shape of ", rules::in_text(c, 0)));
    const Shape &x = c.in[0].shape, &y = out[o].shape;
    if (d.placement == "rows" && (y.size() != x.size() || !std::equal(y.begin(), y.end() - 1, x.begin())))
      c.fail(str("its type rule gives ", rules::text(out[o]), " for output ", o,
                 ", and rows keep the leading dims of ", rules::in_text(c, 0)));
  }
  return out;
}

std::string split_of(const OpDefinition& d, const InferContext& c) {
  if (d.placement == "replicated") return "";
  if (is_rule(d.placement)) return d.placement;
  const size_t outputs = types_of(d, c).size();
  const Shape& x = c.in[0].shape;
  std::vector<std::string> in, out(outputs, d.placement == "rows" ? "...#" : "...");
  for (const TypedShape& type : c.in) {
    const bool leads = type.shape.size() == x.size() &&
                       (x.empty() || std::equal(x.begin(), x.end() - 1, type.shape.begin()));
    in.push_back(d.placement == "pointwise" ? "..." : leads ? "...#" : std::string(type.shape.size(), '#'));
  }
  return join(in, ",") + "->" + join(out, ",");
}

DoubleTensor sample_values(const Sample& sample, size_t input) {
  const TypedShape& type = sample.in[input];
  DoubleTensor out{type.shape, {}};
  for (int64_t k = 0; k < numel(type.shape); ++k) {
    const double u = (philox::bits(1000 + input, 7, 0, static_cast<uint64_t>(k)) + 0.5) * 0x1p-32;
    if (is_float(type.dtype))
      out.values.push_back(static_cast<float>(sample.lo + u * (sample.hi - sample.lo)));
    else if (type.dtype == DType::boolean)
      out.values.push_back(u < 0.5);
    else
      out.values.push_back(static_cast<double>(sample.int_lo) +
                           std::floor(u * static_cast<double>(sample.int_hi - sample.int_lo)));
  }
  return out;
}

std::vector<DoubleTensor> run_formula(const OpDefinition& d, const std::vector<DoubleTensor>& in,
                                      const Attrs& attrs) {
  if (d.formula_of_all) return d.formula_of_all(in, attrs);
  if (!d.formula) return {};
  DoubleTensor out{in[0].shape, std::vector<double>(in[0].values.size())};
  std::vector<double> element(in.size());
  for (size_t k = 0; k < out.values.size(); ++k) {
    for (size_t i = 0; i < in.size(); ++i) element[i] = in[i].values[k];
    out.values[k] = d.formula(element, attrs);
  }
  return {out};
}

namespace {
std::string attrs_text(const Attrs& attrs) {
  Graph graph;
  graph.append(ops::full, {}, attrs, {});
  return print(graph, {.source_lines = false});
}
// The graph that a function of tensors traces on a sample, as text.
std::string traced(const OpDefinition& d, const Sample& sample, OpId op, bool gradient) {
  auto builder = std::make_shared<Builder>();
  std::vector<Tensor> in;
  for (const TypedShape& type : sample.in)
    in.emplace_back(builder, builder->graph.add_input(InputKind::value, "in", type.dtype, type.shape));
  std::vector<Tensor> made;
  if (gradient) {
    std::vector<Tensor> out = apply(op, in, sample.attrs, Here::current(), builder), dy;
    std::vector<bool> wants;
    for (const Tensor& y : out)
      dy.emplace_back(builder, builder->graph.add_input(InputKind::value, "dy", y.dtype(), y.shape()));
    for (const Tensor& x : in) wants.push_back(is_float(x.dtype()));
    made = d.gradient({in, out, dy, wants, sample.attrs});
  } else {
    made = d.expand({in, sample.attrs, builder});
  }
  for (size_t i = 0; i < made.size(); ++i)
    if (made[i].defined()) builder->graph.add_output(OutputKind::value, str("out", i), made[i].id());
  return print(builder->graph, {.source_lines = false});
}
// The bits of a host function's outputs on an f32 sample.
std::string host_bits(const OpDefinition& d, const Sample& sample, const std::vector<TypedShape>& outputs) {
  std::vector<std::vector<float>> values;
  std::vector<OpTensor> in, out;
  for (size_t i = 0; i < sample.in.size(); ++i) {
    const DoubleTensor made = sample_values(sample, i);
    values.emplace_back(made.values.begin(), made.values.end());
  }
  for (const TypedShape& type : outputs) values.emplace_back(numel(type.shape));
  auto tensor = [&](size_t v, const TypedShape& type) {
    return OpTensor{values[v].data(), type.shape.data(), static_cast<int>(type.shape.size()),
                    numel(type.shape), type.dtype};
  };
  for (size_t i = 0; i < sample.in.size(); ++i) in.push_back(tensor(i, sample.in[i]));
  for (size_t o = 0; o < outputs.size(); ++o) out.push_back(tensor(in.size() + o, outputs[o]));
  d.host(in.data(), out.data(), sample.attrs);
  std::string text;
  for (size_t o = 0; o < outputs.size(); ++o)
    text += hash_hex(values[in.size() + o].data(), values[in.size() + o].size() * sizeof(float)) + "\n";
  return text;
}
}  // namespace

std::string definition_text(const OpDefinition& d, OpId op) {
  std::string text = str(d.name, "\ninputs ", d.inputs, "\nplacement ", d.placement, "\ndtypes ",
                         dtypes_text(d), "\nscalar ", d.scalar, "\ncost ", d.cost, "\ncpp ", d.cpp, "\ncuda ",
                         d.cuda, "\nhost ", d.host ? "yes" : "no", "\n");
  for (const auto& [attr, type] : d.attrs) text += str("attribute ", attr, " ", static_cast<int>(type), "\n");
  for (const Sample& sample : d.samples) {
    const std::vector<TypedShape> out = types_of(d, {op, sample.in, sample.attrs, {}});
    text +=
        str("sample ", types_text(sample.in), " -> ", types_text(out), " ", number_text(sample.lo), " ",
            number_text(sample.hi), " ", sample.int_lo, " ", sample.int_hi, "\n", attrs_text(sample.attrs));
    std::vector<DoubleTensor> in;
    for (size_t i = 0; i < sample.in.size(); ++i) in.push_back(sample_values(sample, i));
    for (const DoubleTensor& result : run_formula(d, in, sample.attrs))
      text += hash_hex(result.values.data(), result.values.size() * sizeof(double)) + "\n";
    const auto is_f32 = [](const TypedShape& type) { return type.dtype == DType::f32; };
    if (d.host && std::all_of(sample.in.begin(), sample.in.end(), is_f32) &&
        std::all_of(out.begin(), out.end(), is_f32))
      text += host_bits(d, sample, out);
    if (d.expand) text += traced(d, sample, op, false);
    if (d.gradient) try {
        text += traced(d, sample, op, true);
      } catch (const UserError& error) { text += error.what(); }  // reported where it is used
  }
  return text;
}

}  // namespace lockstep
