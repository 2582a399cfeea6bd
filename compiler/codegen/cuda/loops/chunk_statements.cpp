// Places items of a chunk (per row, chunk or element), and loads whole chunks.
#include "compiler/codegen/cuda/loops/chunk_statements.h"

namespace lockstep::compiler::cuda {

using codegen::Item;
using codegen::ItemKind;
using codegen::Lanes;

ChunkStatements::Place ChunkStatements::place(int id) const {
  const Item& own = item(id);
  if (!own.varies) return Place::row;
  if (own.kind != ItemKind::load && own.kind != ItemKind::random) return Place::element;
  const Lanes lanes = indexer().lanes(own.index);
  if (!lanes.regular) return Place::element;
  if (own.kind == ItemKind::random) {
    for (int arg : own.args)
      if (item(arg).varies) return Place::element;
    return lanes.stride == 1 ? Place::words : Place::element;
  }
  if (lanes.stride == 0) return Place::same;
  return lanes.stride == 1 && lanes.multiple % width_ == 0 ? Place::chunk : Place::element;
}

bool ChunkStatements::loads_chunk(int id) const { return place(id) == Place::chunk; }
bool ChunkStatements::reads_row(int id) const { return indexer().adds_row(item(id).index); }
bool ChunkStatements::known_ahead(int id) const { return indexer().items(item(id).index).empty(); }
std::string ChunkStatements::chunk_type(int id) const {
  return str("ls_raw<", size_of(item(id).dtype), ", ", width_, ">");
}
std::string ChunkStatements::chunk_load(int id) const {
  return str(chunk_type(id), "::load(a", item(id).input, ", ", at(item(id).index, "c0"), ")");
}
void ChunkStatements::rename_chunk(int id, const std::string& name) { names_[id] = name; }

void ChunkStatements::before_elements(codegen::Text& text, const std::vector<int>& ids) const {
  for (int id : ids) {
    switch (place(id)) {
      case Place::chunk:
        if (!names_.count(id)) text.line(str("const ", chunk_type(id), " x", id, " = ", chunk_load(id), ";"));
        break;
      case Place::same:
        write(text, id, "c0");
        break;
      case Place::words:
        text.line(str("u32 n", id, "[", width_, "]; ls_random_run<", width_, ">(n", id, ", ",
                      dialect_.random_words(site(id, "c0")), ");"));
        break;
      case Place::row:
      case Place::element:
        break;
    }
  }
}

void ChunkStatements::element(codegen::Text& text, int id) const {
  const Item& own = item(id);
  if (false_.count(id)) return declare(text, id, {"false"});
  switch (place(id)) {
    case Place::row:
    case Place::same:
      break;
    case Place::chunk: {
      auto renamed = names_.find(id);
      declare(text, id,
              {str("ls_from_", name(own.dtype), "(", renamed == names_.end() ? str("x", id) : renamed->second,
                   ".get(j))")});
      break;
    }
    case Place::words:
      declare(text, id, {own.dtype == DType::f32 ? str("ls_uniform(n", id, "[j])") : str("n", id, "[j]")});
      break;
    case Place::element:
      write(text, id);
      break;
  }
}

}  // namespace lockstep::compiler::cuda
