// Rows that name one of their columns: sums of where(column == number of the row, x, 0), where only one
// element counts.
#include "compiler/codegen/cuda/loops/nest.h"

namespace lockstep::compiler::cuda {

using codegen::ItemKind;
using codegen::Level;
using codegen::Reduction;

int Nest::one_hot(const ChunkStatements& statements, int id) const {
  const codegen::Item& item = statements.item(id);
  if (item.kind != ItemKind::pointwise || item.node->op != ops::eq || plan_.columns < 2) return -1;
  auto column = [&](int arg) {
    const codegen::Item& one = statements.item(arg);
    return one.kind == ItemKind::iota && one.dtype == DType::i32 && one.index == plan_.indexer->column();
  };
  for (int side : {0, 1})
    if (column(item.args[side]) && !statements.item(item.args[1 - side]).varies) return item.args[1 - side];
  return -1;
}

// Adding zeros before and after keeps an element unchanged, except -0, which becomes the 0 with which the sum
// begins. If the last loop writes elements, an element may already be overwritten when it is read there.
bool Nest::takes(const ChunkStatements& statements, const Reduction& reduction) const {
  if (reduction.column || reduction.node->op != ops::sum || type_of(reduction) == DType::boolean)
    return false;
  const codegen::Item& item = statements.item(reduction.item);
  if (item.kind != ItemKind::pointwise || item.node->op != ops::where ||
      one_hot(statements, item.args[0]) < 0)
    return false;
  const codegen::Item& other = statements.item(item.args[2]);
  if (other.kind != ItemKind::constant || !other.value.same_bits(Number().in(other.dtype))) return false;
  const bool writes = std::any_of(plan_.stores.begin(), plan_.stores.end(),
                                  [](const auto& s) { return s.level == Level::element; });
  return reduction.stage < plan_.stages - 1 || !writes;
}

void Nest::take(const ChunkStatements& statements, size_t k) {
  const Reduction& one = reduction(k);
  const codegen::Item& item = statements.item(one.item);
  const int number = one_hot(statements, item.args[0]), chosen = item.args[1];
  ChunkStatements narrow(body_, plan_.items, *plan_.indexer, dialect_, 1);
  std::vector<int> varying;
  for (int id : narrow.closure({chosen}))
    if (narrow.item(id).varies) varying.push_back(id);
  const std::string zero = dialect_.literal(type_of(one), 0);
  text_.line(str(type(one), " z", k, ";"));
  text_.open("{");
  text_.line(str("const bool there = t", number, " >= 0 && t", number, " < ", plan_.columns, ";"));
  text_.line(
      str("const ", number_, " c0 = there ? t", number, " : 0, c = c0; const int j = 0; (void)c, (void)j;"));
  narrow.before_elements(text_, varying);
  for (int id : varying) narrow.element(text_, id);
  text_.line(str("z", k, " = ", functor(one), "(", zero, ", there ? t", chosen, " : ", zero, ");"));
  text_.close();
  text_.line(str("const ", type(one), " q", k, " = ", folding_.rounded(one, str("z", k)), ";"));
}

}  // namespace lockstep::compiler::cuda
