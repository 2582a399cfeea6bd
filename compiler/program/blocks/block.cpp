// Describes a block as text and figures.
#include "compiler/program/blocks/block.h"

#include <algorithm>

#include "compiler/codegen/library/library.h"
#include "core/base/text.h"

namespace lockstep::compiler {

double ProgramBlock::flops() const {
  double sum = 0;
  for (const BlockCall& call : calls) sum += call.library && call.family != "rows" ? call.flops : 0;
  return sum;
}

const BlockCall& ProgramBlock::start_of(int flight) const {
  const auto start = std::find_if(calls.begin(), calls.end(), [&](const BlockCall& call) {
    return call.kind == BlockCall::Kind::start && call.flight == flight;
  });
  LS_CHECK(start != calls.end(), "no call starts flight ", flight);
  return *start;
}

int64_t ProgramBlock::away_bytes() const {
  int64_t sum = 0;
  for (const AwayValue& value : away) sum += value.bytes;
  return sum;
}

double seconds_of(const BlockCall& call, const TravelRates& rates) {
  if (call.kind == BlockCall::Kind::start || call.kind == BlockCall::Kind::wait) return 0;
  const bool product = call.library && call.family != "rows";
  return std::max(product ? call.flops / rates.flops : 0, static_cast<double>(call.bytes) / rates.memory) +
         rates.launch;
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

namespace {
int64_t elements_read(const Graph& body, ValueId value) {
  const int64_t whole = numel(body[value].shape);
  int64_t elements = 0;
  for (const Node& node : body.nodes)
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != value) continue;
      const bool part = node.op == ops::slice || (node.op == ops::take && i == 0);
      const bool other_way = node.op == ops::permute || node.op == ops::reshape;
      elements += part        ? numel(body[node.outputs[0]].shape)
                  : other_way ? elements_read(body, node.outputs[0])
                              : whole;
    }
  for (const auto& output : body.outputs) elements += output.value == value ? whole : 0;
  return std::min(whole, elements);
}
}  // namespace

int64_t bytes_read(const Graph& body, size_t input) {
  const ValueId value = body.inputs[input].value;
  return elements_read(body, value) * static_cast<int64_t>(size_of(body[value].dtype));
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
