// Kernel text under construction: items as statements, in one scope after another.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/loops/plan.h"

namespace lockstep::cpu {

class Text {
 public:
  void line(const std::string& text);
  void open(const std::string& text);  // "for (...) {"
  void close();
  std::string take() { return std::move(out_); }

 private:
  std::string out_, indent_ = "  ";
};

// Writes items of one list as `const vf t3 = ...;`. Inputs are a0, a1, ...; columns stand in c, rows in r.
class ItemText {
 public:
  ItemText(const Graph& body, const std::vector<Item>& items, const Indexer& indexer)
      : body_(body), items_(items), indexer_(indexer) {}
  // The statement of one item. In a tail only the first m lanes exist.
  void write(Text& text, int id, bool tail) const;
  // The items that these need, themselves included, ascending; nothing behind an item in `known`.
  std::vector<int> closure(const std::vector<int>& roots, const std::set<int>& known) const;

 private:
  std::string load(const Item& item, int id, bool tail, std::string& loop) const;
  std::string pointwise(const Item& item) const;
  std::string random(const Item& item, int id, std::string& loop) const;
  std::string numbers(const Expr& at, bool varies, int id, std::string& loop) const;
  std::string select(const Item& item, int id, std::string& loop) const;

  const Graph& body_;
  const std::vector<Item>& items_;
  const Indexer& indexer_;
};

std::string literal(DType dtype, double value);  // as an argument of ls_full_<dtype>
std::string full(DType dtype, double value);     // "ls_full_f32(0.0f)"
DType accumulator(DType dtype);  // memory type of partial results: f32 for bf16 and f16, i32 for bool

}  // namespace lockstep::cpu
