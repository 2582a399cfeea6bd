// Items of a plan as statements, `const TYPE t3 = ...;`, in any language.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/statements/dialect.h"
#include "compiler/codegen/statements/text.h"

namespace lockstep::compiler::codegen {

class Statements {
 public:
  Statements(const Graph& body, const std::vector<Item>& items, const Indexer& indexer,
             const Dialect& dialect)
      : body_(body), items_(items), indexer_(indexer), dialect_(dialect) {}

  const Item& item(int id) const { return items_[id]; }
  // The items that `roots` need, including themselves, ascending. Stops at items in `known`.
  std::vector<int> closure(const std::vector<int>& roots, const std::set<int>& known = {}) const;

  // The statement of an item, where the column has this name. In a tail, only the first m elements of a value
  // exist.
  void write(Text& text, int id, const std::string& column = "c", bool tail = false) const;
  void declare(Text& text, int id, const Code& code) const;
  std::string at(const Expr& index, const std::string& column = "c") const;

 protected:
  Site site(int id, const std::string& column, bool tail = false) const {
    return {body_, indexer_, items_[id], id, column, tail};
  }
  const Indexer& indexer() const { return indexer_; }

 private:
  Code value(const Site& site) const;
  std::string pointwise(const Item& item) const;
  std::string call(const Item& item) const;
  Code select(const Site& site) const;

  const Graph& body_;
  const std::vector<Item>& items_;
  const Indexer& indexer_;
  const Dialect& dialect_;
};

// The text for reductions: their partial results, and how these are combined.
class Folding {
 public:
  Folding(const Graph& body, const Dialect& dialect) : body_(body), dialect_(dialect) {}
  DType dtype(const Reduction& reduction) const { return body_[reduction.node->inputs[0]].dtype; }
  std::string type(const Reduction& reduction) const { return std::string(dialect_.type(dtype(reduction))); }
  FoldOp fold(const Reduction& reduction) const { return fold_of(*reduction.node, dtype(reduction)); }
  std::string neutral(const Reduction& reduction) const;
  std::string combined(const Reduction& reduction, const std::string& a, const std::string& b) const {
    return dialect_.combined(fold(reduction), a, b);
  }
  std::string rounded(const Reduction& reduction, const std::string& value) const {
    return codegen::rounded(dtype(reduction), value);
  }

 private:
  const Graph& body_;
  const Dialect& dialect_;
};

}  // namespace lockstep::compiler::codegen
