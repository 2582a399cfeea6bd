// Plans a block: its calls, the lifetimes of values, and their places.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/codegen/target.h"
#include "compiler/program/blocks/calls.h"
#include "compiler/program/blocks/gaps.h"
#include "compiler/program/blocks/places.h"
#include "compiler/schedule/arena.h"
#include "compiler/schedule/host_copies.h"
#include "core/base/error.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
// The calls from `first` to `last` during which a value must stay in memory.
struct Life {
  int first = -1, last = -1;
};

class Planner {
 public:
  Planner(BlockSource source, const CompileOptions& options)
      : source_(std::move(source)),
        options_(options),
        target_(options.backend == Backend::reference ? cpu_target() : target_of(options)),
        places_(places_of(source_.graph)),
        life_(source_.graph.values.size()),
        input_of_(source_.graph.values.size(), -1),
        home_(source_.graph.values.size()) {
    block_.graph = std::move(source_.graph);
    block_.groups = std::move(source_.groups);
    block_.micro_batches = std::max<int64_t>(1, source_.micro_batches);
    for (size_t i = 0; i < graph().inputs.size(); ++i)
      input_of_[graph().inputs[i].value] = static_cast<int>(i);
  }

  ProgramBlock plan() {
    block_.calls = calls_of(graph(), places_, options_, target_);
    find_lives();
    hold_in_flight();
    find_ready();
    plan_streams();
    for (ValueId v : graph().value_ids()) home_[v] = v;
    if (shares()) share_homes();
    place_all();
    bind();
    return std::move(block_);
  }

 private:
  const Graph& graph() const { return block_.graph; }
  bool shares() const { return options_.backend != Backend::eager; }  // eager: a buffer per value
  bool in_turns() const { return block_.micro_batches > 1; }
  int end() const { return static_cast<int>(block_.calls.size()); }
  ValueId root(ValueId v) const { return places_[v].root; }
  const Node& node_of(const BlockCall& call) const { return graph().node(call.node); }
  // The bucket whose weights are the last ones awaited before the call; -1: none.
  int part_of(int call) const {
    int part = -1;
    for (const auto& bucket : block_.gathers.buckets) part += bucket.wait <= call;
    return part;
  }

  void find_lives();
  void hold_in_flight();
  void find_ready();
  void plan_streams();
  void share_homes();
  void share_home(int call, ValueId out, std::set<ValueId>& taken);
  void place_all();
  void let_wait();
  void set_away(const ArenaWithin& made, const std::vector<BufferGap>& gaps);
  void bind();

  // A buffer with a lifetime, to be placed in one of the two arenas.
  struct Arena {
    std::vector<Lifetime> lives;
    ArenaPlan plan;
  };
  struct Buffer {
    Arena* in = nullptr;
    size_t index = 0;
  };
  Buffer live(int from, int to, int64_t bytes, bool own);
  BlockPlace slot_of(const Buffer& at) const {
    return {at.in == &own_ ? BlockPlace::own_arena : BlockPlace::shared_arena, at.in->plan.offsets[at.index]};
  }
  BlockPlace slot_of(ValueId v, int call) const;

  BlockSource source_;
  const CompileOptions& options_;
  const Target& target_;
  PerValue<Place> places_;
  ProgramBlock block_;
  PerValue<Life> life_;     // per root
  PerValue<int> made_;      // per value: the call that makes it; for aliases, that of their source
  PerValue<int> input_of_;  // per value: the graph input that it is; -1
  PerValue<ValueId> home_;  // per root: the root whose buffer it takes over
  Arena own_, shared_;
  PerValue<Buffer> values_;
  std::map<ValueId, size_t> away_;  // per waiting buffer: its index in ProgramBlock::away
  std::vector<Buffer> workspaces_;  // per call
};

void Planner::find_lives() {
  made_.assign(graph().values.size(), -1);
  for (int c = 0; c < end(); ++c) {
    const Node& node = node_of(block_.calls[c]);
    for (ValueId v : node.inputs) life_[root(v)].last = std::max(life_[root(v)].last, c);
    for (ValueId v : node.outputs) {
      made_[v] = c;
      Life& life = life_[root(v)];
      if (life.first < 0) life.first = c;
      life.last = std::max(life.last, c);
    }
  }
  for (const Node& node : graph().nodes)
    if (is_alias(node))
      for (ValueId v : node.inputs) {
        int& made = made_[node.outputs[0]];
        made = std::max(made, made_[v]);
      }
}

// A collective uses its input and its result from its start to its wait.
void Planner::hold_in_flight() {
  std::map<int, int> started;  // by flight
  for (int c = 0; c < end(); ++c) {
    const BlockCall& call = block_.calls[c];
    if (call.kind == BlockCall::Kind::start) started[call.flight] = c;
    if (call.kind != BlockCall::Kind::wait) continue;
    const int start = started.at(call.flight);
    const ValueId in = node_of(block_.calls[start]).inputs[0];
    Life &read = life_[root(in)], &made = life_[root(node_of(call).outputs[0])];
    read.last = std::max(read.last, c);
    made.first = std::min(made.first, start);
  }
}

// Groups, in order: each is ready when its outputs and all earlier groups are, and is read after that call.
void Planner::find_ready() {
  std::set<int> grouped;
  int before = -1;
  auto value_of = [&](int output) { return graph().outputs[output].value; };
  for (const auto& group : block_.groups) {
    for (int o : group) {
      before = std::max(before, made_[value_of(o)]);
      grouped.insert(o);
    }
    block_.ready.push_back(before);
  }
  for (size_t g = 0; g < block_.groups.size(); ++g)
    for (int o : block_.groups[g]) {
      Life& life = life_[root(value_of(o))];
      life.last = std::max(life.last, source_.keeps ? end() : block_.ready[g] + 1);
    }
  for (size_t o = 0; o < graph().outputs.size(); ++o)
    if (!grouped.count(static_cast<int>(o))) life_[root(graph().outputs[o].value)].last = end();
}

// Streamed inputs: the calls that read them, the times of their gathers, and their places. An input that is
// also an output stays to the end.
void Planner::plan_streams() {
  std::vector<GatherUse> uses;
  for (int input : source_.streamed) {
    const ValueId weight = graph().inputs[input].value;
    GatherUse use{input, bytes_of(graph()[weight]), {}};
    for (int c = 0; c < end(); ++c) {
      const auto& read = node_of(block_.calls[c]).inputs;
      if (std::any_of(read.begin(), read.end(), [&](ValueId v) { return root(v) == weight; }))
        use.calls.push_back(c);
    }
    if (std::any_of(graph().outputs.begin(), graph().outputs.end(),
                    [&](const auto& output) { return root(output.value) == weight; })) {
      LS_CHECK(!use.calls.empty(), "no call reads the weight ", graph().inputs[input].name);
      use.calls.push_back(end());
    }
    uses.push_back(std::move(use));
  }
  block_.gathers = plan_gathers(uses, source_.gather);
}

// A kernel's output takes over the buffer of an input whose last use is this call, if the kernel allows it.
void Planner::share_homes() {
  for (int c = 0; c < end(); ++c) {
    const Node& node = node_of(block_.calls[c]);
    if (!node.body) continue;
    std::set<ValueId> taken;
    for (ValueId out : node.outputs) share_home(c, out, taken);
    // The lifetime of a shared buffer extends to its newest user.
    for (ValueId out : node.outputs) {
      const ValueId home = home_[out];
      if (home == out) continue;
      int& last = life_[out].last;
      last = std::max(last, life_[home].last);
    }
  }
}

void Planner::share_home(int call, ValueId out, std::set<ValueId>& taken) {
  const Node& node = node_of(block_.calls[call]);
  if (root(out) != out) return;
  const auto o = static_cast<size_t>(graph()[out].index);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId r = root(node.inputs[i]);
    const Value& held = graph()[r];
    const bool whole = places_[node.inputs[i]].offset == 0 &&
                       numel(held.shape) == numel(graph()[out].shape) && held.dtype == graph()[out].dtype;
    const bool read_once =
        std::count_if(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return root(v) == r; }) == 1;
    if (input_of_[r] >= 0 || !whole || !read_once || taken.count(r) || life_[r].last != call ||
        !can_alias(*node.body, o, i))
      continue;
    taken.insert(r);
    home_[out] = home_[r];
    int& last = life_[home_[r]].last;
    last = std::max(last, life_[out].last);
    return;
  }
}

Planner::Buffer Planner::live(int from, int to, int64_t bytes, bool own) {
  if (!shares()) from = 0, to = end();
  Arena& in = own ? own_ : shared_;
  in.lives.push_back({from, to, bytes});
  return {&in, in.lives.size() - 1};
}

// Several micro-batches share, in turns, the memory of values that live only between two waits for weights.
void Planner::place_all() {
  values_.resize(graph().values.size());
  for (ValueId v : graph().value_ids()) {
    const auto [first, last] = life_[v];
    if (root(v) != v || first < 0 || input_of_[v] >= 0 || home_[v] != v) continue;
    const bool own = !in_turns() || last >= end() || part_of(first) != part_of(last);
    values_[v] = live(first, last, bytes_of(graph()[v]), own);
  }
  workspaces_.resize(block_.calls.size());
  for (size_t c = 0; c < block_.calls.size(); ++c)
    if (const size_t bytes = block_.calls[c].workspace_bytes)
      workspaces_[c] =
          live(static_cast<int>(c), static_cast<int>(c), static_cast<int64_t>(bytes), !in_turns());
  // Whole weights live from the start of their gathers to their last reader. A gather starts before the
  // copies at its call. If values wait in host memory, one that leaves may be gone only at that call, and
  // keeps its place until then.
  const int ahead = source_.within > 0 ? 1 : 0;
  std::vector<Buffer> segments;
  for (const auto& segment : block_.gathers.segments) {
    int until = segment.last;
    while (in_turns() && until + 1 < end() && part_of(until + 1) == part_of(segment.last))
      ++until;  // the next micro-batch reads it, too
    const auto& bucket = block_.gathers.buckets[segment.bucket];
    segments.push_back(
        live(std::max(0, bucket.start - ahead), until, segment.bytes, !in_turns() && !source_.together));
  }
  own_.plan = plan_arena(own_.lives), shared_.plan = plan_arena(shared_.lives);
  if (source_.within > 0 && shares() && !in_turns()) let_wait();
  for (const Buffer& segment : segments) block_.segment_at.push_back(slot_of(segment));
  block_.own_bytes = own_.plan.bytes, block_.shared_bytes = shared_.plan.bytes;
  block_.floor = block_.micro_batches * own_.plan.floor + shared_.plan.floor;
}

// Reduces the arena to BlockSource::within, or as near as copies can bring it.
void Planner::let_wait() {
  std::vector<double> seconds;
  for (const BlockCall& call : block_.calls) seconds.push_back(seconds_of(call, options_.travel));
  const std::vector<BufferGap> buffers = gaps_of(block_, places_, home_, seconds);
  std::vector<Gap> gaps;
  for (const BufferGap& gap : buffers)
    if (const Buffer& at = values_[gap.buffer]; at.in == &own_) gaps.push_back({at.index, gap.from, gap.to});
  ArenaWithin made = plan_arena_within(own_.lives, gaps, seconds, options_.travel, source_.within);
  own_.plan = std::move(made.arena);
  set_away(made, buffers);
}

void Planner::set_away(const ArenaWithin& made, const std::vector<BufferGap>& gaps) {
  block_.host_bytes = made.host.bytes, block_.stall = made.stall;
  for (size_t k = 0; k < made.copies.size(); ++k) {
    const HostCopy& copy = made.copies[k];
    const auto gap = std::find_if(gaps.begin(), gaps.end(), [&](const BufferGap& one) {
      return values_[one.buffer].in == &own_ && values_[one.buffer].index == copy.life;
    });
    away_[gap->buffer] = k;
    block_.away.push_back({copy.leaves, copy.gone, copy.comes, copy.back, slot_of(Buffer{&own_, copy.life}),
                           slot_of(Buffer{&own_, own_.lives.size() + k}), made.host.offsets[k],
                           own_.lives[copy.life].bytes, gap->node});
  }
}

BlockPlace Planner::slot_of(ValueId v, int call) const {
  const ValueId r = root(v);
  BlockPlace at{input_of_[r], 0};
  if (at.base < 0) {
    const Buffer& buffer = values_[home_[r]];
    LS_CHECK(buffer.in, "value %", v, " has no buffer");
    const auto away = away_.find(home_[r]);
    const bool came = away != away_.end() && call >= block_.away[away->second].comes;
    at = came ? block_.away[away->second].to : slot_of(buffer);
  } else {
    const auto& segments = block_.gathers.segments;
    for (size_t s = 0; s < segments.size(); ++s)
      if (segments[s].input == input_of_[r] && segments[s].first <= call && call <= segments[s].last)
        at = block_.segment_at[s];
  }
  at.offset += places_[v].offset;
  return at;
}

void Planner::bind() {
  std::map<int, ValueId> result;  // by flight
  for (const BlockCall& call : block_.calls)
    if (call.kind == BlockCall::Kind::wait) result[call.flight] = node_of(call).outputs[0];
  for (int c = 0; c < end(); ++c) {
    BlockCall& call = block_.calls[c];
    if (call.kind == BlockCall::Kind::wait) continue;
    const Node& node = node_of(call);
    for (ValueId v : node.inputs) call.args.push_back(slot_of(v, c));
    if (call.kind == BlockCall::Kind::start) {
      LS_CHECK(result.count(call.flight), node.op, " at ", node.at.text(), " is never waited for");
      call.args.push_back(slot_of(result[call.flight], c));
    } else {
      for (ValueId v : node.outputs) call.args.push_back(slot_of(v, c));
    }
    if (const Buffer& workspace = workspaces_[c]; workspace.in) call.workspace = slot_of(workspace);
  }
  for (const auto& output : graph().outputs) {
    const Value& value = graph()[output.value];
    LS_CHECK(is_dense({value.dtype, value.shape, places_[output.value].strides}), "output ", output.name,
             " is strided");
    block_.outputs.push_back(slot_of(output.value, end()));
  }
}
}  // namespace

ProgramBlock plan_block(BlockSource source, const CompileOptions& options) {
  return Planner(std::move(source), options).plan();
}

}  // namespace lockstep::compiler
