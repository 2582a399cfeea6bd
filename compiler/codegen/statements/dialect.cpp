// Numbers as text, and values of one element.
#include "compiler/codegen/statements/dialect.h"

#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace lockstep::compiler::codegen {

FoldOp fold_of(const Node& reduction, DType dtype) {
  const OpId op = reduction.op;
  if (dtype == DType::boolean) return op == ops::prod || op == ops::min ? FoldOp::all : FoldOp::any;
  if (op == ops::sum) return FoldOp::sum;
  if (op == ops::prod) return FoldOp::prod;
  LS_CHECK(op == ops::max || op == ops::min, op, " folds nothing");
  return op == ops::max ? FoldOp::max : FoldOp::min;
}

DType accumulator(DType dtype) {
  if (dtype == DType::bf16 || dtype == DType::f16) return DType::f32;
  return dtype == DType::boolean ? DType::i32 : dtype;
}

std::string rounded(DType dtype, const std::string& value) {
  return dtype == DType::bf16 || dtype == DType::f16 ? str("ls_round_", name(dtype), "(", value, ")") : value;
}

std::string Dialect::literal(DType dtype, const Number& value) const {
  if (dtype == DType::boolean) return truth(value.bits() != 0);
  if (is_float(dtype)) {
    char bytes[8];
    set_double(dtype, bytes, 0, value.real(dtype));
    const bool wide = dtype == DType::f64;
    const double stored = get_double(dtype, bytes, 0);
    if (std::isnan(stored)) return not_a_number(wide);
    if (std::isinf(stored)) return str(stored < 0 ? "-" : "", infinity(wide));
    std::string digits = wide ? number_text(stored) : number_text(static_cast<float>(stored));
    if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
    return digits + (wide ? "" : "f");
  }
  const int64_t number = value.bits();
  if (dtype == DType::i64 && number == std::numeric_limits<int64_t>::min()) return "(i64)(1ul << 63)";
  return dtype == DType::u64 ? str(static_cast<uint64_t>(number), "ul")
                             : str("(", name(dtype), ")", number, "l");
}

std::string Dialect::least_integer(DType dtype) const {
  const bool is_signed = dtype == DType::i32 || dtype == DType::i64;
  return full(dtype,
              str("(", name(dtype), ")", is_signed ? str("(1ul << ", 8 * size_of(dtype) - 1, ")") : "0"));
}

std::string Dialect::index(const Site& site) const {
  return site.indexer.text(site.item.index, index_words(site.column));
}

int64_t Dialect::elements_of_sample(const Site& site) {
  const Shape& shape = site.body[site.item.node->outputs[0]].shape;
  int64_t out = 1;
  for (size_t i = 1; i < shape.size(); ++i) out *= shape[i];
  return out;
}

std::string Dialect::random_arguments(const Site& site) const {
  const auto& args = site.item.args;
  return str("t", args[0], ", ", site.item.node->attrs.integer("stream"), "l, t", args[1], ", (u64)(",
             index(site), ") + (u64)t", args[2], " * ", elements_of_sample(site), "ul");
}

Code Dialect::load(const Site& site) const {
  return {str("ls_get_", name(site.item.dtype), "(a", site.item.input, ", ", index(site), ")")};
}
Code Dialect::iota(const Site& site) const {
  return {str("ls_to_", name(site.item.dtype), "((i64)(", index(site), "))")};
}
Code Dialect::random_bits(const Site& site) const { return {str("ls_random(", random_arguments(site), ")")}; }
Code Dialect::row_number(const Site& site) const {
  return {str("ls_clamp_rows(ls_to_i32(t", site.item.args[0], "), ", site.item.bound, ")")};
}
Condition Dialect::holds(const Site& site, const Guard& guard, size_t) const {
  const std::string at = site.indexer.text(guard.at, index_words(site.column));
  return {str("(", at, ") >= ", guard.lo, " && (", at, ") < ", guard.hi), ""};
}

}  // namespace lockstep::compiler::codegen
