// The syntax of a target language. Statements are written once, in these terms. In addition to its Dialect, a
// language has loop forms and a prelude, the functions ls_*.
#pragma once

#include <string>
#include <string_view>

#include "compiler/codegen/loops/plan.h"
#include "core/ops/op.h"

namespace lockstep::compiler::codegen {

// An expression, and the statements before and after the statement that contains it.
struct Code {
  std::string value, before = {}, after = {};
};

// An item at the place where it is computed. Inputs are named a0, a1, ..., outputs o0, ..., items t0, ...,
// the row r.
struct Site {
  const Graph& body;
  const Indexer& indexer;
  const Item& item;
  int id;
  std::string column;  // the name of the column
  bool tail = false;   // only the first m elements of a value exist
};

// The condition of a guard: for the whole value, or as a mask of its elements.
struct Condition {
  std::string whole, mask, before = {};
};

// How two partial results of a reduction are combined; for bools, any and all.
enum class FoldOp : uint8_t { sum, prod, max, min, any, all };
FoldOp fold_of(const Node& reduction, DType dtype);
DType accumulator(DType dtype);  // memory type of partial results: f32 for bf16 and f16, i32 for bool

// A value is one element by default; a language with vectors overrides the functions that have a body here.
class Dialect {
 public:
  virtual ~Dialect() = default;

  // Numbers.
  virtual std::string_view type(DType dtype) const = 0;  // of a value
  virtual IndexWords index_words(const std::string& column) const = 0;
  virtual std::string truth(bool value) const = 0;  // an element of a mask
  virtual std::string infinity(bool wide) const = 0;
  virtual std::string not_a_number(bool wide) const = 0;
  // An element, rounded as memory rounds it.
  virtual std::string literal(DType dtype, const Number& value) const;
  // A value whose elements are all equal.
  virtual std::string full(DType, const std::string& element) const { return element; }
  std::string constant(DType dtype, const Number& value) const { return full(dtype, literal(dtype, value)); }

  // Whether the language's own operator is undefined for some integers, so that the prelude's function is
  // called.
  virtual bool undefined_for_integers(ScalarVerb verb) const = 0;
  // An operand divided by a constant, if that is cheaper than the operator; else "".
  virtual std::string divided(DType, const std::string& /*operand*/, double /*by*/) const { return ""; }
  virtual std::string as_number(const std::string& mask) const { return mask; }  // a bool that is converted

  // Values of items.
  virtual Code load(const Site& site) const;
  virtual Code iota(const Site& site) const;
  virtual Code random_bits(const Site& site) const;
  virtual Code row_number(const Site& site) const;
  virtual Condition holds(const Site& site, const Guard& guard, size_t number) const;

  // Partial results: the neutral elements of any and all, the smallest integer, the combination of two.
  virtual std::string neutral_mask(bool value) const { return literal(DType::boolean, value); }
  virtual std::string least_integer(DType dtype) const;
  virtual std::string combined(FoldOp fold, const std::string& a, const std::string& b) const = 0;

 protected:
  std::string index(const Site& site) const;
  // Seed, stream, step and the element's number.
  std::string random_arguments(const Site& site) const;
  static int64_t elements_of_sample(const Site& site);
};

std::string rounded(DType dtype, const std::string& value);  // to bf16 and f16, which compute in f32

}  // namespace lockstep::compiler::codegen
