// Items of a plan as statements of CUDA C++: once per row, once per chunk of neighbouring columns, or element
// by element.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/loops/dialect.h"
#include "compiler/codegen/statements/statements.h"

namespace lockstep::compiler::cuda {

// Names in addition to the shared ones: c0 is the first column of a chunk, c a column, j its position in the
// chunk. A loaded chunk is x<id>, its random words are n<id>, a chunk to store is y<output>.
class ChunkStatements : public codegen::Statements {
 public:
  ChunkStatements(const Graph& body, const std::vector<codegen::Item>& items, const codegen::Indexer& indexer,
                  const CudaDialect& dialect, int width)
      : Statements(body, items, indexer, dialect), dialect_(dialect), width_(width) {}

  void row(codegen::Text& text, int id) const { write(text, id, "0"); }  // an item that does not vary

  // The statements before the loop over a chunk's elements: loads of whole chunks and random words. `loaded`:
  // x<id> already exists under this name.
  void before_elements(codegen::Text& text, const std::vector<int>& ids) const;
  bool loads_chunk(int id) const;        // a load of a whole chunk at once
  bool reads_row(int id) const;          // its index depends on the row
  bool known_ahead(int id) const;        // its index reads no item
  std::string chunk_type(int id) const;  // "ls_raw<2, 8>"
  std::string chunk_load(int id) const;  // the expression that loads it
  // Names another expression, such as an array element, that replaces x<id>.
  void rename_chunk(int id, const std::string& name);
  void forget_names() { names_.clear(); }
  void assume_false(std::set<int> ids) { false_ = std::move(ids); }  // these items are written as false
  // The statements inside the loop, at element j and column c.
  void element(codegen::Text& text, int id) const;

  int width() const { return width_; }

 private:
  enum class Place { row, chunk, same, words, element };  // same: one load for the whole chunk
  Place place(int id) const;

  const CudaDialect& dialect_;
  int width_;
  std::map<int, std::string> names_;
  std::set<int> false_;
};

}  // namespace lockstep::compiler::cuda
