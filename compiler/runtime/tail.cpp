// The tail, node by node, on this rank's rows.
#include "compiler/runtime/tail.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "compiler/program/held_rows.h"
#include "compiler/runtime/update.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/ops/op.h"

namespace lockstep {

namespace {

// The name of the state that a value becomes; "" for none.
std::string state_output(const Graph& whole, ValueId v) {
  for (const auto& output : whole.outputs)
    if (output.value == v && output.kind == OutputKind::state) return output.name;
  return "";
}
bool keeps_outputs(const Node& node) {
  return node.op == ops::lane_sum || node.op == ops::norm_limbs || node.op == ops::norm_of_limbs;
}
// A sum over lanes takes the place of one of its addends, where this rank has rows of it.
bool lies_in_reducer(const Node& node, ValueId v, int64_t rows) {
  return node.op == ops::lane_sum && v == node.outputs[0] && rows > 0;
}
const Node& gather_of(const Graph& whole, const Node& wait) { return whole.producer(wait.inputs[0]); }
bool ends_gather(const Graph& whole, const Node& node) {
  return node.op == ops::wait && gather_of(whole, node).op == ops::all_gather_start;
}
const Node& wait_of(const Graph& whole, const Node& start) {
  for (const Node& node : whole.nodes)
    if (node.op == ops::wait && node.inputs[0] == start.outputs[0]) return node;
  throw InternalError(str("nothing waits for ", start.op, " at ", start.at.text()));
}
}  // namespace

int64_t tail_bytes(const Phases& phases, const Mesh& mesh, int64_t rank) {
  const Graph& whole = phases.whole;
  const HeldRows held(whole.mesh, mesh.coordinate(rank));
  int64_t bytes = 0;
  auto add = [&](ValueId v, int64_t elements) {
    bytes += elements * static_cast<int64_t>(size_of(whole[v].dtype));
  };
  std::vector<NodeId> nodes = phases.head;
  for (const auto& step : phases.tail)
    if (step.node.valid()) nodes.push_back(step.node);
  const std::set<NodeId> head(phases.head.begin(), phases.head.end());
  for (NodeId n : nodes) {
    const Node& node = whole.node(n);
    if (keeps_outputs(node) || (node.op == ops::convert && head.count(n)))
      for (ValueId v : node.outputs)
        if (!lies_in_reducer(node, v, held.of(whole[v]).count))
          add(v, std::max<int64_t>(1, held.of(whole[v]).count));
    if (node.op == ops::all_gather_start && held.size(node.attrs.word("mesh_dim")) > 1) {
      const Node& end = wait_of(whole, node);
      for (size_t i = 0; i < node.inputs.size(); ++i)
        add(node.inputs[i], held.of(whole[node.inputs[i]]).count + held.of(whole[end.outputs[i]]).count);
    }
    if (ends_gather(whole, node) &&
        !(head.count(n) && held.size(gather_of(whole, node).attrs.word("mesh_dim")) == 1))
      for (ValueId v : node.outputs)
        if (state_output(whole, v).empty()) add(v, held.of(whole[v]).count);
  }
  return bytes;
}

struct Tail::Impl {
  explicit Impl(Parts given)
      : parts(std::move(given)), whole(parts.phases.whole), held(whole.mesh, parts.mesh.coordinate()) {
    for (size_t b = 0; b < parts.phases.exchanges.size(); ++b) {
      ValueId handle = whole.node(parts.phases.exchanges[b]).outputs[0];
      exchange_of[handle] = static_cast<int>(b);
    }
    for (NodeId n : parts.phases.head) prepare_head(whole.node(n));
    for (const auto& step : parts.phases.tail)
      if (step.node.valid()) prepare(whole.node(step.node));
    batcher = make_update_batcher(parts.kernels, parts.options);
    gates = update_gates(whole);
  }

  Group& group(const Node& node) const {
    return parts.mesh.group_on(*parts.table.device, node.attrs.word("mesh_dim"));
  }
  int64_t ranks_of(const Node& node) const { return held.size(node.attrs.word("mesh_dim")); }
  int64_t local_count(ValueId v) const { return held.of(whole[v]).count; }
  void*& at(ValueId v) { return parts.table.at[v]; }
  void* own(ValueId v, int64_t elements) {
    owned_bytes += elements * static_cast<int64_t>(size_of(whole[v].dtype));
    return parts.table.own(v, elements * size_of(whole[v].dtype));
  }

  // Rounded rows; on one rank they are the weights that the body reads.
  void prepare_head(const Node& node) {
    if (node.op == ops::convert) {
      own(node.outputs[0], std::max<int64_t>(1, local_count(node.outputs[0])));
      for (const auto& input : whole.inputs)
        if (input.value == node.inputs[0]) rounded[input.name] = node.outputs[0];
    } else if (ends_gather(whole, node) && ranks_of(gather_of(whole, node)) == 1) {
      const Node& start = gather_of(whole, node);
      for (size_t i = 0; i < node.outputs.size(); ++i) at(node.outputs[i]) = at(start.inputs[i]);
    } else {
      prepare(node);
    }
  }

  void round_weights(Stream& on) {
    for (NodeId n : parts.phases.head) {
      const Node& node = whole.node(n);
      if (node.op == ops::convert) batcher->add(update_call(node));
    }
    batcher->flush(on);
  }
  void run_head(Stream& on) {
    stream = &on;
    for (NodeId n : parts.phases.head)
      if (const Node& node = whole.node(n); node.op != ops::convert) run_node(node);
  }
  UpdateCall update_call(const Node& node) {
    UpdateCall call;
    call.node = &node;
    call.graph = &whole;
    call.count = local_count(node.inputs[0]);
    for (ValueId v : node.inputs) call.inputs.push_back(at(v));
    if (node.op == ops::convert) call.outputs.push_back(at(node.outputs[0]));
    return call;
  }

  // Buffers: sums over lanes and row squares of this rank's rows; in-place homes of updated state; buffers of
  // gathered values.
  void prepare(const Node& node) {
    if (keeps_outputs(node))
      for (ValueId v : node.outputs)
        if (!lies_in_reducer(node, v, local_count(v))) own(v, std::max<int64_t>(1, local_count(v)));
    if (op_row(node.op).kind == OpKind::update) {
      // Output i replaces the i-th tensor input that is not the gradient (input 1): in place.
      for (size_t o = 0; o < node.outputs.size(); ++o)
        replaces[node.outputs[o]] = node.inputs[o == 0 ? 0 : o + 1];
    }
    if (node.op == ops::all_gather_start && ranks_of(node) > 1) {
      int64_t mine = 0, all = 0;
      const Node& end = wait_of(whole, node);
      for (ValueId v : node.inputs) mine += local_count(v);
      for (ValueId v : end.outputs) all += local_count(v);
      size_t element = size_of(whole[node.inputs[0]].dtype);
      auto& gather = gathers[node.outputs[0]];
      gather.send = Buffer(static_cast<size_t>(mine) * element, parts.table.device->memory());
      gather.receive = Buffer(static_cast<size_t>(all) * element, parts.table.device->memory());
      owned_bytes += static_cast<int64_t>(gather.send.bytes() + gather.receive.bytes());
    }
    if (ends_gather(whole, node)) {
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        // New weights go home into the state; other values get a buffer.
        std::string state = state_output(whole, node.outputs[i]);
        if (void* home = state.empty() ? nullptr : parts.state_of(state))
          at(node.outputs[i]) = home;
        else
          own(node.outputs[i], local_count(node.outputs[i]));
      }
    }
  }

  void run(Stream& on) {
    stream = &on;
    updates_begun = false;
    for (const auto& step : parts.phases.tail) {
      if (!step.node.valid()) {
        flush_sums();
        batcher->flush(*stream);
        const Phase& phase = parts.phases.fragments[step.fragment];
        Executable& fragment = *parts.fragments[step.fragment];
        fragment.run(parts.inputs_of(phase), *stream);
        for (size_t o = 0; o < phase.outputs.size(); ++o)
          at(phase.outputs[o]) = const_cast<void*>(fragment.output(o));
      } else {
        run_node(whole.node(step.node));
      }
    }
    flush_sums();
    batcher->flush(*stream);
  }

  // The sums over lanes of one exchange run together.
  void flush_sums() {
    if (!sums.empty()) parts.reductions.sum(sums, *stream);
    sums.clear();
  }

  void run_node(const Node& node) {
    if (node.op != ops::lane_sum && node.op != ops::local_rows) flush_sums();
    if (node.op == ops::local_rows) {
      const int64_t skipped = held.of(whole[node.outputs[0]]).first - held.of(whole[node.inputs[0]]).first;
      at(node.outputs[0]) = static_cast<std::byte*>(at(node.inputs[0])) +
                            skipped * static_cast<int64_t>(size_of(whole[node.inputs[0]].dtype));
    } else if (op_row(node.op).kind == OpKind::update) {
      if (!updates_begun && parts.before_updates) parts.before_updates(*stream);
      updates_begun = true;
      UpdateCall call = update_call(node);
      for (size_t k = 0; k < gates.size(); ++k) {
        LS_CHECK(at(gates[k]), "an update at ", node.at.text(), " comes before %", gates[k],
                 ", which decides whether it is made");
        call.gates.push_back(at(gates[k]));
        call.gates.push_back(const_cast<float*>(parts.limits + (k + 1 == gates.size() ? 1 : 0)));
      }
      for (ValueId v : node.outputs) call.outputs.push_back(at(v) = at(replaces[v]));
      if (auto found = rounded.find(state_output(whole, node.outputs[0]));
          found != rounded.end() && batcher->writes_copies()) {
        call.copy = at(found->second);
        call.copy_dtype = whole[found->second].dtype;
      }
      batcher->add(call);
    } else if (node.op == ops::lane_sum) {
      auto [b, tensor] = exchanged(node.inputs[0]);
      const bool there = lies_in_reducer(node, node.outputs[0], local_count(node.outputs[0]));
      sums.push_back(parts.reducers[b]->sum_of(tensor,
                                               there ? nullptr : static_cast<float*>(at(node.outputs[0])),
                                               static_cast<double*>(at(node.outputs[1]))));
      at(node.outputs[0]) = sums.back().out;
    } else if (node.op == ops::norm_limbs) {
      std::vector<Reductions::Doubles> addends;
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (!counted_elsewhere(node, i))
          addends.push_back({static_cast<const double*>(at(node.inputs[i])), local_count(node.inputs[i])});
      parts.reductions.limbs(addends, static_cast<int64_t*>(at(node.outputs[0])), *stream);
    } else if (node.op == ops::norm_of_limbs) {
      parts.reductions.norm_of_limbs(static_cast<const int64_t*>(at(node.inputs[0])),
                                     static_cast<float*>(at(node.outputs[0])), *stream);
    } else if (node.op == ops::all_reduce_start) {
      // In place: nothing else reads the local term.
      const Value& value = whole[node.inputs[0]];
      auto work = group(node).start(
          AllReduce{at(node.inputs[0]), at(node.inputs[0]), numel(value.shape), value.dtype, ReduceOp::sum},
          "norm", *stream);
      flights[node.outputs[0]] = work;
    } else if (node.op == ops::all_gather_start) {
      batcher->flush(*stream);
      start_gather(node);
    } else if (node.op == ops::wait) {
      wait(node);
    } else {
      throw InternalError(str("the tail cannot run ", node.op, " at ", node.at.text()));
    }
  }

  // Of a gradient that is equal on all ranks of a model dim, the first rank counts the squares.
  bool counted_elsewhere(const Node& norm, size_t input) const {
    if (!norm.attrs.has("model_dim")) return false;
    const auto& once = norm.attrs.list("once");
    return std::find(once.begin(), once.end(), static_cast<int64_t>(input)) != once.end() &&
           parts.mesh.coordinate()[parts.mesh.words.dim(norm.attrs.word("model_dim"))] != 0;
  }

  // Which bucket and which tensor of it a waited-for gradient is.
  std::pair<int, int> exchanged(ValueId v) const {
    const Node& wait = whole.producer(v);
    return {exchange_of.at(wait.inputs[0]), whole[v].index};
  }

  void start_gather(const Node& node) {
    const int64_t ranks = ranks_of(node);
    if (ranks == 1) return;
    auto& gather = gathers[node.outputs[0]];
    const int dim = held.dim(node.attrs.word("mesh_dim"));
    const size_t element = size_of(whole[node.inputs[0]].dtype);
    std::byte* to = gather.send.data();
    std::vector<int64_t> counts(ranks, 0);
    std::vector<Reductions::Copy> copies;
    for (ValueId v : node.inputs) {
      const size_t bytes = static_cast<size_t>(local_count(v)) * element;
      copies.push_back({to, at(v), bytes});
      to += bytes;
      for (int64_t r = 0; r < ranks; ++r) counts[r] += held.of(whole[v], dim, r).count;
    }
    parts.reductions.copy(copies, *stream);
    flights[node.outputs[0]] = group(node).start(
        AllGather{gather.send.data(), gather.receive.data(), counts, whole[node.inputs[0]].dtype},
        str("gather ", node.attrs.integer("bucket")), *stream);
  }

  void wait(const Node& node) {
    ValueId handle = node.inputs[0];
    if (auto found = exchange_of.find(handle); found != exchange_of.end())
      return parts.reducers[found->second]->wait(*stream);
    const Node& from = whole.producer(handle);
    if (auto flight = flights.find(handle); flight != flights.end()) {
      flight->second->wait(*stream);
      flights.erase(flight);
    }
    if (from.op == ops::all_reduce_start) {
      at(node.outputs[0]) = at(from.inputs[0]);
      return;
    }
    size_t element = size_of(whole[from.inputs[0]].dtype);
    std::vector<Reductions::Copy> copies;
    const int64_t ranks = ranks_of(from);
    if (ranks == 1) {
      for (size_t i = 0; i < node.outputs.size(); ++i)
        if (at(node.outputs[i]) != at(from.inputs[i]))
          copies.push_back({at(node.outputs[i]), at(from.inputs[i]),
                            static_cast<size_t>(local_count(from.inputs[i])) * element});
      return parts.reductions.copy(copies, *stream);
    }
    const int dim = held.dim(from.attrs.word("mesh_dim"));
    const std::byte* part = gathers[handle].receive.data();
    for (int64_t r = 0; r < ranks; ++r)
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        auto [first, count] = held.of(whole[from.inputs[i]], dim, r);
        const int64_t offset = first - held.of(whole[node.outputs[i]]).first;
        copies.push_back(
            {static_cast<std::byte*>(at(node.outputs[i])) + static_cast<size_t>(offset) * element, part,
             static_cast<size_t>(count) * element});
        part += static_cast<size_t>(count) * element;
      }
    parts.reductions.copy(copies, *stream);
  }

  struct Gather {
    Buffer send, receive;
  };
  Parts parts;
  const Graph& whole;
  HeldRows held;
  int64_t owned_bytes = 0;
  Stream* stream = nullptr;
  std::vector<Reductions::Sum> sums;
  std::unique_ptr<UpdateBatcher> batcher;
  std::vector<ValueId> gates;  // of the updates
  bool updates_begun = false;
  std::map<std::string, ValueId> rounded;  // state -> its rounded rows
  std::map<ValueId, int> exchange_of;
  std::map<ValueId, ValueId> replaces;
  std::map<ValueId, Gather> gathers;
  std::map<ValueId, std::shared_ptr<Work>> flights;
};

Tail::Tail(Parts parts) : impl_(std::make_unique<Impl>(std::move(parts))) {}
Tail::~Tail() = default;
void Tail::round_weights(Stream& stream) { impl_->round_weights(stream); }
bool Tail::rounds_in_update() const { return impl_->batcher->writes_copies() && !impl_->rounded.empty(); }
void Tail::run_head(Stream& stream) { impl_->run_head(stream); }
void Tail::run(Stream& stream) { impl_->run(stream); }
int64_t Tail::bytes() const { return impl_->owned_bytes; }

}  // namespace lockstep
