// Values that depend only on the column. They are computed before the loop over the rows in kernels that keep
// column sums, where each thread has the same columns in every row.
#include "compiler/codegen/cuda/loops/nest.h"

namespace lockstep::compiler::cuda {

using codegen::ItemKind;

namespace {
constexpr int kHoisted = 64;  // registers of a thread for them and for its column sums

int registers(DType dtype) { return static_cast<int>(std::max<size_t>(4, size_of(dtype))) / 4; }
}  // namespace

// One pass suffices, because ids grow from operands to users.
std::vector<bool> Nest::find_columns() const {
  std::vector<bool> out(plan_.items.size());
  for (size_t id = 0; id < out.size(); ++id) {
    const codegen::Item& item = plan_.items[id];
    const bool fixed =
        !plan_.indexer->varies_with_row(item.index) && plan_.indexer->items(item.index).empty();
    if (item.kind == ItemKind::pointwise)
      out[id] = std::all_of(item.args.begin(), item.args.end(), [&](int arg) { return out[arg]; });
    else
      out[id] = item.kind == ItemKind::constant ||
                ((item.kind == ItemKind::load || item.kind == ItemKind::iota) && fixed);
  }
  return out;
}

bool Nest::computes_columns(const ChunkStatements& statements, const std::vector<int>& roots) const {
  const auto ids = statements.closure(roots);
  return plan_.rows > 1 && std::any_of(ids.begin(), ids.end(), [&](int id) {
           const codegen::Item& item = statements.item(id);
           return item.kind == ItemKind::pointwise && item.varies && of_columns_[id];
         });
}

void Nest::hoist_columns(const ChunkStatements& statements, const std::vector<int>& roots, int steps) {
  const int width = statements.width();
  hoisted_.clear();
  int left = kHoisted;
  for (const codegen::Reduction& one : plan_.reductions)
    if (one.column) left -= steps * width * registers(type_of(one));
  const auto ids = statements.closure(roots);
  auto ripe = [&](int id) { return statements.item(id).varies && of_columns_[id]; };
  std::set<int> wanted;  // read by something that depends on the row
  for (int id : roots)
    if (ripe(id)) wanted.insert(id);
  for (int id : ids)
    if (!of_columns_[id])
      for (int arg : statements.item(id).args)
        if (ripe(arg) && statements.item(arg).kind != ItemKind::iota) wanted.insert(arg);
  for (int id : wanted) {
    const int cost = steps * width * registers(statements.item(id).dtype);
    if (cost > left) continue;
    left -= cost;
    hoisted_.insert(id);
  }
  for (int id : hoisted_)
    text_.line(str(dialect_.type(statements.item(id).dtype), " v", id, "[", steps, "][", width, "];"));
}

void Nest::write_hoisted(const ChunkStatements& statements) {
  std::vector<int> varying;
  for (int id : statements.closure({hoisted_.begin(), hoisted_.end()}))
    if (statements.item(id).varies)
      varying.push_back(id);
    else
      statements.row(text_, id);
  note_loads(statements, varying);
  statements.before_elements(text_, varying);
  text_.open(str("LS_EACH(", statements.width(), ") {"));
  text_.line(str("const ", number_, " c = c0 + j; (void)c;"));
  for (int id : varying) {
    statements.element(text_, id);
    if (hoisted_.count(id)) text_.line(str("v", id, "[k][j] = t", id, ";"));
  }
  text_.close();
}

}  // namespace lockstep::compiler::cuda
