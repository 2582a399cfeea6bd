// Makes the kernels, library calls and collectives of nodes.
#include "compiler/program/blocks/calls.h"

#include <map>

#include "core/base/error.h"
#include "core/ir/print.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
bool is_start(const Node& node) {
  return node.op == ops::model_gather_start || node.op == ops::model_exchange_start;
}
bool is_wait(const Node& node) { return node.op == ops::model_wait; }
class Caller {
 public:
  Caller(const Graph& graph, const PerValue<Place>& places, const CompileOptions& options,
         const Target& target)
      : graph_(graph), places_(places), options_(options), target_(target) {}
  std::vector<BlockCall> run();

 private:
  void make_library_call(const Node& node, BlockCall& call) const;

  const Graph& graph_;
  const PerValue<Place>& places_;
  const CompileOptions& options_;
  const Target& target_;
};

void Caller::make_library_call(const Node& node, BlockCall& call) const {
  std::vector<Operand> in, out;
  for (ValueId v : node.inputs) in.push_back({graph_[v].dtype, graph_[v].shape, places_[v].strides});
  for (ValueId v : node.outputs) out.push_back({graph_[v].dtype, graph_[v].shape, places_[v].strides});
  LS_CHECK(target_.is_library_op(node.op), "the native backend has no kernel for ", node.op, " at ",
           node.at.text());
  call.kind = BlockCall::Kind::library;
  call.library = target_.make_library_call(node, in, out, target_options(options_));
  const Library family = op_row(node.op).library;
  const bool product = family == Library::contraction || family == Library::float8;
  if (!product || !options_.stands_in) call.workspace_bytes = call.library->workspace(options_.threads);
  call.name = call.what = call.library->algorithm();
  call.flops = call.library->flops();
  call.family = family == Library::attention     ? "attention"
                : family == Library::convolution ? "convolution"
                : family == Library::contraction ? "contraction"
                : node.op == ops::scaled_mm      ? "float8"
                                                 : "rows";
}

std::vector<BlockCall> Caller::run() {
  std::vector<BlockCall> out;
  std::map<ValueId, int> flights;               // by handle
  std::map<std::string, KernelSource> kernels;  // by body: similar layers have equal bodies
  for (NodeId n : graph_.node_ids()) {
    const Node& node = graph_.node(n);
    if (is_alias(node)) continue;
    BlockCall call;
    call.node = n;
    call.inputs = node.inputs.size();
    if (node.body) {
      auto [made, fresh] = kernels.try_emplace(lockstep::print(*node.body, {.source_lines = false}));
      const KernelSource& source =
          fresh ? made->second = target_.generate_together(*node.body, options_.together) : made->second;
      call.name = source.name;
      call.workspace_bytes = source.workspace;
      call.flops = source.flops;
      call.begins = source.begins;
      for (size_t i = 0; i < call.begins.size(); ++i)
        call.begins[i] *= static_cast<int64_t>(size_of(graph_[node.inputs[i]].dtype));
      call.what = fused_text(*node.body);
      call.family = "kernel";
    } else if (is_start(node) || is_wait(node)) {
      call.kind = is_start(node) ? BlockCall::Kind::start : BlockCall::Kind::wait;
      call.what = node.op.name();
      call.family = "collective";
      const ValueId handle = is_start(node) ? node.outputs[0] : node.inputs[0];
      call.flight = flights.emplace(handle, static_cast<int>(flights.size())).first->second;
    } else if (options_.backend == Backend::reference) {
      call.kind = BlockCall::Kind::evaluate;
      call.what = node.op.name();
      call.family = "evaluated";
    } else {
      make_library_call(node, call);
    }
    for (size_t i = 0; i < node.inputs.size(); ++i)
      call.bytes += node.body ? bytes_read(*node.body, i) : bytes_of(graph_[node.inputs[i]]);
    for (ValueId v : node.outputs) call.bytes += bytes_of(graph_[v]);
    out.push_back(std::move(call));
  }
  return out;
}
}  // namespace

bool is_alias(const Node& node) {
  return (node.op == ops::reshape && !node.body) || node.attrs.flag("alias");
}

std::vector<BlockCall> calls_of(const Graph& graph, const PerValue<Place>& places,
                                const CompileOptions& options, const Target& target) {
  return Caller(graph, places, options, target).run();
}

}  // namespace lockstep::compiler
