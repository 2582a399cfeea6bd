// The work of a step once, outside its micro-batches: gathers of weights, sums, norms, updates.
#include <algorithm>
#include <utility>

#include "compiler/program/build/builder.h"
#include "compiler/program/sums/make_bucket_sum.h"
#include "core/base/error.h"
#include "core/ops/op.h"
#include "core/table/updates.h"

namespace lockstep::compiler {

bool StepBuilder::ends_gather(const Node& node) const {
  return node.op == ops::wait && start_of(node).op == ops::all_gather_start;
}

std::string StepBuilder::state_output(ValueId v) const {
  for (const auto& output : whole_.outputs)
    if (output.value == v && output.kind == OutputKind::state) return output.name;
  return "";
}

std::string StepBuilder::state_input(ValueId v) const {
  for (const auto& input : whole_.inputs)
    if (input.value == v && input.kind == InputKind::state) return input.name;
  return "";
}

void StepBuilder::own(ValueId v, const std::string& name, int64_t least) {
  const int64_t held = bytes_of(v);
  at_[v] = writer_.region(Kind::value, name, std::max(least * size_of_value(whole_[v]), held)).part(0, held);
}

std::vector<size_t> StepBuilder::tensors_of(const Node& start) const {
  std::vector<size_t> out;
  for (size_t i = 0; i < start.inputs.size(); ++i)
    if (!streamed_.count({start.outputs[0], i})) out.push_back(i);
  return out;
}

void StepBuilder::prepare_head() {
  const auto& updated = plan_.phases.own_rows.updated;
  if (!updated.empty())
    largest_ = writer_.region(Kind::value, "largest of weights", static_cast<int64_t>(4 * updated.size()));
  for (size_t i = 0; i < updated.size(); ++i) {
    updated_[updated[i].state] = i;
    if (updated[i].by_scale()) own(updated[i].rows, "in float8 " + updated[i].state);
    at_[updated[i].largest] = largest_.part(static_cast<int64_t>(4 * i), 4);
  }
  for (NodeId n : plan_.phases.head) prepare_head(whole_.node(n));
  for (NodeId n : plan_.phases.own_rows.gathers) prepare_head(whole_.node(n));
}

void StepBuilder::prepare_head(const Node& node) {
  if (node.op == ops::convert) {
    const std::string state = state_input(node.inputs[0]);
    if (const auto found = updated_.find(state);
        found != updated_.end() && plan_.phases.own_rows.updated[found->second].by_scale())
      return;
    if (!state.empty()) rounded_[state] = node.outputs[0];
    own(node.outputs[0], state.empty() ? "rounded" : "rounded " + state, 1);
  } else if (ends_gather(node) && ranks_of(start_of(node)) == 1) {
    for (size_t i = 0; i < node.outputs.size(); ++i) at_[node.outputs[i]] = at_[start_of(node).inputs[i]];
  } else {
    prepare(node);
  }
}

// A sum over lanes replaces one of its addends, if this rank has rows of it. If the only micro-batch's
// gradient is kept, it is the sum.
bool StepBuilder::in_place(const Node& node, ValueId v) const {
  if (node.op != ops::lane_sum || v != node.outputs[0] || held_.of(whole_[v]).count == 0) return false;
  return !sum_.lanes.is_one() || kept_.contains(v);
}

void StepBuilder::prepare(const Node& node) {
  if (node.op == ops::lane_sum || node.op == ops::norm_limbs || node.op == ops::norm_of_limbs) {
    const std::string what = node.op == ops::lane_sum     ? "sums %"
                             : node.op == ops::norm_limbs ? "integers of the norm %"
                                                          : "norm %";
    for (ValueId v : node.outputs)
      if (!in_place(node, v)) own(v, str(what, v), 1);
  }
  if (node.op == ops::sum_rows || node.op == ops::take)
    for (ValueId v : node.outputs) own(v, str("rows %", v));
  if (op_row(node.op).kind == OpKind::update) {
    const std::vector<int> replaced = replaced_inputs(node);
    for (size_t o = 0; o < node.outputs.size(); ++o)
      if (replaced[o] == kReplacesNothing)
        own(node.outputs[o], str("rows of %", node.outputs[o]));
      else
        replaces_[node.outputs[o]] = node.inputs[replaced[o]];
  }
  if (node.op == ops::all_gather_start && ranks_of(node) > 1) {
    int64_t mine = 0, all = 0;
    for (size_t i : tensors_of(node)) mine += bytes_of(node.inputs[i]);
    for (const Node& wait : whole_.nodes)
      if (wait.op == ops::wait && wait.inputs[0] == node.outputs[0])
        for (size_t i : tensors_of(node)) all += bytes_of(wait.outputs[i]);
    const std::string label = str("gather ", node.attrs.integer("bucket"));
    gathers_[node.outputs[0]] = {writer_.region(Kind::staging, label + " send", mine),
                                 writer_.region(Kind::staging, label + " receive", all), -1};
  }
  if (ends_gather(node))
    for (size_t i : tensors_of(start_of(node))) {
      const ValueId v = node.outputs[i];
      const std::string state = state_output(v);
      const ValueId home = state.empty() ? kNoValue : whole_.find_input(state);
      if (home != kNoValue)
        at_[v] = at_[home];
      else
        own(v, str("gathered %", v));
    }
}

void StepBuilder::name_outputs() {
  for (const auto& output : whole_.outputs)
    if (output.kind == OutputKind::metric)
      program_.metrics.push_back({output.name, at_[output.value], whole_[output.value].dtype});
  for (const Node& node : whole_.nodes) {
    if (node.op == ops::put_rows) program_.put.push_back(at_[node.inputs[0]]);
    if (node.op == ops::put_rows || op_row(node.op).kind != OpKind::update) continue;
    for (int i : replaced_inputs(node))
      if (i != kReplacesNothing) program_.updated.push_back(at_[node.inputs[i]]);
  }
  for (ValueId gate : gates_) program_.gates.push_back({"", at_[gate], whole_[gate].dtype});
}

void StepBuilder::make_buckets() {
  const auto shapes = bucket_shapes(plan_);
  const auto dtypes = bucket_dtypes(plan_);
  std::vector<int64_t> bytes;
  for (size_t b = 0; b < shapes.size(); ++b) {
    bytes.push_back(0);
    for (const Shape& shape : shapes[b])
      bytes.back() += numel(shape) * static_cast<int64_t>(size_of(sum_.sent(dtypes[b])));
  }
  turns_.share_sets(bytes);
  for (size_t b = 0; b < shapes.size(); ++b) {
    exchange_of_[whole_.node(plan_.phases.exchanges[b]).outputs[0]] = b;
    buckets_.push_back(make_bucket_sum(writer_, sum_, turns_, b, shapes[b], dtypes[b]));
  }
}

void StepBuilder::place_row_squares() {
  std::vector<std::vector<Span>> to;
  for (const auto& shapes : bucket_shapes(plan_)) to.emplace_back(shapes.size());
  for (const Node& node : whole_.nodes)
    if (node.op == ops::lane_sum) {
      const size_t bucket = exchange_of_.at(whole_.producer(node.inputs[0]).inputs[0]);
      to[bucket].at(whole_[node.inputs[0]].index) = at_[node.outputs[1]];
    }
  for (size_t b = 0; b < buckets_.size(); ++b) buckets_[b]->place_row_squares(std::move(to[b]));
}

void StepBuilder::tail() {
  for (const auto& step : plan_.phases.tail) {
    if (step.node.valid()) {
      node(step.node);
      continue;
    }
    flush_sums();
    flush_updates();
    const Phase& phase = plan_.phases.fragments[step.fragment];
    const int b = kTailBlocks + step.fragment;
    const auto inputs = inputs_of(phase, -1);
    run_all(b, inputs);
    for (size_t o = 0; o < phase.outputs.size(); ++o) at_[phase.outputs[o]] = output_of(b, o, inputs);
  }
  flush_sums();
  flush_updates();
}

void StepBuilder::flush_sums() {
  if (!sums_.trees.empty()) writer_.put(std::exchange(sums_, {}));
}

void StepBuilder::flush_updates() {
  if (updates_.tensors.empty()) return;
  if (checked_.sums.there()) writer_.put(std::exchange(checked_, {}));
  writer_.put(std::exchange(updates_, {}));
  read_.clear(), written_.clear();
}

void StepBuilder::node(NodeId n) {
  const Node& node = whole_.node(n);
  if (node.op != ops::lane_sum && node.op != ops::local_rows) flush_sums();
  if (node.op == ops::local_rows)
    local_rows(node);
  else if (node.op == ops::put_rows)
    put_rows(node);
  else if (node.op == ops::take)
    take_rows(node);
  else if (op_row(node.op).kind == OpKind::update)
    update(n, node);
  else if (node.op == ops::lane_gather_start)
    start_rows(node);
  else if (node.op == ops::sum_rows)
    sum_rows(node);
  else if (node.op == ops::spread_rows)
    spread_[node.outputs[0]] = n;
  else if (node.op == ops::lane_sum)
    lane_sum(node);
  else if (node.op == ops::norm_limbs)
    norm_limbs(node);
  else if (node.op == ops::norm_of_limbs)
    writer_.put(NormOfWords{at_[node.inputs[0]], at_[node.outputs[0]]}, node.at);
  else if (node.op == ops::all_reduce_start)
    sum_in_place(node);
  else if (node.op == ops::all_gather_start)
    start_gather(node);
  else if (node.op == ops::wait)
    wait(node);
  else
    throw InternalError(str("no instruction for ", node.op, " at ", node.at.text()));
}

void StepBuilder::local_rows(const Node& node) {
  const auto from = held_.of(whole_[node.inputs[0]]), to = held_.of(whole_[node.outputs[0]]);
  const int64_t size = size_of_value(whole_[node.inputs[0]]);
  at_[node.outputs[0]] = at_[node.inputs[0]].part((to.first - from.first) * size, to.count * size);
}

// Whether an update depends on a pending one: the updates of one instruction run in any order.
bool StepBuilder::meets_pending(const UpdateTensors::Tensor& tensor) const {
  const auto in = [](const std::set<int>& regions) {
    return [&](const Span& span) { return regions.count(span.region) > 0; };
  };
  return std::any_of(tensor.inputs.begin(), tensor.inputs.end(), in(written_)) ||
         std::any_of(tensor.outputs.begin(), tensor.outputs.end(), in(read_));
}

void StepBuilder::update(NodeId n, const Node& node) {
  if (!std::exchange(tail_rounds_, true)) prepare_rounding(true);
  UpdateTensors::Tensor tensor{.node = n, .count = held_.of(whole_[node.inputs[0]]).count};
  tensor.halves = halves_of(node, kept_);
  for (ValueId v : node.inputs) {
    if (const auto spread = spread_.find(v); spread != spread_.end())
      update_by_rows(whole_.node(spread->second), static_cast<int>(tensor.inputs.size()), tensor);
    tensor.inputs.push_back(at_[v]);
  }
  for (ValueId v : node.outputs) {
    if (const auto old = replaces_.find(v); old != replaces_.end()) at_[v] = at_[old->second];
    tensor.outputs.push_back(at_[v]);
  }
  const std::string state = state_output(node.outputs[0]);
  round_for_float8(tensor, state, !gates_.empty());
  if (auto found = rounded_.find(state); found != rounded_.end())
    tensor.copy = at_[found->second], tensor.copy_dtype = whole_[found->second].dtype;
  if (meets_pending(tensor) || is_always_made(node)) flush_updates();
  for (const Span& span : tensor.inputs)
    if (span.there()) read_.insert(span.region);
  for (const Span& span : tensor.outputs) written_.insert(span.region);
  if (updates_.gates.empty() && !is_always_made(node)) gates_of(node, updates_.gates, updates_.limits);
  updates_.tensors.push_back(std::move(tensor));
  if (is_always_made(node)) flush_updates();
}

void StepBuilder::gates_of(const Node& node, std::vector<Span>& gates, std::vector<Span>& limits) {
  for (size_t k = 0; k < gates_.size(); ++k) {
    LS_CHECK(at_[gates_[k]].there(), "an update at ", node.at.text(), " comes before %", gates_[k],
             ", which decides whether it is made");
    gates.push_back(at_[gates_[k]]);
    limits.push_back(limits_[k + 1 == gates_.size() ? 1 : 0]);
  }
}

void StepBuilder::lane_sum(const Node& node) {
  const Node& wait = whole_.producer(node.inputs[0]);
  const size_t b = exchange_of_.at(wait.inputs[0]);
  const Span out = in_place(node, node.outputs[0]) ? Span{} : at_[node.outputs[0]];
  SumTrees::Tree tree = buckets_[b]->tree_of(whole_[node.inputs[0]].index, out);
  at_[node.outputs[0]] = tree.out;
  if (!buckets_[b]->is_whole()) sums_.trees.push_back(std::move(tree));
}

void StepBuilder::norm_limbs(const Node& node) {
  SumSquares sum{{}, at_[node.outputs[0]]};
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (!counted_elsewhere(node, i))
      sum.addends.push_back(at_[node.inputs[i]].part(0, bytes_of(node.inputs[i])));
  writer_.put(std::move(sum), node.at);
}

// The first rank counts the squares of a gradient that is equal on all ranks of a model dim.
bool StepBuilder::counted_elsewhere(const Node& norm, size_t input) const {
  if (!norm.attrs.has("model_dim")) return false;
  const auto& once = norm.attrs.list("once");
  return std::find(once.begin(), once.end(), static_cast<int64_t>(input)) != once.end() &&
         rank_.mesh.coordinate(rank_.rank)[rank_.mesh.dim(norm.attrs.word("model_dim"))] != 0;
}

void StepBuilder::sum_in_place(const Node& node) {
  if (ranks_of(node) < 2) return;
  const Value& value = whole_[node.inputs[0]];
  flights_[node.outputs[0]] = writer_.start({.verb = Verb::all_reduce,
                                             .along = node.attrs.word("mesh_dim"),
                                             .dtype = value.dtype,
                                             .send = {numel(value.shape)},
                                             .from = at_[node.inputs[0]],
                                             .to = at_[node.inputs[0]],
                                             .label = "norm"},
                                            node.at);
}

void StepBuilder::start_gather(const Node& node) {
  flush_updates();
  const int64_t ranks = ranks_of(node);
  if (ranks == 1) return;
  Gather& gather = gathers_[node.outputs[0]];
  StartCollective all{
      .verb = Verb::all_gather, .along = node.attrs.word("mesh_dim"), .dtype = whole_[node.inputs[0]].dtype};
  const int dim = held_.dim(all.along);
  CopySpans pack;
  int64_t to = 0, mine = 0;
  all.receive.assign(ranks, 0);
  for (size_t i : tensors_of(node)) {
    const ValueId v = node.inputs[i];
    pack.copies.push_back({gather.send.part(to, bytes_of(v)), at_[v].part(0, bytes_of(v))});
    to += bytes_of(v), mine += held_.of(whole_[v]).count;
    for (int64_t r = 0; r < ranks; ++r) all.receive[r] += held_.of(whole_[v], dim, r).count;
  }
  writer_.put(std::move(pack), node.at);
  all.send.assign(ranks, mine);
  all.from = gather.send, all.to = gather.receive;
  all.label = str("gather ", node.attrs.integer("bucket"));
  gather.flight = writer_.start(std::move(all), node.at);
}

void StepBuilder::wait(const Node& node) {
  const ValueId handle = node.inputs[0];
  if (auto found = exchange_of_.find(handle); found != exchange_of_.end())
    return buckets_[found->second]->wait();
  const Node& from = whole_.producer(handle);
  if (from.op == ops::lane_gather_start) return wait_for_rows(node);
  if (from.op == ops::all_reduce_start) {
    if (auto flight = flights_.find(handle); flight != flights_.end()) writer_.wait(flight->second, node.at);
    at_[node.outputs[0]] = at_[from.inputs[0]];
    return;
  }
  CopySpans unpack;
  const int64_t ranks = ranks_of(from);
  if (ranks == 1) {
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (at_[node.outputs[i]] != at_[from.inputs[i]])
        unpack.copies.push_back({at_[node.outputs[i]], at_[from.inputs[i]]});
    if (!unpack.copies.empty()) writer_.put(std::move(unpack), node.at);
    return;
  }
  Gather& gather = gathers_[handle];
  writer_.finish(gather.flight);
  const int dim = held_.dim(from.attrs.word("mesh_dim"));
  int64_t part = 0;
  for (int64_t r = 0; r < ranks; ++r)
    for (size_t i : tensors_of(from)) {
      const auto [first, count] = held_.of(whole_[from.inputs[i]], dim, r);
      const int64_t size = size_of_value(whole_[from.inputs[i]]);
      const int64_t offset = (first - held_.of(whole_[node.outputs[i]]).first) * size;
      unpack.copies.push_back(
          {at_[node.outputs[i]].part(offset, count * size), gather.receive.part(part, count * size)});
      part += count * size;
    }
  writer_.put(std::move(unpack), node.at);
}

}  // namespace lockstep::compiler
