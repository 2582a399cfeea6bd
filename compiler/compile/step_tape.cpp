// Runs an open body, and hashes its values.
#include "compiler/compile/step_tape.h"

#include "compiler/compile/open_body.h"
#include "core/base/hash.h"
#include "core/ir/print.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
// Op and attributes; for a kernel, all its nodes.
std::string definition(const Node& node) {
  if (!node.body)
    return node.attrs.items().empty() ? std::string(node.op.name()) : str(node.op, " ", text(node.attrs));
  std::string out;
  for (const Node& inner : node.body->nodes) out += str(out.empty() ? "" : ", ", definition(inner));
  return out;
}

// ", of token.weight": the state that an update replaces.
std::string updated(const Graph& whole, const Node& update) {
  ValueId v = update.inputs[0];
  while (whole[v].producer.valid() && !whole.producer(v).inputs.empty())
    v = whole.producer(v).inputs[0];  // this rank's rows of it
  for (const auto& input : whole.inputs)
    if (input.value == v && input.kind == InputKind::state) return ", of " + input.name;
  return "";
}

class Tape {
 public:
  Tape(const StepPlan& plan, const OpenBody& body, const StepInput& input, const TapeVisit& visit)
      : plan_(plan), body_(body), input_(input), visit_(visit) {
    for (size_t o = 0; o < body.graph.outputs.size(); ++o) {
      const Value& value = body.graph[body.graph.outputs[o].value];
      values_.push_back(
          {0, static_cast<int64_t>(o),
           str(definition(body.graph.node(body.made_by[o])), " ", shape_text(value.dtype, value.shape)),
           body.op_and_place(o) + body.gradient_words(o), value.dtype, value.shape, 0});
    }
  }
  void operator()(int64_t micro_batch, int output, const void* data) {
    if (micro_batch != micro_batch_) fields(micro_batch);
    TapedValue& value = values_[static_cast<size_t>(output)];
    const size_t bytes = static_cast<size_t>(numel(value.shape)) * size_of(value.dtype);
    if (!body_.device->addressable()) {
      copy_.resize(bytes);
      copy_to_host(*body_.device, copy_.data(), data, bytes);
      data = copy_.data();
    }
    value.micro_batch = micro_batch;
    tell(value, static_cast<const std::byte*>(data), bytes);
  }

 private:
  void tell(TapedValue& value, const std::byte* data, size_t bytes) {
    value.hash = hash64(data, bytes);
    visit_(value, data);
  }
  // The batch fields, from the data.
  void fields(int64_t micro_batch) {
    micro_batch_ = micro_batch;
    std::vector<std::vector<std::byte>> data;
    std::vector<void*> places;
    for (const FieldType& field : plan_.fields)
      places.push_back(
          data.emplace_back(static_cast<size_t>(numel(field.shape)) * size_of(field.dtype)).data());
    const int64_t samples = plan_.fields[0].shape[0];
    input_.fill(micro_batch * samples, samples, places);
    for (size_t f = 0; f < data.size(); ++f) {
      const FieldType& field = plan_.fields[f];
      const std::string name = str("field \"", field.name, "\"");
      TapedValue value{micro_batch,
                       static_cast<int64_t>(f) - static_cast<int64_t>(data.size()),
                       str(name, " ", shape_text(field.dtype, field.shape)),
                       name,
                       field.dtype,
                       field.shape,
                       0};
      tell(value, data[f].data(), data[f].size());
    }
  }

  const StepPlan& plan_;
  const OpenBody& body_;
  const StepInput& input_;
  const TapeVisit& visit_;
  std::vector<TapedValue> values_;  // per output
  std::vector<std::byte> copy_;
  int64_t micro_batch_ = -1;
};
// The nodes after the gradients, once per step: updates, and the plain ops between them. The transport of
// sums is omitted, because it depends on the mesh.
void tell_tail(const StepPlan& plan, const TapeVisit& visit) {
  int64_t place = 0;
  auto tell = [&](const Node& node, const std::string& shape, const std::string& of) {
    visit({plan.micro_batches,
           place++,
           definition(node) + shape,
           str(node.op, " at ", node.at.text(), of),
           DType::f32,
           {0},
           0},
          nullptr);
  };
  for (const auto& part : plan.phases.tail) {
    if (part.node.valid()) {
      const Node& node = plan.phases.whole.node(part.node);
      if (op_row(node.op).kind == OpKind::update) tell(node, "", updated(plan.phases.whole, node));
    } else if (!part.takes) {
      const Graph& fragment = plan.phases.fragments[static_cast<size_t>(part.fragment)].graph;
      for (const Node& node : fragment.nodes) {
        const Value& value = fragment[node.outputs[0]];
        tell(node, str(" ", shape_text(value.dtype, value.shape)), "");
      }
    }
  }
}
}  // namespace

void tape_step(Step& step, const StepInput& input, const State& state, const TapeVisit& visit) {
  const OpenBody body = open_body(step, state, Opened::all);
  Tape tape(step.plan(), body, input, visit);
  inspect(step, input, body,
          [&](int64_t micro_batch, int output, const void* data) { tape(micro_batch, output, data); });
  if (state.mesh().world->rank() == 0) tell_tail(step.plan(), visit);
}

}  // namespace lockstep::compiler
