// Builds the unfused body, with every value as an output.
#include "compiler/compile/open_body.h"

#include <algorithm>

#include "compiler/codegen/target.h"
#include "compiler/compile/distribute_kernels.h"
#include "compiler/pipeline.h"
#include "compiler/program/blocks/block.h"
#include "compiler/program/blocks/places.h"
#include "compiler/runtime/executable.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
// Per output of the body: the parameter whose gradient it is; "" for the loss.
std::vector<std::string> parameters_of(const Phases& phases) {
  const Graph& whole = phases.whole;
  std::vector<std::string> out(phases.body.outputs.size());
  auto producer = [&](ValueId v) -> const Node* {
    return !whole[v].producer.valid() ? nullptr : &whole.producer(v);
  };
  for (const auto& rows : phases.rows) out[rows.rows] = whole.node(rows.gather).attrs.word("of");
  for (const auto& output : whole.outputs) {
    const Node* made = output.kind == OutputKind::state ? producer(output.value) : nullptr;
    while (made && made->op == ops::wait) {  // gathered rows of the new weight
      const int index = whole[output.value].index;
      const Node* start = producer(made->inputs[0]);
      made = start && start->op == ops::all_gather_start ? producer(start->inputs[index]) : nullptr;
    }
    if (!made || made->inputs.size() < 2 || whole[output.value].shape.empty()) continue;
    const Node* sum = producer(made->inputs[1]);
    if (!sum || sum->op != ops::lane_sum) continue;
    const Node* wait = producer(sum->inputs[0]);
    const Node* start = wait && wait->op == ops::wait ? producer(wait->inputs[0]) : nullptr;
    if (!start || start->op != ops::lane_exchange_start) continue;
    const ValueId gradient = start->inputs[whole[sum->inputs[0]].index];
    for (size_t o = 0; o < phases.body.outputs.size(); ++o)
      if (phases.body.outputs[o] == gradient && out[o].empty()) out[o] = output.name;
  }
  return out;
}

// Makes every value an output, except aliases and collectives in flight.
void open(OpenBody& out, Opened what) {
  out.graph.outputs.clear();
  const bool evaluated = out.options.backend == Backend::reference;  // each value is an array of its own
  const auto places = evaluated ? PerValue<Place>() : places_of(out.graph);
  for (NodeId n : out.graph.node_ids()) {
    const Node& node = out.graph.node(n);
    if (node.op == ops::model_gather_start || node.op == ops::model_exchange_start) continue;
    for (ValueId v : node.outputs) {
      const Value& value = out.graph[v];
      if (what == Opened::floats && !is_float(value.dtype)) continue;
      if (!evaluated)
        if (const Place& place = places[v];
            place.root != v || !is_dense({value.dtype, value.shape, place.strides}))
          continue;
      out.graph.add_output(OutputKind::value, "", v);
      out.made_by.push_back(n);
    }
  }
}
}  // namespace

std::string OpenBody::op(size_t output) const {
  const Node& node = graph.node(made_by[output]);
  if (!node.body) return std::string(node.op.name());
  std::string out = fused_text(*node.body);
  for (size_t i = 0; out.empty() && i < node.body->nodes.size(); ++i)
    out = node.body->nodes[i].op.name();  // of a kernel that only moves data
  return out;
}
std::string OpenBody::op_and_place(size_t output) const {
  return str(op(output), " at ", graph.node(made_by[output]).at.text());
}
std::string OpenBody::gradient_words(size_t output) const {
  const auto found = gradient.find(output);
  return found == gradient.end() ? "" : str(", the gradient of ", found->second);
}

OpenBody open_body(const Step& step, const State& state, Opened what) {
  const StepPlan& plan = step.plan();
  OpenBody out;
  out.options = plan.options;
  out.options.fusion = false;
  if (out.options.backend == Backend::eager)
    out.options.backend = Backend::native;  // like eager, op by op, but values share memory
  const bool evaluated = out.options.backend == Backend::reference;
  out.device = evaluated ? &cpu_device() : &target_of(out.options).device();
  out.graph = plan.phases.body.graph;
  if (!evaluated) {
    PassContext context{plan.phases.whole.mesh,
                        [&state](const std::string& fqn) { return state.layout(fqn); }, out.options};
    out.graph = run_passes(std::move(out.graph), phase_passes(), context);
  }
  std::map<ValueId, std::string> named;
  const auto parameters = parameters_of(plan.phases);
  for (size_t o = 0; o < out.graph.outputs.size(); ++o) named[out.graph.outputs[o].value] = parameters[o];
  open(out, what);
  for (size_t o = 0; o < out.graph.outputs.size(); ++o)
    if (auto found = named.find(out.graph.outputs[o].value); found != named.end() && !found->second.empty())
      out.gradient[o] = found->second;
  if (evaluated) return out;
  std::vector<KernelSource> sources;
  for (auto& source : kernels_of(out.graph, out.options))
    if (std::none_of(sources.begin(), sources.end(),
                     [&](const auto& have) { return have.name == source.name; }))
      sources.push_back(std::move(source));
  out.kernels = distribute_kernels(*state.mesh().world, out.options, sources);
  return out;
}

void inspect(Step& step, const StepInput& input, const OpenBody& body, const Step::Visit& visit) {
  step.inspect(input, body.graph, body.kernels, body.options, visit);
}

}  // namespace lockstep::compiler
