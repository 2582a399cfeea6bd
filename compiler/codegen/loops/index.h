// Index expressions of generated loops: integer sums over the row r, the column c, and their divisions,
// remainders and guards. Two expressions are equal if their canonical forms are equal; fusion calls this an
// exact index match.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/types/shape.h"

namespace lockstep::compiler::codegen {

// A sum of coefficient * atom, and a constant. Atoms are ids of the Indexer that made them. All values are >=
// 0 except inside a guard.
struct Expr {
  std::map<int, int64_t> terms;
  int64_t constant = 0;
  auto operator<=>(const Expr&) const = default;
  bool is_constant() const { return terms.empty(); }
};

using Index = std::vector<Expr>;  // one per tensor dim

// How an expression varies over the lanes of one vector: value(lane) = value(0) + stride * lane, or
// irregular.
struct Lanes {
  bool regular = true;
  int64_t stride = 0;
  int64_t multiple = 0;  // value(0) is a multiple of this (0: it is 0)
};

// The words of a language for the parts of an index.
struct IndexWords {
  std::string column;                                    // the name of c
  std::string number, natural;                           // integer types: of an index, and of divisions
  std::string guard;                                     // the function that guards
  std::function<std::string(int id, bool varies)> item;  // the number that an item has
};

class Indexer {
 public:
  static constexpr int kLanes = 16;  // columns start at multiples of this

  // r in [0, rows), c in [0, columns); a range of one element is the constant 0.
  Indexer(int64_t rows, int64_t columns);

  Expr row() const { return row_; }
  Expr column() const { return column_; }
  static Expr constant(int64_t value) { return {{}, value}; }
  Expr add(const Expr& a, const Expr& b);
  Expr scale(const Expr& a, int64_t factor);
  Expr shift(const Expr& a, int64_t by);
  Expr divide(const Expr& a, int64_t n);              // floor(a / n), n > 0
  Expr remainder(const Expr& a, int64_t n);           // a % n, n > 0
  Expr guard(const Expr& a, int64_t lo, int64_t hi);  // a - lo where lo <= a < hi, else 0
  // The element number in an evaluated item, in [0, rows). `varies`: whether it varies over columns.
  Expr item(int id, int64_t rows, bool varies);

  Expr flatten(const Index& index, const Shape& shape);
  Index unflatten(const Expr& flat, const Shape& shape);

  Lanes lanes(const Expr& a) const;
  bool varies_with_column(const Expr& a) const;
  bool varies_with_row(const Expr& a) const;  // false if it reads an item
  // Whether a division, remainder or guard contains c: that costs a few instructions per vector.
  bool divides_column(const Expr& a) const;
  std::vector<int> items(const Expr& a) const;  // ids of the items it reads
  int64_t low(const Expr& a) const;             // bounds, inclusive
  int64_t high(const Expr& a) const;
  // Whether the row is a summand of it, or of an expression inside it. A row that is the only term of a
  // division or remainder does not count: rows repeat there.
  bool adds_row(const Expr& a) const;
  std::string text(const Expr& a, const IndexWords& words) const;
  // The largest magnitude of the expression and of all expressions inside it.
  int64_t extent(const Expr& a) const;

 private:
  enum class Kind { row, column, divide, remainder, guard, item };
  struct Atom {
    Kind kind;
    Expr inside;
    int64_t n = 0, m = 0;
    int item = -1;
    bool varies = false;
    int64_t low = 0, high = 0;
    auto key() const { return std::tie(kind, inside, n, m, item); }
  };
  struct Separated {
    Expr big, small;
    int64_t factor = 1;
  };
  Separated separated(const Expr& a, int64_t n) const;
  Expr intern(Atom atom);
  Expr recombined(Expr a);

  std::vector<Atom> atoms_;
  Expr row_, column_;
};

}  // namespace lockstep::compiler::codegen
