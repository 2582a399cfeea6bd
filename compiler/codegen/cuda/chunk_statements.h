// Items of a plan as statements of CUDA C++: once per row, once per chunk of neighbouring columns, or element
// by element.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/dialect.h"
#include "compiler/codegen/statements/statements.h"

namespace lockstep::compiler::cuda {

// Names beside the shared ones: the first column of a chunk c0; a column c; its number in the chunk j. A
// chunk as loaded is x<id>, its random words are n<id>, a chunk to be stored is y<output>.
class ChunkStatements : public codegen::Statements {
 public:
  ChunkStatements(const Graph& body, const std::vector<codegen::Item>& items, const codegen::Indexer& indexer,
                  const CudaDialect& dialect, int width)
      : Statements(body, items, indexer, dialect), dialect_(dialect), width_(width) {}

  void row(codegen::Text& text, int id) const { write(text, id, "0"); }  // an item that does not vary

  // What stands before the loop over a chunk's elements: loads of whole chunks and random words. `loaded`:
  // x<id> is there already, under this name.
  void before_elements(codegen::Text& text, const std::vector<int>& ids) const;
  bool loads_chunk(int id) const;        // a load of a whole chunk at once
  bool reads_row(int id) const;          // its index has the row in it
  bool known_ahead(int id) const;        // its index reads no item
  std::string chunk_type(int id) const;  // "ls_raw<2, 8>"
  std::string chunk_load(int id) const;  // the expression that loads it
  void rename_chunk(int id,
                    const std::string& name);  // where x<id> is something else, an element of an array
  void forget_names() { names_.clear(); }
  void assume_false(std::set<int> ids) { false_ = std::move(ids); }  // items that are written as false
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
