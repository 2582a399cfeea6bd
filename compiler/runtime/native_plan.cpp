// The native executable made: calls, and where every value lies.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/runtime/native.h"
#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep {

std::string fused_text(const Graph& body) {
  std::vector<std::string> names;
  for (const Node& node : body.nodes)
    if (node.op != ops::broadcast && node.op != ops::reshape && node.op != ops::full)
      names.emplace_back(node.op.name());
  if (names.size() > 12) names.resize(12), names.push_back("...");
  return join(names, ",");
}

void Native::make_calls() {
  for (NodeId n : graph_.node_ids()) {
    const Node& node = graph_.node(n);
    bool alias = (node.op == ops::reshape && !node.body) || node.attrs.flag("alias");
    if (alias) continue;
    Call call;
    call.node = n;
    call.inputs = node.inputs.size();
    CallTime time;
    if (node.body) {
      KernelSource source = target_.generate(*node.body);
      call.kernel_name = source.name;
      call.workspace_bytes = source.workspace;
      if (kernels_) call.kernel = &kernels_->find(call.kernel_name);
      time.what = fused_text(*node.body);
      time.kind = "kernel";
    } else if (is_body_start(node) || is_body_wait(node)) {
      time.what = node.op.name();
      time.kind = "collective";
    } else {
      std::vector<Operand> in, out;
      for (ValueId v : node.inputs) in.push_back({graph_[v].dtype, graph_[v].shape, places_[v].strides});
      for (ValueId v : node.outputs) out.push_back({graph_[v].dtype, graph_[v].shape, places_[v].strides});
      LS_CHECK(target_.is_library_op(node.op), "the native backend has no kernel for ", node.op, " at ",
               node.at.text());
      call.library = target_.make_library_call(node, in, out, target_options_);
      call.workspace_bytes = call.library->workspace(options_.threads);
      time.what = call.library->algorithm();
      const Library family = op_row(node.op).library;
      time.kind = family == Library::attention     ? "attention"
                  : family == Library::contraction ? "contraction"
                                                   : "rows";
      time.flops = call.library->flops();
    }
    for (ValueId v : node.inputs)
      time.bytes += numel(graph_[v].shape) * static_cast<int64_t>(size_of(graph_[v].dtype));
    for (ValueId v : node.outputs)
      time.bytes += numel(graph_[v].shape) * static_cast<int64_t>(size_of(graph_[v].dtype));
    times_.push_back(time);
    calls_.push_back(std::move(call));
  }
}

// A collective reads its input and writes its result from its start to its wait.
void Native::hold_in_flight(PerValue<int>& first, PerValue<int>& last) const {
  std::map<ValueId, int> started;  // by handle
  auto root = [&](ValueId v) { return places_[v].root; };
  for (size_t c = 0; c < calls_.size(); ++c) {
    const Node& node = graph_.node(calls_[c].node);
    if (is_body_start(node)) started[node.outputs[0]] = static_cast<int>(c);
    if (!is_body_wait(node)) continue;
    const int start = started.at(node.inputs[0]);
    ValueId in = graph_.node(calls_[start].node).inputs[0];
    last[root(in)] = std::max(last[root(in)], static_cast<int>(c));
    first[root(node.outputs[0])] = std::min(first[root(node.outputs[0])], start);
  }
}

void Native::plan() {
  // Lifetimes of roots in calls.
  int end = static_cast<int>(calls_.size());
  PerValue<int> first(graph_.values.size(), -1), last(graph_.values.size(), -1);
  auto root = [&](ValueId v) { return places_[v].root; };
  PerValue<int> made(graph_.values.size(), -1);  // call that makes a value; aliases follow their source
  for (size_t c = 0; c < calls_.size(); ++c) {
    const Node& node = graph_.node(calls_[c].node);
    for (ValueId v : node.inputs) last[root(v)] = std::max(last[root(v)], static_cast<int>(c));
    for (ValueId v : node.outputs) {
      made[v] = static_cast<int>(c);
      if (first[root(v)] < 0) first[root(v)] = static_cast<int>(c);
      last[root(v)] = std::max(last[root(v)], static_cast<int>(c));
    }
  }
  hold_in_flight(first, last);
  for (const Node& node : graph_.nodes) {
    bool alias = (node.op == ops::reshape && !node.body) || node.attrs.flag("alias");
    if (alias)
      for (ValueId v : node.inputs) made[node.outputs[0]] = std::max(made[node.outputs[0]], made[v]);
  }
  // Groups, in order: each ready when its outputs and all earlier groups are.
  std::set<int> grouped;
  int before = -1;
  for (const auto& group : groups_) {
    for (int o : group) before = std::max(before, made[graph_.outputs[o].value]), grouped.insert(o);
    ready_.push_back(before);
  }
  for (size_t g = 0; g < groups_.size(); ++g)
    for (int o : groups_[g]) {
      const ValueId r = root(graph_.outputs[o].value);
      last[r] = std::max(last[r], ready_[g] + 1);  // it is read after that call
    }
  for (size_t o = 0; o < graph_.outputs.size(); ++o)
    if (!grouped.count(static_cast<int>(o))) last[root(graph_.outputs[o].value)] = end;

  PerValue<int> base(graph_.values.size(), -1);
  for (size_t i = 0; i < graph_.inputs.size(); ++i) base[graph_.inputs[i].value] = static_cast<int>(i);
  plan_streams();
  bool share = options_.backend == Backend::native;
  // A kernel's output takes over the buffer of an input that dies in this call, where the kernel allows it.
  PerValue<ValueId> home(graph_.values.size());
  for (ValueId v : graph_.value_ids()) home[v] = v;
  if (share)
    for (size_t c = 0; c < calls_.size(); ++c) {
      const Node& node = graph_.node(calls_[c].node);
      if (!node.body) continue;
      std::set<ValueId> taken;
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        ValueId out = node.outputs[o];
        if (root(out) != out) continue;
        for (size_t i = 0; i < node.inputs.size(); ++i) {
          const ValueId r = root(node.inputs[i]);
          bool whole = places_[node.inputs[i]].offset == 0 &&
                       numel(graph_[r].shape) == numel(graph_[out].shape) &&
                       graph_[r].dtype == graph_[out].dtype;
          bool readers_once = std::count_if(node.inputs.begin(), node.inputs.end(),
                                            [&](ValueId v) { return root(v) == r; }) == 1;
          if (base[r] >= 0 || !whole || !readers_once || taken.count(r) || last[r] != static_cast<int>(c) ||
              !can_alias(*node.body, o, i))
            continue;
          taken.insert(r);
          home[out] = home[r];
          const ValueId h = home[r];
          last[h] = std::max(last[h], last[out]);
          break;
        }
      }
      // The lifetime of a shared home reaches to its newest tenant.
      for (ValueId out : node.outputs)
        if (home[out] != out) last[out] = std::max(last[out], last[home[out]]);
    }
  // Several micro-batches take turns in what lives and dies between two waits for weights.
  const bool turns = collectives_.size() > 1;
  struct Planned {
    std::vector<Lifetime> lifetimes;
    ArenaPlan arena;
  };
  struct Lies {
    Planned* in = nullptr;
    size_t index = 0;
  };
  Planned own, shared;
  auto live = [&](int from, int to, int64_t bytes, bool alone) {
    if (!share) from = 0, to = end;
    Planned& in = alone ? own : shared;
    in.lifetimes.push_back({from, to, bytes});
    return Lies{&in, in.lifetimes.size() - 1};
  };
  PerValue<Lies> values(graph_.values.size());
  for (ValueId v : graph_.value_ids()) {
    if (root(v) != v || first[v] < 0 || base[v] >= 0 || home[v] != v) continue;
    const int64_t bytes = numel(graph_[v].shape) * static_cast<int64_t>(size_of(graph_[v].dtype));
    values[v] =
        live(first[v], last[v], bytes, !turns || last[v] >= end || bucket_of(first[v]) != bucket_of(last[v]));
  }
  std::vector<Lies> workspaces(calls_.size());
  for (size_t c = 0; c < calls_.size(); ++c)
    if (calls_[c].workspace_bytes)
      workspaces[c] = live(static_cast<int>(c), static_cast<int>(c),
                           static_cast<int64_t>(calls_[c].workspace_bytes), !turns);
  // Whole weights, from the start of their gathers to their last reader.
  std::vector<Lies> segments;
  for (const auto& segment : gathers_.segments) {
    int until = segment.last;
    while (turns && until + 1 < end && bucket_of(until + 1) == bucket_of(segment.last))
      ++until;  // the next micro-batch reads it, too
    segments.push_back(live(gathers_.buckets[segment.bucket].start, until, segment.bytes, !turns));
  }
  own.arena = plan_arena(own.lifetimes), shared.arena = plan_arena(shared.lifetimes);
  auto place = [&](const Lies& at) {
    return Slot{at.in == &own ? kOwn : kShared, at.in->arena.offsets[at.index]};
  };
  for (const Lies& segment : segments) segment_at_.push_back(place(segment));
  const auto micro_batches = static_cast<int64_t>(collectives_.size());
  floor_ = micro_batches * own.arena.floor + shared.arena.floor;
  arena_bytes_ = micro_batches * own.arena.bytes + shared.arena.bytes;
  if (kernels_) {
    for (int64_t j = 0; j < micro_batches; ++j)
      arenas_.emplace_back(own.arena.bytes, target_.device().memory());
    shared_ = Buffer(shared.arena.bytes, target_.device().memory());
  }
  auto slot = [&](ValueId v, int call) {
    const ValueId r = root(v);
    Slot at{base[r], 0};
    for (size_t g = 0; base[r] >= 0 && g < gathers_.segments.size(); ++g)
      if (const auto& segment = gathers_.segments[g];
          segment.input == base[r] && segment.first <= call && call <= segment.last)
        at = segment_at_[g];
    if (base[r] < 0) {
      const Lies& lies = values[home[r]];
      LS_CHECK(lies.in, "value %", v, " has no buffer");
      at = place(lies);
    }
    at.offset += places_[v].offset;
    return at;
  };
  for (size_t c = 0; c < calls_.size(); ++c) {
    const Node& node = graph_.node(calls_[c].node);
    const int call = static_cast<int>(c);
    if (is_body_wait(node)) continue;
    for (ValueId v : node.inputs) calls_[c].args.push_back(slot(v, call));
    if (is_body_start(node))
      calls_[c].args.push_back(slot(result_of_start(graph_, node), call));
    else
      for (ValueId v : node.outputs) calls_[c].args.push_back(slot(v, call));
    if (workspaces[c].in) calls_[c].workspace = place(workspaces[c]);
  }
  for (const auto& output : graph_.outputs) {
    LS_CHECK(
        is_dense({graph_[output.value].dtype, graph_[output.value].shape, places_[output.value].strides}),
        "output ", output.name, " is strided");
    outputs_.push_back(slot(output.value, end));
  }
}

// Streamed inputs: which calls read them, when they are gathered, and where they lie meanwhile.
void Native::plan_streams() {
  std::vector<GatherUse> uses;
  for (int input : streamed_) {
    const ValueId weight = graph_.inputs[input].value;
    GatherUse use{
        input, numel(graph_[weight].shape) * static_cast<int64_t>(size_of(graph_[weight].dtype)), {}};
    for (size_t c = 0; c < calls_.size(); ++c) {
      const auto& read = graph_.node(calls_[c].node).inputs;
      if (std::any_of(read.begin(), read.end(), [&](ValueId v) { return places_[v].root == weight; }))
        use.calls.push_back(static_cast<int>(c));
    }
    for (const auto& output : graph_.outputs)
      LS_CHECK(places_[output.value].root != weight, "output ", output.name,
               " is a weight that is freed after use");
    uses.push_back(std::move(use));
  }
  gathers_ = plan_gathers(uses, gather_options_);
}

int Native::bucket_of(int call) const {
  int bucket = -1;
  for (const auto& one : gathers_.buckets) bucket += one.wait <= call;
  return bucket;
}

}  // namespace lockstep
