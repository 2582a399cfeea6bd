// Items of a plan as statements of CUDA C++: once per row, once per chunk of neighbouring columns, or element
// by element.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/cpu/text.h"
#include "compiler/codegen/loops/plan.h"

namespace lockstep::cuda {

// Names: inputs a0, a1, ...; outputs o0, ...; the row r; the first column of a chunk c0; a column c; its
// number in the chunk j. An item is t<id>; a chunk as loaded is x<id>, its random words are n<id>, a chunk to
// be stored is y<output>.
class Statements {
 public:
  // `number` is the integer type of indices ("int", "long").
  Statements(const Graph& body, const std::vector<cpu::Item>& items, const cpu::Indexer& indexer,
             std::string number, int width)
      : body_(body),
        items_(items),
        indexer_(indexer),
        closure_(body, items, indexer),
        number_(std::move(number)),
        width_(width) {}

  const cpu::Item& item(int id) const { return items_[id]; }
  // The items that these need, themselves included, ascending; nothing behind an item in `known`.
  std::vector<int> closure(const std::vector<int>& roots, const std::set<int>& known = {}) const {
    return closure_.closure(roots, known);
  }

  void row(cpu::Text& text, int id) const;  // an item that does not vary over the columns

  // What stands before the loop over a chunk's elements: loads of whole chunks and random words. `loaded`:
  // x<id> is there already, under this name.
  void before_elements(cpu::Text& text, const std::vector<int>& ids) const;
  bool loads_chunk(int id) const;        // a load of a whole chunk at once
  bool reads_row(int id) const;          // its index has the row in it
  std::string chunk_type(int id) const;  // "ls_raw<2, 8>"
  std::string chunk_load(int id) const;  // the expression that loads it
  void rename_chunk(int id,
                    const std::string& name);  // where x<id> is something else, an element of an array
  void forget_names() { names_.clear(); }
  void assume_false(std::set<int> ids) { false_ = std::move(ids); }  // items that are written as false
  // The statements inside the loop, at element j and column c.
  void element(cpu::Text& text, int id) const;

  std::string at(const cpu::Expr& index, const std::string& column) const {
    return indexer_.scalar_text(index, column, number_);
  }
  int width() const { return width_; }

 private:
  enum class Place { row, chunk, same, words, element };  // same: one load for the whole chunk
  Place place(int id) const;
  std::string pointwise(const cpu::Item& item) const;
  std::string random(const cpu::Item& item, const std::string& column) const;
  std::string value(int id, const std::string& column) const;
  void declare(cpu::Text& text, int id, const std::string& code) const;

  const Graph& body_;
  const std::vector<cpu::Item>& items_;
  const cpu::Indexer& indexer_;
  cpu::ItemText closure_;
  std::string number_;
  int width_;
  std::map<int, std::string> names_;
  std::set<int> false_;
};

std::string literal(DType dtype, double value);  // an expression of the register type

}  // namespace lockstep::cuda
