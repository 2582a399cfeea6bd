// Values of items, and neutral elements.
#include "compiler/codegen/statements/statements.h"

#include <limits>
#include <map>

#include "core/base/error.h"

namespace lockstep::compiler::codegen {

namespace {
// An attribute in the scalar code of a row: for integers, a number that is exact in their dtype.
std::string attr_text(const Attr& attr, DType from, const Dialect& dialect) {
  if (auto* v = std::get_if<DType>(&attr)) return std::string(name(*v));
  if (auto* v = std::get_if<double>(&attr)) return dialect.literal(is_integer(from) ? from : DType::f64, *v);
  if (auto* v = std::get_if<int64_t>(&attr)) return dialect.literal(is_integer(from) ? from : DType::f64, *v);
  if (auto* v = std::get_if<bool>(&attr)) return *v ? "1" : "0";
  return "";
}

// An attribute in the scalar code of a registered op: a number of the dtype of operand 0's computation.
std::string own_number(const Attr& attr, DType from, const Dialect& dialect) {
  Number number;
  if (auto* v = std::get_if<double>(&attr)) number = *v;
  if (auto* v = std::get_if<int64_t>(&attr)) number = *v;
  if (auto* v = std::get_if<bool>(&attr)) number = *v;
  return dialect.literal(from == DType::bf16 || from == DType::f16 ? DType::f32 : from, number);
}

// The prelude function that handles every integer, for an operator that does not; "" for other verbs.
std::string_view function_of(ScalarVerb verb) {
  static const std::map<ScalarVerb, std::string_view> functions{
      {ScalarVerb::neg, "ls_neg({0})"},      {ScalarVerb::add, "ls_add({0}, {1})"},
      {ScalarVerb::sub, "ls_sub({0}, {1})"}, {ScalarVerb::mul, "ls_mul({0}, {1})"},
      {ScalarVerb::div, "ls_div({0}, {1})"}, {ScalarVerb::shl, "ls_shl({0}, {1})"},
      {ScalarVerb::shr, "ls_shr({0}, {1})"}};
  auto found = functions.find(verb);
  return found == functions.end() ? std::string_view{} : found->second;
}
}  // namespace

std::vector<int> Statements::closure(const std::vector<int>& roots, const std::set<int>& known) const {
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

void Statements::write(Text& text, int id, const std::string& column, bool tail) const {
  declare(text, id, value(site(id, column, tail)));
}

void Statements::declare(Text& text, int id, const Code& code) const {
  if (!code.before.empty()) text.line(code.before);
  text.line(str("const ", dialect_.type(items_[id].dtype), " t", id, " = ", code.value, ";"));
  if (!code.after.empty()) text.line(code.after);
}

std::string Statements::at(const Expr& index, const std::string& column) const {
  return indexer_.text(index, dialect_.index_words(column));
}

Code Statements::value(const Site& site) const {
  const Item& item = site.item;
  switch (item.kind) {
    case ItemKind::load:
      return dialect_.load(site);
    case ItemKind::constant:
      return {dialect_.constant(item.dtype, item.value)};
    case ItemKind::iota:
      return dialect_.iota(site);
    case ItemKind::random: {
      Code bits = dialect_.random_bits(site);
      if (item.dtype == DType::f32) bits.value = str("ls_uniform(", bits.value, ")");
      return bits;
    }
    case ItemKind::pointwise:
      return {pointwise(item)};
    case ItemKind::select:
      return select(site);
    case ItemKind::row_number:
      return dialect_.row_number(site);
    case ItemKind::row_result:
    case ItemKind::column_result:
      return {str("q", item.reduction)};
  }
  throw InternalError("unknown kind of item");
}

// Verbs that only change the dtype, or select one of their operands, are exact in the operand's dtype.
std::string Statements::pointwise(const Item& item) const {
  const ScalarVerb verb = op_row(item.node->op).scalar.verb;
  const bool exact = verb == ScalarVerb::convert || verb == ScalarVerb::bitcast || verb == ScalarVerb::select;
  return exact ? call(item) : rounded(item.dtype, call(item));
}

// A row's scalar code with its operands and attributes inserted.
std::string Statements::call(const Item& item) const {
  const Op& row = op_row(item.node->op);
  const ScalarVerb verb = row.scalar.verb;
  LS_CHECK(!row.scalar.text.empty(), "row ", row.id, " has no scalar code");
  const DType from = items_[item.args[0]].dtype;
  if (verb == ScalarVerb::div && items_[item.args[1]].kind == ItemKind::constant)
    if (const std::string cheaper =
            dialect_.divided(from, str("t", item.args[0]), items_[item.args[1]].value.real());
        !cheaper.empty())
      return cheaper;
  std::string_view code = row.scalar.text;
  if (std::string_view function = function_of(verb);
      is_integer(from) && !function.empty() && dialect_.undefined_for_integers(verb))
    code = function;
  auto meaning = [&](std::string_view word) {
    if (word == "from") return std::string(name(from));
    for (const auto& [key, value] : item.node->attrs.items())
      if (key == word) return row.own ? own_number(value, from, dialect_) : attr_text(value, from, dialect_);
    LS_CHECK(word.size() == 1 && word[0] >= '0' && word[0] <= '9', "the scalar code of row ", row.id,
             " names {", word, "}, which is neither an operand nor an attribute");
    const std::string operand = str("t", item.args.at(word[0] - '0'));
    return verb == ScalarVerb::convert && from == DType::boolean ? dialect_.as_number(operand) : operand;
  };
  std::string out;
  for (size_t open = code.find('{'); open != std::string_view::npos; open = code.find('{')) {
    const size_t close = code.find('}', open);
    out += code.substr(0, open);
    out += meaning(code.substr(open + 1, close - open - 1));
    code.remove_prefix(close + 1);
  }
  return out.append(code);
}

Code Statements::select(const Site& site) const {
  std::string whole, mask, before;
  auto also = [](std::string& all, const char* sign, const std::string& one) {
    if (!one.empty()) all += str(all.empty() ? "" : sign, one);
  };
  for (size_t i = 0; i < site.item.guards.size(); ++i) {
    const Condition one = dialect_.holds(site, site.item.guards[i], i);
    also(whole, " && ", one.whole);
    also(mask, " & ", one.mask);
    before += one.before;
  }
  std::string inside = str("t", site.item.args[0]), outside = str("t", site.item.args[1]);
  if (!mask.empty()) inside = str("ls_where(", mask, ", ", inside, ", ", outside, ")");
  return {whole.empty() ? inside : str("(", whole, ") ? ", inside, " : ", outside), before};
}

std::string Folding::neutral(const Reduction& reduction) const {
  const DType type = dtype(reduction), held = accumulator(type);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (fold(reduction)) {
    case FoldOp::sum:
      return dialect_.constant(held, 0);
    case FoldOp::prod:
      return dialect_.constant(held, 1);
    case FoldOp::max:
      return is_float(type) ? dialect_.constant(held, -kInfinity) : dialect_.least_integer(type);
    case FoldOp::min: {
      if (is_float(type)) return dialect_.constant(held, kInfinity);
      const bool is_signed = type == DType::i32 || type == DType::i64;
      return dialect_.full(type, str("(", name(type), ")",
                                     is_signed ? str("((1ul << ", 8 * size_of(type) - 1, ") - 1)") : "~0ul"));
    }
    case FoldOp::any:
      return dialect_.neutral_mask(false);
    case FoldOp::all:
      return dialect_.neutral_mask(true);
  }
  throw InternalError("unknown fold");
}

}  // namespace lockstep::compiler::codegen
