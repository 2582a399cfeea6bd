// Copies rows into shared memory while earlier rows are computed; each thread copies the chunks that it will
// read itself.
#include "compiler/codegen/cuda/loops/nest.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

void Nest::plan_stage(const ChunkStatements& statements, const std::vector<int>& ids, int threads, int steps,
                      int most, int64_t budget) {
  staged_threads_ = threads, staged_steps_ = steps, depth_ = 0;
  int64_t bytes = 0;
  auto bytes_of = [&](int id) {
    return static_cast<int64_t>(size_of(statements.item(id).dtype)) * statements.width() * threads * steps;
  };
  std::vector<int> chosen;
  for (int id : ids) {
    const codegen::Item& item = statements.item(id);
    if (!item.varies || item.stage > 0 || !statements.loads_chunk(id) || !statements.reads_row(id)) continue;
    if (size_of(item.dtype) * static_cast<size_t>(statements.width()) < 4 || !statements.known_ahead(id))
      continue;
    if (bytes + bytes_of(id) > budget) continue;
    bytes += bytes_of(id);
    chosen.push_back(id);
  }
  if (chosen.empty()) return;
  depth_ = static_cast<int>(std::min<int64_t>(most, budget / bytes));
  int64_t at = 0;
  for (int id : chosen) {
    staged_[id] = at;
    at += (bytes_of(id) * depth_ + 15) / 16 * 16;
  }
  staged_bytes_ = static_cast<int>(at);
}

std::string Nest::staged_type(int id) const {
  return str("ls_stage<", size_of(plan_.items[id].dtype), ", ", form_.width, ", ", staged_threads_, ">");
}

std::string Nest::staged_place(int id, const std::string& step) const {
  const auto bytes = static_cast<int64_t>(size_of(plan_.items[id].dtype)) * form_.width * staged_threads_;
  return str("ls_rows + ", staged_.at(id), " + (slot * ", staged_steps_, " + ", step, ") * ", bytes);
}

void Nest::take_chunks(ChunkStatements& statements, const std::vector<int>& ids, const std::string& step) {
  for (int id : ids)
    if (staged(id))
      text_.line(str("const ", statements.chunk_type(id), " x", id, " = ", staged_type(id), "::get(",
                     staged_place(id, step), ");"));
}

void Nest::fetch_chunks(const ChunkStatements& statements) {
  text_.open("if (next < limit) {");
  text_.line(str("const ", number_, " r = next; (void)r;"));
  for (const auto& [id, from] : staged_) {
    const codegen::Item& item = statements.item(id);
    text_.line(str(staged_type(id), "::fetch(", staged_place(id, "k"), ", a", item.input, ", ",
                   statements.at(item.index, "c0"), ");"));
  }
  text_.close();
}

void Nest::fetch_first(const ChunkStatements& statements, const std::string& first, const std::string& stride,
                       bool tile) {
  text_.line("int slot = 0;");
  text_.line("#pragma unroll 1");
  text_.open(str("for (; slot < ", depth_, "; ++slot) {"));
  text_.line(str("const ", number_, " next = ", first, " + slot * ", stride, ";"));
  text_.open(str("for (int k = 0; k < ", staged_steps_, "; ++k) {"));
  const bool partial = !tile && form_.chunks % form_.lanes != 0;
  if (!tile)
    text_.line(
        str("const ", number_, " q = lane + k * ", form_.lanes, ", c0 = q * ", form_.width, "; (void)c0;"));
  if (partial) text_.open(str("if (q < ", form_.chunks, ") {"));
  fetch_chunks(statements);
  if (partial) text_.close();
  text_.close();
  text_.line("ls_commit();");
  text_.close();
  text_.line("slot = 0;");
}

}  // namespace lockstep::compiler::cuda
