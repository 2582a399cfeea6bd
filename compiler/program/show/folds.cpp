// Totals over regions, and over the bytes that instructions state.
#include "compiler/program/show/folds.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
bool is_exchange(const StartCollective& start) { return start.label.starts_with("exchange "); }

int64_t bytes_to_others(const std::vector<int64_t>& elements, DType dtype, int64_t self) {
  int64_t sum = 0;
  for (size_t r = 0; r < elements.size(); ++r)
    if (static_cast<int64_t>(r) != self) sum += elements[r];
  return sum * static_cast<int64_t>(size_of(dtype));
}
}  // namespace

HeldBytes held_bytes(const StepProgram& program) {
  std::set<int> of_sums;  // buffers through which gradients travel
  for (const Instr& instr : program.instrs)
    if (const auto* start = std::get_if<StartCollective>(&instr.what); start && is_exchange(*start)) {
      of_sums.insert(start->from.region);
      of_sums.insert(start->to.region);
    }
  HeldBytes out;
  for (size_t r = 0; r < program.regions.size(); ++r) {
    const Region& region = program.regions[r];
    switch (region.kind) {
      case Region::Kind::arena:
        (region.on_host ? out.host : out.arena) += region.bytes;
        break;
      case Region::Kind::partial:
        out.sums += region.bytes;
        break;
      case Region::Kind::staging:
        (of_sums.count(static_cast<int>(r)) ? out.sums : out.update) += region.bytes;
        break;
      case Region::Kind::value:
        out.update += region.bytes;
        break;
      default:
        break;
    }
  }
  if (program.blocks.empty()) return out;  // a program of only sums
  const ProgramBlock& body = program.blocks[kBodyBlock];
  int64_t own = body.own_bytes;
  for (const Instr& instr : program.instrs)
    if (const auto* run = std::get_if<RunBlock>(&instr.what); run && run->micro_batches > 1)
      out.together = run->micro_batches, own = run->own.bytes;
  out.body = body.micro_batches * own + body.shared_bytes + program.blocks[kCopiesBlock].arena_bytes();
  return out;
}

int64_t touched_bytes(const StepProgram& program, const Instr& instr) {
  if (const auto* put = std::get_if<PutRows>(&instr.what))  // only these rows of the table
    return put->ids.bytes + 2 * put->rows.bytes;
  int64_t bytes = 0;
  if (const auto* take = std::get_if<TakeRows>(&instr.what)) {
    for (const auto& piece : take->pieces) bytes += piece.ids.bytes + 2 * piece.to.bytes;
    return bytes;
  }
  const Access access = access_of(program, instr);
  for (const auto* spans : {&access.reads, &access.writes})
    for (const Span& span : *spans) bytes += span.bytes;
  return bytes;
}

Members members_of(const std::string& along, const Mesh& mesh, int64_t rank, int seats) {
  const int64_t data = mesh.data_rank(rank);
  if (along == kDataDims) return {mesh.data_size(), data};
  if (along == "inside_hosts") return {seats, data % seats};
  if (along == "across_hosts") return {mesh.data_size() / seats, data / seats};
  const int dim = mesh.dim(along);
  return {mesh.shape[dim], mesh.coordinate(rank)[dim]};
}

Transfer transfer_of(const StartCollective& start, const Members& members) {
  const bool weights = start.label.starts_with("weights ");
  Transfer out{.along = start.along,
               .op = is_exchange(start) ? "lane_exchange"
                     : weights          ? "weight_gather"
                                        : std::string(name(start.verb)),
               .name = start.label.substr(0, start.label.find(" part ")),
               .sent = sent_bytes(start, members.count, members.self)};
  out.received = start.verb == StartCollective::Verb::all_reduce || start.receive.empty()
                     ? out.sent
                     : bytes_to_others(start.receive, start.dtype, members.self);
  return out;
}

int first_backward_call(const StepPlan& plan, const ProgramBlock& body) {
  // Values of the seed that depend on the counts, which earlier phases made.
  const Phase& seed = plan.phases.seed;
  std::set<ValueId> counted;
  for (size_t i = 0; i < seed.inputs.size(); ++i)
    if (const GraphInput& input = seed.graph.inputs[i];
        input.kind == InputKind::value && seed.graph[input.value].dtype == DType::i64)
      counted.insert(input.value);
  auto reads = [](const Node& node, const std::set<ValueId>& values) {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId v) { return values.count(v) > 0; });
  };
  for (const Node& node : seed.graph.nodes)
    if (reads(node, counted)) counted.insert(node.outputs.begin(), node.outputs.end());
  std::set<ValueId> of_whole, of_body;
  for (size_t o = 0; o < seed.outputs.size(); ++o)
    if (counted.count(seed.graph.outputs[o].value)) of_whole.insert(seed.outputs[o]);
  const Phase& phase = plan.phases.body;
  for (size_t i = 0; i < phase.inputs.size(); ++i)
    if (of_whole.count(phase.inputs[i])) of_body.insert(body.graph.inputs[i].value);
  // A view of such a value is one, too.
  std::set<NodeId> calls;
  for (const BlockCall& call : body.calls) calls.insert(call.node);
  for (NodeId n : body.graph.node_ids())
    if (const Node& node = body.graph.node(n); !calls.count(n) && reads(node, of_body))
      of_body.insert(node.outputs.begin(), node.outputs.end());
  for (size_t c = 0; c < body.calls.size(); ++c)
    if (reads(body.graph.node(body.calls[c].node), of_body)) return static_cast<int>(c);
  return static_cast<int>(body.calls.size());
}

const std::string& mesh_dim_of(const ProgramBlock& block, const BlockCall& start) {
  return block.graph.node(start.node).attrs.word("mesh_dim");
}

Transfer transfer_of(const ProgramBlock& block, const BlockCall& start, const Members& members) {
  const Node& node = block.graph.node(start.node);
  const Value& value = block.graph[node.inputs[0]];
  const int64_t bytes = bytes_of(value);
  // A gather brings the whole value to each other rank, an exchange only a part.
  const int64_t to_each = node.op == ops::model_gather_start ? bytes : bytes / members.count;
  const int64_t sent = to_each * (members.count - 1);
  return {.along = mesh_dim_of(block, start),
          .op = std::string(op_row(node.op).verb),
          .name = node.at.scope.empty() ? node.at.text() : node.at.scope,
          .sent = sent,
          .received = sent};
}

}  // namespace lockstep::compiler
