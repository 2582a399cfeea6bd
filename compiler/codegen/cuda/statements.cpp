// Items as statements of CUDA C++.
#include "compiler/codegen/cuda/statements.h"

#include <cmath>

#include "compiler/codegen/cuda/prelude.h"
#include "core/base/error.h"
#include "core/ops/op.h"

namespace lockstep::cuda {

using cpu::Item;
using cpu::ItemKind;
using cpu::Lanes;

std::string literal(DType dtype, double value) {
  if (dtype == DType::boolean) return value != 0 ? "true" : "false";
  if (!is_float(dtype)) return str("(", register_type(dtype), ")", cpu::literal(dtype, value));
  const bool wide = dtype == DType::f64;
  char bytes[8];
  set_double(dtype, bytes, 0, value);
  const double rounded = get_double(dtype, bytes, 0);
  if (std::isnan(rounded))
    return wide ? "__longlong_as_double(0x7ff8000000000000ll)" : "__int_as_float(0x7fc00000)";
  if (std::isinf(rounded))
    return str(rounded < 0 ? "-" : "",
               wide ? "__longlong_as_double(0x7ff0000000000000ll)" : "__int_as_float(0x7f800000)");
  return cpu::literal(dtype, value);
}

namespace {
void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}
std::string attr_text(const Attr& attr) {
  if (auto* v = std::get_if<DType>(&attr)) return std::string(name(*v));
  if (auto* v = std::get_if<double>(&attr)) return literal(DType::f64, *v);
  if (auto* v = std::get_if<int64_t>(&attr)) return str(*v, "l");
  if (auto* v = std::get_if<bool>(&attr)) return *v ? "1" : "0";
  return "";
}
}  // namespace

// A row's scalar code: operands by name, attributes as literals. Operators of integers go by the prelude's
// functions, which wrap.
std::string Statements::pointwise(const Item& item) const {
  const Node& node = *item.node;
  const Op& row = op_row(node.op);
  LS_CHECK(!row.scalar.empty(), "row ", row.id, " has no scalar code");
  std::string code(row.scalar);
  const DType first = items_[item.args[0]].dtype;
  if (is_integer(first)) {
    if (code == "-{0}") code = "ls_neg({0})";
    for (auto [sign, verb] :
         {std::pair(" + ", "ls_add"), std::pair(" - ", "ls_sub"), std::pair(" * ", "ls_mul"),
          std::pair(" / ", "ls_div"), std::pair(" << ", "ls_shl"), std::pair(" >> ", "ls_shr")})
      if (code == str("{0}", sign, "{1}")) code = str(verb, "({0}, {1})");
  }
  for (const auto& [key, value] : node.attrs.items()) replace_all(code, "{" + key + "}", attr_text(value));
  if (code.find("ls_convert<") != std::string::npos) {
    replace_all(code, "ls_convert<", "ls_to_");
    replace_all(code, ">(", "(");
  }
  if (code.find("ls_bitcast<") != std::string::npos) {
    replace_all(code, "ls_bitcast<", "ls_from_bits_");
    replace_all(code, ">(", "(");
    replace_all(code, "{0}", str("ls_bits_", name(first), "({0})"));
  }
  for (size_t i = 0; i < item.args.size(); ++i) replace_all(code, str("{", i, "}"), str("t", item.args[i]));
  const bool exact =
      code.starts_with("ls_to_") || code.starts_with("ls_from_bits_") || code.starts_with("ls_where(");
  if (!exact && (item.dtype == DType::bf16 || item.dtype == DType::f16))
    code = str("ls_round_", name(item.dtype), "(", code, ")");
  return code;
}

std::string Statements::random(const Item& item, const std::string& column) const {
  const Shape& shape = body_[item.node->outputs[0]].shape;
  int64_t inner = 1;
  for (size_t i = 1; i < shape.size(); ++i) inner *= shape[i];
  return str("t", item.args[0], ", ", item.node->attrs.integer("stream"), "l, t", item.args[1], ", (u64)(",
             at(item.index, column), ") + (u64)t", item.args[2], " * ", inner, "ul");
}

Statements::Place Statements::place(int id) const {
  const Item& own = item(id);
  if (!own.varies) return Place::row;
  if (own.kind != ItemKind::load && own.kind != ItemKind::random) return Place::element;
  const Lanes lanes = indexer_.lanes(own.index);
  if (!lanes.regular) return Place::element;
  if (own.kind == ItemKind::random) {
    for (int arg : own.args)
      if (item(arg).varies) return Place::element;
    return lanes.stride == 1 ? Place::words : Place::element;
  }
  if (lanes.stride == 0) return Place::same;
  return lanes.stride == 1 && lanes.multiple % width_ == 0 ? Place::chunk : Place::element;
}

bool Statements::loads_chunk(int id) const { return place(id) == Place::chunk; }
bool Statements::reads_row(int id) const { return at(item(id).index, "c0").find("r ") != std::string::npos; }
std::string Statements::chunk_type(int id) const {
  return str("ls_raw<", size_of(item(id).dtype), ", ", width_, ">");
}
std::string Statements::chunk_load(int id) const {
  return str(chunk_type(id), "::load(a", item(id).input, ", ", at(item(id).index, "c0"), ")");
}
void Statements::rename_chunk(int id, const std::string& name) { names_[id] = name; }

void Statements::declare(cpu::Text& text, int id, const std::string& code) const {
  text.line(str("const ", register_type(item(id).dtype), " t", id, " = ", code, ";"));
}

std::string Statements::value(int id, const std::string& column) const {
  const Item& own = item(id);
  switch (own.kind) {
    case ItemKind::load:
      return str("ls_get_", name(own.dtype), "(a", own.input, ", ", at(own.index, column), ")");
    case ItemKind::constant:
      return literal(own.dtype, own.value);
    case ItemKind::iota:
      return str("ls_to_", name(own.dtype), "((i64)(", at(own.index, column), "))");
    case ItemKind::random: {
      std::string bits = str("ls_random(", random(own, column), ")");
      return own.dtype == DType::f32 ? str("ls_uniform(", bits, ")") : bits;
    }
    case ItemKind::pointwise:
      return pointwise(own);
    case ItemKind::select: {
      std::string inside;
      for (const cpu::Guard& guard : own.guards) {
        std::string number = at(guard.at, column);
        inside += str(inside.empty() ? "" : " && ", "(", number, ") >= ", guard.lo, " && (", number, ") < ",
                      guard.hi);
      }
      return str("(", inside, ") ? t", own.args[0], " : t", own.args[1]);
    }
    case ItemKind::row_number:
      return str("ls_clamp_rows(ls_to_i32(t", own.args[0], "), ", own.bound, ")");
    case ItemKind::row_result:
    case ItemKind::column_result:
      return str("q", own.reduction);
  }
  throw InternalError("unknown kind of item");
}

void Statements::row(cpu::Text& text, int id) const { declare(text, id, value(id, "0")); }

void Statements::before_elements(cpu::Text& text, const std::vector<int>& ids) const {
  for (int id : ids) {
    const Item& own = item(id);
    switch (place(id)) {
      case Place::chunk:
        if (!names_.count(id)) text.line(str("const ", chunk_type(id), " x", id, " = ", chunk_load(id), ";"));
        break;
      case Place::same:
        declare(text, id, value(id, "c0"));
        break;
      case Place::words:
        text.line(str("u32 n", id, "[", width_, "]; ls_random_run<", width_, ">(n", id, ", ",
                      random(own, "c0"), ");"));
        break;
      default:
        break;
    }
  }
}

void Statements::element(cpu::Text& text, int id) const {
  const Item& own = item(id);
  if (false_.count(id)) return declare(text, id, "false");
  switch (place(id)) {
    case Place::row:
    case Place::same:
      break;
    case Place::chunk: {
      auto renamed = names_.find(id);
      declare(text, id,
              str("ls_from_", name(own.dtype), "(", renamed == names_.end() ? str("x", id) : renamed->second,
                  ".get(j))"));
      break;
    }
    case Place::words:
      declare(text, id, own.dtype == DType::f32 ? str("ls_uniform(n", id, "[j])") : str("n", id, "[j]"));
      break;
    case Place::element:
      declare(text, id, value(id, "c"));
      break;
  }
}

}  // namespace lockstep::cuda
