// Items as statements of C++.
#include "compiler/codegen/cpu/text.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/codegen/cpu/prelude.h"
#include "core/base/error.h"
#include "core/ops/op.h"

namespace lockstep::cpu {

void Text::line(const std::string& text) { out_ += indent_ + text + "\n"; }
void Text::open(const std::string& text) {
  line(text);
  indent_ += "  ";
}
void Text::close() {
  indent_.resize(indent_.size() - 2);
  line("}");
}

DType accumulator(DType dtype) {
  if (dtype == DType::bf16 || dtype == DType::f16) return DType::f32;
  return dtype == DType::boolean ? DType::i32 : dtype;
}

std::string literal(DType dtype, double value) {
  if (dtype == DType::boolean) return value != 0 ? "-1" : "0";
  if (is_float(dtype)) {
    std::string suffix = dtype == DType::f64 ? "" : "f";
    if (std::isnan(value)) return str("__builtin_nan", suffix, "(\"\")");
    if (std::isinf(value)) return str(value < 0 ? "-" : "", "__builtin_inf", suffix, "()");
    double rounded = value;  // to the dtype, as memory would round it
    char bytes[8];
    set_double(dtype, bytes, 0, value);
    rounded = get_double(dtype, bytes, 0);
    if (std::isinf(rounded)) return literal(dtype, rounded);
    std::string digits =
        dtype == DType::f64 ? number_text(rounded) : number_text(static_cast<float>(rounded));
    if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
    return digits + suffix;
  }
  char bytes[8];
  set_double(dtype, bytes, 0, value);
  int64_t number = get_int(dtype, bytes, 0);
  if (number == std::numeric_limits<int64_t>::min()) return "(i64)(1ul << 63)";
  return dtype == DType::u64 ? str(static_cast<uint64_t>(number), "ul")
                             : str("(", name(dtype), ")", number, "l");
}
std::string full(DType dtype, double value) {
  return str("ls_full_", name(dtype), "(", literal(dtype, value), ")");
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

// A row's scalar code, on vectors: operands by name, attributes as literals; operators that C++ leaves
// undefined at some integers, and conversions between types that share a vector, by the prelude's functions.
std::string ItemText::pointwise(const Item& item) const {
  const Node& node = *item.node;
  const Op& row = op_row(node.op);
  LS_CHECK(!row.scalar.empty(), "row ", row.id, " has no scalar code");
  std::string code(row.scalar);
  const DType first = items_[item.args[0]].dtype;
  if (is_integer(first))
    for (auto [sign, verb] :
         {std::pair(" / ", "ls_div"), std::pair(" << ", "ls_shl"), std::pair(" >> ", "ls_shr")})
      if (code == str("{0}", sign, "{1}")) code = str(verb, "({0}, {1})");
  for (const auto& [key, value] : node.attrs.items()) replace_all(code, "{" + key + "}", attr_text(value));
  if (size_t at = code.find("ls_convert<"); at != std::string::npos) {
    replace_all(code, "ls_convert<", "ls_to_");
    replace_all(code, ">(", "(");
    if (first == DType::boolean) replace_all(code, "{0}", "({0} & 1)");
  }
  if (size_t at = code.find("ls_bitcast<"); at != std::string::npos) {
    replace_all(code, "ls_bitcast<", "ls_from_bits_");
    replace_all(code, ">(", "(");
    replace_all(code, "{0}", str("ls_bits_", name(first), "({0})"));
  }
  for (size_t i = 0; i < item.args.size(); ++i) replace_all(code, str("{", i, "}"), str("t", item.args[i]));
  bool rounded =
      code.starts_with("ls_to_") || code.starts_with("ls_from_bits_") || code.starts_with("ls_where(");
  if (!rounded && (item.dtype == DType::bf16 || item.dtype == DType::f16))
    code = str("ls_round_", name(item.dtype), "(", code, ")");
  return code;
}

// Sixty-four-bit numbers of the lanes: at + stride * lane, or lane by lane.
std::string ItemText::numbers(const Expr& at, bool varies, int id, std::string& loop) const {
  Lanes lanes = indexer_.lanes(at);
  if (!varies || lanes.regular)
    return str("ls_numbers(", indexer_.text(at, "c"), ", ", varies ? lanes.stride : 0, ")");
  loop = str("vl n", id, " = {}; for (int l = 0; l < LS_W; ++l) n", id,
             "[l] = ", indexer_.text(at, "(c + l)", "l"), ";");
  return str("n", id);
}

std::string ItemText::random(const Item& item, int id, std::string& loop) const {
  const Shape& shape = body_[item.node->outputs[0]].shape;
  int64_t inner = 1;
  for (size_t i = 1; i < shape.size(); ++i) inner *= shape[i];
  Lanes lanes = indexer_.lanes(item.index);
  if (item.varies && lanes.regular && lanes.stride == 1) {
    std::string run = str("ls_random_run(t", item.args[0], "[0], ", item.node->attrs.integer("stream"),
                          "l, t", item.args[1], "[0], (u64)(", indexer_.text(item.index, "c"), " + t",
                          item.args[2], "[0] * ", inner, "l))");
    return item.dtype == DType::f32 ? str("ls_uniform(", run, ")") : run;
  }
  std::string element = numbers(item.index, item.varies, id, loop);
  std::string bits = str("ls_random(t", item.args[0], "[0], ", item.node->attrs.integer("stream"), "l, t",
                         item.args[1], "[0], (vul)(", element, " + t", item.args[2], "[0] * ", inner, "l))");
  return item.dtype == DType::f32 ? str("ls_uniform(", bits, ")") : bits;
}

std::string ItemText::load(const Item& item, int id, bool tail, std::string& loop) const {
  const std::string type(name(item.dtype)), from = str("a", item.input);
  Lanes lanes = indexer_.lanes(item.index);
  if (!item.varies || (lanes.regular && lanes.stride == 0))
    return str("ls_full_", type, "(ls_get_", type, "(", from, ", ", indexer_.text(item.index, "c"), "))");
  if (lanes.regular && lanes.stride == 1) {
    std::string at = indexer_.text(item.index, "c");
    return tail ? str("ls_load_n_", type, "(", from, ", ", at, ", m)")
                : str("ls_load_", type, "(", from, ", ", at, ")");
  }
  loop =
      str(register_type(item.dtype), " g", id, " = {}; for (int l = 0; l < ", tail ? "m" : "LS_W", "; ++l) g",
          id, "[l] = ls_get_", type, "(", from, ", ", indexer_.text(item.index, "(c + l)", "l"), ");");
  return str("g", id);
}

std::string ItemText::select(const Item& item, int id, std::string& loop) const {
  std::string scalar, mask;
  for (const Guard& guard : item.guards) {
    Lanes lanes = indexer_.lanes(guard.at);
    std::string at = indexer_.text(guard.at, "c");
    bool whole = !indexer_.varies_with_column(guard.at) || (lanes.regular && lanes.stride == 0) ||
                 (lanes.regular && lanes.stride == 1 && lanes.multiple % Indexer::kLanes == 0 &&
                  guard.lo % Indexer::kLanes == 0 && guard.hi % Indexer::kLanes == 0);
    if (whole) {
      scalar += str(scalar.empty() ? "" : " && ", "(", at, ") >= ", guard.lo, " && (", at, ") < ", guard.hi);
    } else if (lanes.regular) {
      mask += str(mask.empty() ? "" : " & ", "ls_within(", at, ", ", lanes.stride, ", ", guard.lo, ", ",
                  guard.hi, ")");
    } else {
      std::string lane = indexer_.text(guard.at, "(c + l)", "l"),
                  name = str("w", id, "_", &guard - item.guards.data());
      loop += str("vi ", name, "; for (int l = 0; l < LS_W; ++l) { i64 i = ", lane, "; ", name,
                  "[l] = -(i >= ", guard.lo, " && i < ", guard.hi, "); } ");
      mask += str(mask.empty() ? "" : " & ", name);
    }
  }
  std::string inside = str("t", item.args[0]), outside = str("t", item.args[1]);
  if (!mask.empty()) inside = str("ls_where(", mask, ", ", inside, ", ", outside, ")");
  return scalar.empty() ? inside : str("(", scalar, ") ? ", inside, " : ", outside);
}

void ItemText::write(Text& text, int id, bool tail) const {
  const Item& item = items_[id];
  std::string loop, code;
  switch (item.kind) {
    case ItemKind::load:
      code = load(item, id, tail, loop);
      break;
    case ItemKind::constant:
      code = full(item.dtype, item.value);
      break;
    case ItemKind::iota:
      if (Lanes lanes = indexer_.lanes(item.index);
          item.dtype == DType::i32 && item.varies && lanes.regular &&
          indexer_.high(item.index) <= std::numeric_limits<int32_t>::max())
        code = str("(i32)(", indexer_.text(item.index, "c"), ") + LS_LANE * ", lanes.stride);
      else
        code = str("ls_to_", name(item.dtype), "(", numbers(item.index, item.varies, id, loop), ")");
      break;
    case ItemKind::random:
      code = random(item, id, loop);
      break;
    case ItemKind::pointwise:
      code = pointwise(item);
      break;
    case ItemKind::select:
      code = select(item, id, loop);
      break;
    case ItemKind::row_number:
      code = str("ls_clamp_rows(ls_to_i32(t", item.args[0], "), ", item.bound, ")");
      break;
    case ItemKind::row_result:
    case ItemKind::column_result:
      code = str("q", item.reduction);
      break;
  }
  if (!loop.empty()) text.line(loop);
  text.line(str("const ", register_type(item.dtype), " t", id, " = ", code, ";"));
  if (item.kind == ItemKind::row_number && !item.varies)
    text.line(str("const i64 t", id, "_index = t", id, "[0];"));
}

std::vector<int> ItemText::closure(const std::vector<int>& roots, const std::set<int>& known) const {
  std::set<int> out;
  std::vector<int> open = roots;
  while (!open.empty()) {
    int id = open.back();
    open.pop_back();
    if (known.count(id) || !out.insert(id).second) continue;
    const Item& item = items_[id];
    open.insert(open.end(), item.args.begin(), item.args.end());
    for (int inner : indexer_.items(item.index)) open.push_back(inner);
    for (const Guard& guard : item.guards)
      for (int inner : indexer_.items(guard.at)) open.push_back(inner);
  }
  return {out.begin(), out.end()};
}

}  // namespace lockstep::cpu
