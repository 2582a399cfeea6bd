// A block in words and figures.
#include "compiler/program/block.h"

#include "compiler/codegen/library/library.h"
#include "core/base/text.h"

namespace lockstep::compiler {

double ProgramBlock::flops() const {
  double sum = 0;
  for (const BlockCall& call : calls) sum += call.library ? call.flops : 0;
  return sum;
}

std::string ProgramBlock::algorithms() const {
  std::string out;
  for (const BlockCall& call : calls)
    if (call.kind == BlockCall::Kind::kernel || call.library) out += call.name + "\n";
  return out;
}

std::string ProgramBlock::text() const {
  std::string out = str("arena ", arena_bytes(), " bytes (floor ", floor, ")\n");
  for (const BlockCall& call : calls) {
    const Node& node = graph.node(call.node);
    out += call.name.empty() ? call.what : call.name;
    if (node.body) out += str(" ", fused_text(*node.body));
    for (size_t i = 0; i < call.args.size(); ++i)
      out += str(i == 0             ? " ("
                 : i == call.inputs ? " -> "
                                    : ", ",
                 call.args[i].base == BlockPlace::own_arena      ? std::string("arena")
                 : call.args[i].base == BlockPlace::shared_arena ? std::string("shared")
                                                                 : str("in", call.args[i].base),
                 "+", call.args[i].offset);
    out += str(") @ ", node.at.text(), "\n");
  }
  return out;
}

std::string fused_text(const Graph& body) {
  std::vector<std::string> names;
  for (const Node& node : body.nodes)
    if (node.op != ops::broadcast && node.op != ops::reshape && node.op != ops::full)
      names.emplace_back(node.op.name());
  if (names.size() > 12) names.resize(12), names.push_back("...");
  return join(names, ",");
}

}  // namespace lockstep::compiler
