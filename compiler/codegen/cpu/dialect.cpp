// Vector values of LS_W elements: contiguous loads, or loads of single elements in a loop before the
// statement.
#include "compiler/codegen/cpu/dialect.h"

#include <limits>

#include "compiler/codegen/cpu/prelude.h"

namespace lockstep::compiler::cpu {

using codegen::Code;
using codegen::Condition;
using codegen::Expr;
using codegen::FoldOp;
using codegen::Guard;
using codegen::Indexer;
using codegen::IndexWords;
using codegen::Lanes;
using codegen::Site;

namespace {

class VectorDialect : public codegen::Dialect {
 public:
  std::string_view type(DType dtype) const override { return register_type(dtype); }
  IndexWords index_words(const std::string& column) const override { return words(column, "0"); }
  std::string truth(bool value) const override { return value ? "-1" : "0"; }
  std::string infinity(bool wide) const override { return wide ? "__builtin_inf()" : "__builtin_inff()"; }
  std::string not_a_number(bool wide) const override {
    return wide ? "__builtin_nan(\"\")" : "__builtin_nanf(\"\")";
  }
  std::string full(DType dtype, const std::string& element) const override {
    return str("ls_full_", name(dtype), "(", element, ")");
  }
  // Sums and products wrap: compile_flags().
  bool undefined_for_integers(ScalarVerb verb) const override {
    return verb == ScalarVerb::div || verb == ScalarVerb::shl || verb == ScalarVerb::shr;
  }
  std::string as_number(const std::string& mask) const override { return str("(", mask, " & 1)"); }

  Code load(const Site& site) const override;
  Code iota(const Site& site) const override;
  Code random_bits(const Site& site) const override;
  Code row_number(const Site& site) const override;
  Condition holds(const Site& site, const Guard& guard, size_t number) const override;

  std::string neutral_mask(bool value) const override { return constant(DType::i32, value ? -1 : 0); }
  std::string least_integer(DType dtype) const override {
    return dtype == DType::i32 || dtype == DType::i64 ? Dialect::least_integer(dtype) : full(dtype, "0");
  }
  std::string combined(FoldOp fold, const std::string& a, const std::string& b) const override;

 private:
  // Items that vary over the columns are vectors; the index names one of their lanes.
  static IndexWords words(const std::string& column, const std::string& lane) {
    return {column, "i64", "u64", "ls_guard", [lane](int id, bool varies) {
              return varies ? str("(i64)t", id, "[", lane, "]") : str("t", id, "_index");
            }};
  }
  std::string at(const Site& site, const Expr& expr) const {
    return site.indexer.text(expr, words(site.column, "0"));
  }
  std::string at_lane(const Site& site, const Expr& expr) const {
    return site.indexer.text(expr, words(str("(", site.column, " + l)"), "l"));
  }
  Code numbers(const Site& site) const;
};

Code VectorDialect::load(const Site& site) const {
  const std::string type(name(site.item.dtype)), from = str("a", site.item.input);
  const Lanes lanes = site.indexer.lanes(site.item.index);
  const std::string index = at(site, site.item.index);
  if (!site.item.varies || (lanes.regular && lanes.stride == 0))
    return {full(site.item.dtype, str("ls_get_", type, "(", from, ", ", index, ")"))};
  if (lanes.regular && lanes.stride == 1)
    return {site.tail ? str("ls_load_n_", type, "(", from, ", ", index, ", m)")
                      : str("ls_load_", type, "(", from, ", ", index, ")")};
  const std::string gathered = str("g", site.id);
  return {gathered, str(register_type(site.item.dtype), " ", gathered, " = {}; for (int l = 0; l < ",
                        site.tail ? "m" : "LS_W", "; ++l) ", gathered, "[l] = ls_get_", type, "(", from, ", ",
                        at_lane(site, site.item.index), ");")};
}

// The item's index at each element, in 64 bits.
Code VectorDialect::numbers(const Site& site) const {
  const Lanes lanes = site.indexer.lanes(site.item.index);
  if (!site.item.varies || lanes.regular)
    return {str("ls_numbers(", at(site, site.item.index), ", ", site.item.varies ? lanes.stride : 0, ")")};
  const std::string counted = str("n", site.id);
  return {counted, str("vl ", counted, " = {}; for (int l = 0; l < LS_W; ++l) ", counted,
                       "[l] = ", at_lane(site, site.item.index), ";")};
}

Code VectorDialect::iota(const Site& site) const {
  const Lanes lanes = site.indexer.lanes(site.item.index);
  if (site.item.dtype == DType::i32 && site.item.varies && lanes.regular &&
      site.indexer.high(site.item.index) <= std::numeric_limits<int32_t>::max())
    return {str("(i32)(", at(site, site.item.index), ") + LS_LANE * ", lanes.stride)};
  Code out = numbers(site);
  out.value = str("ls_to_", name(site.item.dtype), "(", out.value, ")");
  return out;
}

// Neighbouring elements share their blocks of random words.
Code VectorDialect::random_bits(const Site& site) const {
  const auto& args = site.item.args;
  auto call = [&](const char* function, const char* type, const std::string& element) {
    return str(function, "(t", args[0], "[0], ", site.item.node->attrs.integer("stream"), "l, t", args[1],
               "[0], (", type, ")(", element, " + t", args[2], "[0] * ", elements_of_sample(site), "l))");
  };
  const Lanes lanes = site.indexer.lanes(site.item.index);
  if (site.item.varies && lanes.regular && lanes.stride == 1)
    return {call("ls_random_run", "u64", at(site, site.item.index))};
  Code out = numbers(site);
  out.value = call("ls_random", "vul", out.value);
  return out;
}

Code VectorDialect::row_number(const Site& site) const {
  Code out = Dialect::row_number(site);
  if (!site.item.varies) out.after = str("const i64 t", site.id, "_index = t", site.id, "[0];");
  return out;
}

// One condition for the whole vector if no vector can cross a bound of the guard.
Condition VectorDialect::holds(const Site& site, const Guard& guard, size_t number) const {
  const Lanes lanes = site.indexer.lanes(guard.at);
  auto aligned = [](int64_t x) { return x % Indexer::kLanes == 0; };
  if (!site.indexer.varies_with_column(guard.at) || (lanes.regular && lanes.stride == 0) ||
      (lanes.regular && lanes.stride == 1 && aligned(lanes.multiple) && aligned(guard.lo) &&
       aligned(guard.hi)))
    return Dialect::holds(site, guard, number);
  if (lanes.regular)
    return {"",
            str("ls_within(", at(site, guard.at), ", ", lanes.stride, ", ", guard.lo, ", ", guard.hi, ")")};
  const std::string mask = str("w", site.id, "_", number);
  return {"", mask,
          str("vi ", mask, "; for (int l = 0; l < LS_W; ++l) { i64 i = ", at_lane(site, guard.at), "; ", mask,
              "[l] = -(i >= ", guard.lo, " && i < ", guard.hi, "); } ")};
}

std::string VectorDialect::combined(FoldOp fold, const std::string& a, const std::string& b) const {
  static constexpr const char* kForms[][3] = {
      {"", " + ", ""}, {"", " * ", ""}, {"ls_maximum(", ", ", ")"}, {"ls_minimum(", ", ", ")"},
      {"", " | ", ""}, {"", " & ", ""}};
  const auto& form = kForms[static_cast<int>(fold)];
  return str(form[0], a, form[1], b, form[2]);
}

}  // namespace

const codegen::Dialect& dialect() {
  static const VectorDialect one;
  return one;
}

}  // namespace lockstep::compiler::cpu
