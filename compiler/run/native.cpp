// The native executable: kernels and library calls in order, every value at a fixed offset of one arena.
// The eager backend is the same with a buffer per value and no sharing.
#include <algorithm>
#include <chrono>
#include <set>

#include "compiler/codegen/target.h"
#include "compiler/run/executable.h"
#include "compiler/run/places.h"
#include "compiler/schedule/arena.h"
#include "core/base/error.h"
#include "core/device/buffer.h"
#include "core/ir/walk.h"

namespace lockstep {

namespace {
// A pointer of a call: graph input `base`, or the arena (-1).
struct Slot {
  int base = -1;
  int64_t offset = 0;
};
struct Call {
  const Kernel* kernel = nullptr;
  std::string kernel_name;
  std::unique_ptr<LibraryCall> library;
  std::vector<Slot> args;
  size_t inputs = 0;
  size_t workspace_bytes = 0;
  int64_t workspace = 0;  // offset in the arena
  NodeId node = -1;
};

class Native : public Executable {
 public:
  Native(const ExecutableSource& source, std::shared_ptr<const KernelSet> kernels, const CompileOptions& options)
      : graph_(source.graph),
        places_(places_of(graph_)),
        groups_(source.groups),
        collectives_(source.group_of),
        kernels_(std::move(kernels)),
        options_(options),
        target_(target_of(options)),
        target_options_(target_options(options)),
        streamed_(source.streamed),
        gather_options_(source.gather) {
    make_calls();
    plan();
  }

  void run(const std::vector<void*>& inputs, Stream& stream, const AfterGroup& after) override {
    LS_CHECK(streamed_.empty(), "this executable gathers its weights; it needs to be given a way");
    enqueue(inputs, stream, after, nullptr);
  }
  void run(const std::vector<void*>& inputs, Stream& stream, const AfterGroup& after, WeightGathers& weights) override {
    enqueue(inputs, stream, after, &weights);
  }
  const GatherPlan& gathers() const override { return gathers_; }

  const void* output(size_t index) const override {
    Slot slot = outputs_[index];
    return (slot.base < 0 ? arena_.data() : static_cast<std::byte*>(inputs_[static_cast<size_t>(slot.base)])) + slot.offset;
  }
  int64_t arena_bytes() const override { return arena_bytes_; }
  std::string algorithms() const override {
    std::string out;
    for (const Call& call : calls_)
      if (call.library || !call.kernel_name.empty()) out += (!call.library ? call.kernel_name : call.library->algorithm()) + "\n";
    return out;
  }
  std::string describe() const override {
    std::string out = str("arena ", arena_bytes_, " bytes (floor ", floor_, ")\n");
    for (const Call& call : calls_) {
      const Node& node = graph_.nodes[static_cast<size_t>(call.node)];
      out += is_body_start(node) || is_body_wait(node) ? node.op
             : !call.library                           ? call.kernel_name + (node.body ? str(" ", fused_text(*node.body)) : "") : call.library->algorithm();
      for (size_t i = 0; i < call.args.size(); ++i)
        out += str(i == 0             ? " ("
                   : i == call.inputs ? " -> "
                                      : ", ",
                   call.args[i].base < 0 ? "arena" : str("in", call.args[i].base), "+", call.args[i].offset);
      out += str(") @ ", node.at.text(), "\n");
    }
    return out;
  }
  double flops() const override {
    double sum = 0;
    for (const Call& call : calls_) sum += call.library ? call.library->flops() : 0;
    return sum;
  }
  std::vector<int> group_ready() const override {
    std::vector<int> out;
    for (int call : ready_) out.push_back(call + 1);
    return out;
  }
  int calls() const override { return static_cast<int>(calls_.size()); }
  std::vector<CallTime> times() const override { return times_; }

 private:
  void enqueue(const std::vector<void*>& inputs, Stream& stream, const AfterGroup& after, WeightGathers* weights) {
    LS_CHECK(kernels_ || calls_.empty(), "this executable was made for a plan; it has no kernels");
    LS_CHECK(inputs.size() == graph_.inputs.size(), inputs.size(), " inputs for ", graph_.inputs.size());
    inputs_ = inputs;
    std::byte* arena = arena_.data();
    size_t group = 0;
    auto reached = [&](int done) {
      while (group < groups_.size() && ready_[group] <= done) {
        if (after) after(static_cast<int>(group));
        ++group;
      }
    };
    reached(-1);
    std::vector<void*> args;
    size_t bucket = 0;  // the next to be waited for; the one behind it is started then
    auto start_gather = [&](size_t b) {
      if (b >= gathers_.buckets.size()) return;
      std::vector<void*> to;
      for (int segment : gathers_.buckets[b].segments) to.push_back(arena + segment_at_[static_cast<size_t>(segment)]);
      weights->start(static_cast<int>(b), to, stream);
    };
    if (weights) start_gather(0);
    for (size_t c = 0; c < calls_.size(); ++c) {
      const Call& call = calls_[c];
      for (; weights && bucket < gathers_.buckets.size() && gathers_.buckets[bucket].wait == static_cast<int>(c); ++bucket) {
        weights->wait(static_cast<int>(bucket), stream);
        start_gather(bucket + 1);
      }
      args.clear();
      for (const Slot& slot : call.args)
        args.push_back((slot.base < 0 ? arena : static_cast<std::byte*>(inputs[static_cast<size_t>(slot.base)])) + slot.offset);
      auto start = timing() ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
      if (const Node& node = graph_.nodes[static_cast<size_t>(call.node)]; is_body_start(node))
        collectives_.start(graph_, node, args[0], args[1], stream);
      else if (is_body_wait(node))
        collectives_.wait(node, stream);
      else if (!call.library)
        call.kernel->enqueue(args.data(), arena + call.workspace, stream, options_.threads);
      else
        call.library->enqueue(args.data(), arena + call.workspace, stream, options_.threads);
      if (timing()) {
        stream.synchronize();  // times of calls are of each alone
        times_[c].seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        ++times_[c].runs;
      }
      reached(static_cast<int>(c));
    }
  }


  static std::string fused_text(const Graph& body) {
    std::vector<std::string> ops;
    for (const Node& node : body.nodes)
      if (node.op != "broadcast" && node.op != "reshape" && node.op != "full") ops.push_back(node.op);
    if (ops.size() > 12) ops.resize(12), ops.push_back("...");
    return join(ops, ",");
  }

  void make_calls() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      bool alias = (node.op == "reshape" && !node.body) || node.attrs.flag("alias");
      if (alias) continue;
      Call call;
      call.node = static_cast<NodeId>(n);
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
        time.what = node.op;
        time.kind = "collective";
      } else {
        std::vector<Operand> in, out;
        for (ValueId v : node.inputs) in.push_back({graph_[v].dtype, graph_[v].shape, places_[static_cast<size_t>(v)].strides});
        for (ValueId v : node.outputs) out.push_back({graph_[v].dtype, graph_[v].shape, places_[static_cast<size_t>(v)].strides});
        LS_CHECK(target_.is_library_op(node.op), "the native backend has no kernel for ", node.op, " at ", node.at.text());
        call.library = target_.make_library_call(node, in, out, target_options_);
        call.workspace_bytes = call.library->workspace(options_.threads);
        time.what = call.library->algorithm();
        time.kind = node.op.rfind("sdpa", 0) == 0 ? "attention" : node.op == "dot" || node.op == "linear" ? "contraction" : "rows";
        time.flops = call.library->flops();
      }
      for (ValueId v : node.inputs) time.bytes += numel(graph_[v].shape) * static_cast<int64_t>(size_of(graph_[v].dtype));
      for (ValueId v : node.outputs) time.bytes += numel(graph_[v].shape) * static_cast<int64_t>(size_of(graph_[v].dtype));
      times_.push_back(time);
      calls_.push_back(std::move(call));
    }
  }

  // A collective reads its input and writes its result from its start to its wait.
  void hold_in_flight(std::vector<int>& first, std::vector<int>& last) const {
    std::map<ValueId, int> started;  // by handle
    auto root = [&](ValueId v) { return static_cast<size_t>(places_[static_cast<size_t>(v)].root); };
    for (size_t c = 0; c < calls_.size(); ++c) {
      const Node& node = graph_.nodes[static_cast<size_t>(calls_[c].node)];
      if (is_body_start(node)) started[node.outputs[0]] = static_cast<int>(c);
      if (!is_body_wait(node)) continue;
      const int start = started.at(node.inputs[0]);
      ValueId in = graph_.nodes[static_cast<size_t>(calls_[static_cast<size_t>(start)].node)].inputs[0];
      last[root(in)] = std::max(last[root(in)], static_cast<int>(c));
      first[root(node.outputs[0])] = std::min(first[root(node.outputs[0])], start);
    }
  }

  void plan() {
    // Lifetimes of roots in calls.
    int end = static_cast<int>(calls_.size());
    std::vector<int> first(graph_.values.size(), -1), last(graph_.values.size(), -1);
    auto root = [&](ValueId v) { return static_cast<size_t>(places_[static_cast<size_t>(v)].root); };
    std::vector<int> made(graph_.values.size(), -1);  // call that makes a value; aliases follow their source
    for (size_t c = 0; c < calls_.size(); ++c) {
      const Node& node = graph_.nodes[static_cast<size_t>(calls_[c].node)];
      for (ValueId v : node.inputs) last[root(v)] = std::max(last[root(v)], static_cast<int>(c));
      for (ValueId v : node.outputs) {
        made[static_cast<size_t>(v)] = static_cast<int>(c);
        if (first[root(v)] < 0) first[root(v)] = static_cast<int>(c);
        last[root(v)] = std::max(last[root(v)], static_cast<int>(c));
      }
    }
    hold_in_flight(first, last);
    for (const Node& node : graph_.nodes) {
      bool alias = (node.op == "reshape" && !node.body) || node.attrs.flag("alias");
      if (alias)
        for (ValueId v : node.inputs)
          made[static_cast<size_t>(node.outputs[0])] = std::max(made[static_cast<size_t>(node.outputs[0])], made[static_cast<size_t>(v)]);
    }
    // Groups, in order: each ready when its outputs and all earlier groups are.
    std::set<int> grouped;
    int before = -1;
    for (const auto& group : groups_) {
      for (int o : group)
        before = std::max(before, made[static_cast<size_t>(graph_.outputs[static_cast<size_t>(o)].value)]), grouped.insert(o);
      ready_.push_back(before);
    }
    for (size_t g = 0; g < groups_.size(); ++g)
      for (int o : groups_[g]) {
        size_t r = root(graph_.outputs[static_cast<size_t>(o)].value);
        last[r] = std::max(last[r], ready_[g] + 1);  // it is read after that call
      }
    for (size_t o = 0; o < graph_.outputs.size(); ++o)
      if (!grouped.count(static_cast<int>(o))) last[root(graph_.outputs[o].value)] = end;

    std::vector<int> base(graph_.values.size(), -1);
    for (size_t i = 0; i < graph_.inputs.size(); ++i) base[static_cast<size_t>(graph_.inputs[i].value)] = static_cast<int>(i);
    plan_streams();
    bool share = options_.backend == Backend::native;
    // A kernel's output takes over the buffer of an input that dies in this call, where the kernel allows it.
    std::vector<ValueId> home(graph_.values.size());
    for (size_t v = 0; v < home.size(); ++v) home[v] = static_cast<ValueId>(v);
    if (share)
      for (size_t c = 0; c < calls_.size(); ++c) {
        const Node& node = graph_.nodes[static_cast<size_t>(calls_[c].node)];
        if (!node.body) continue;
        std::set<size_t> taken;
        for (size_t o = 0; o < node.outputs.size(); ++o) {
          ValueId out = node.outputs[o];
          if (root(out) != static_cast<size_t>(out)) continue;
          for (size_t i = 0; i < node.inputs.size(); ++i) {
            size_t r = root(node.inputs[i]);
            bool whole = places_[static_cast<size_t>(node.inputs[i])].offset == 0 &&
                         numel(graph_.values[r].shape) == numel(graph_[out].shape) && graph_.values[r].dtype == graph_[out].dtype;
            bool readers_once = std::count_if(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return root(v) == r; }) == 1;
            if (base[r] >= 0 || !whole || !readers_once || taken.count(r) || last[r] != static_cast<int>(c) || !can_alias(*node.body, o, i))
              continue;
            taken.insert(r);
            home[static_cast<size_t>(out)] = home[r];
            size_t h = static_cast<size_t>(home[r]);
            last[h] = std::max(last[h], last[static_cast<size_t>(out)]);
            break;
          }
        }
        // The lifetime of a shared home reaches to its newest tenant.
        for (ValueId out : node.outputs)
          if (home[static_cast<size_t>(out)] != out)
            last[static_cast<size_t>(out)] =
                std::max(last[static_cast<size_t>(out)], last[static_cast<size_t>(home[static_cast<size_t>(out)])]);
      }
    std::vector<Lifetime> lifetimes;
    std::vector<int> index(graph_.values.size(), -1);
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      if (root(static_cast<ValueId>(v)) != v || first[v] < 0 || base[v] >= 0 || home[v] != static_cast<ValueId>(v)) continue;
      index[v] = static_cast<int>(lifetimes.size());
      int64_t bytes = numel(graph_.values[v].shape) * static_cast<int64_t>(size_of(graph_.values[v].dtype));
      lifetimes.push_back({share ? first[v] : 0, share ? last[v] : end, bytes});
    }
    std::vector<int> workspace(calls_.size(), -1);
    for (size_t c = 0; c < calls_.size(); ++c)
      if (calls_[c].workspace_bytes) {
        workspace[c] = static_cast<int>(lifetimes.size());
        lifetimes.push_back({static_cast<int>(c), static_cast<int>(c), static_cast<int64_t>(calls_[c].workspace_bytes)});
      }
    // Whole weights, from the start of their gathers to their last reader.
    const size_t first_segment = lifetimes.size();
    for (const auto& segment : gathers_.segments)
      lifetimes.push_back({share ? gathers_.buckets[static_cast<size_t>(segment.bucket)].start : 0, share ? segment.last : end, segment.bytes});
    ArenaPlan arena = plan_arena(lifetimes);
    for (size_t g = 0; g < gathers_.segments.size(); ++g) segment_at_.push_back(arena.offsets[first_segment + g]);
    floor_ = arena.floor;
    arena_bytes_ = arena.bytes;
    if (kernels_) arena_ = Buffer(static_cast<size_t>(arena.bytes), target_.device().memory());
    auto slot = [&](ValueId v, int call) {
      size_t r = root(v);
      for (size_t g = 0; base[r] >= 0 && g < gathers_.segments.size(); ++g)
        if (const auto& segment = gathers_.segments[g]; segment.input == base[r] && segment.first <= call && call <= segment.last)
          return Slot{-1, segment_at_[g] + places_[static_cast<size_t>(v)].offset};
      if (base[r] >= 0) return Slot{base[r], places_[static_cast<size_t>(v)].offset};
      size_t h = static_cast<size_t>(home[r]);
      LS_CHECK(index[h] >= 0, "value %", v, " has no buffer");
      return Slot{-1, arena.offsets[static_cast<size_t>(index[h])] + places_[static_cast<size_t>(v)].offset};
    };
    for (size_t c = 0; c < calls_.size(); ++c) {
      const Node& node = graph_.nodes[static_cast<size_t>(calls_[c].node)];
      const int call = static_cast<int>(c);
      if (is_body_wait(node)) continue;
      for (ValueId v : node.inputs) calls_[c].args.push_back(slot(v, call));
      if (is_body_start(node))
        calls_[c].args.push_back(slot(result_of_start(graph_, node), call));
      else
        for (ValueId v : node.outputs) calls_[c].args.push_back(slot(v, call));
      if (workspace[c] >= 0) calls_[c].workspace = arena.offsets[static_cast<size_t>(workspace[c])];
    }
    for (const auto& output : graph_.outputs) {
      LS_CHECK(is_dense({graph_[output.value].dtype, graph_[output.value].shape, places_[static_cast<size_t>(output.value)].strides}),
               "output ", output.name, " is strided");
      outputs_.push_back(slot(output.value, end));
    }
  }

  // Streamed inputs: which calls read them, when they are gathered, and where they lie meanwhile.
  void plan_streams() {
    std::vector<GatherUse> uses;
    for (int input : streamed_) {
      const ValueId weight = graph_.inputs[static_cast<size_t>(input)].value;
      GatherUse use{input, numel(graph_[weight].shape) * static_cast<int64_t>(size_of(graph_[weight].dtype)), {}};
      for (size_t c = 0; c < calls_.size(); ++c) {
        const auto& read = graph_.nodes[static_cast<size_t>(calls_[c].node)].inputs;
        if (std::any_of(read.begin(), read.end(), [&](ValueId v) { return places_[static_cast<size_t>(v)].root == weight; }))
          use.calls.push_back(static_cast<int>(c));
      }
      for (const auto& output : graph_.outputs)
        LS_CHECK(places_[static_cast<size_t>(output.value)].root != weight, "output ", output.name, " is a weight that is freed after use");
      uses.push_back(std::move(use));
    }
    gathers_ = plan_gathers(uses, gather_options_);
  }

  Graph graph_;
  std::vector<Place> places_;
  std::vector<std::vector<int>> groups_;
  BodyCollectives collectives_;
  std::vector<int> ready_;  // per group: the call after which it is ready
  std::shared_ptr<const KernelSet> kernels_;
  CompileOptions options_;
  const Target& target_;
  TargetOptions target_options_;
  std::vector<int> streamed_;  // inputs
  GatherOptions gather_options_;
  GatherPlan gathers_;
  std::vector<int64_t> segment_at_;  // per segment of it: offset in the arena
  std::vector<Call> calls_;
  std::vector<CallTime> times_;
  std::vector<Slot> outputs_;
  std::vector<void*> inputs_;
  Buffer arena_;
  int64_t arena_bytes_ = 0, floor_ = 0;
};

bool g_timing = false;
}  // namespace

void set_timing(bool on) { g_timing = on; }
bool timing() { return g_timing; }

std::vector<KernelSource> kernels_of(const Graph& graph, const CompileOptions& options) {
  std::vector<KernelSource> out;
  for (const Node& node : graph.nodes)
    if (node.body) out.push_back(target_of(options).generate(*node.body));
  return out;
}

void Executable::run(const std::vector<void*>& inputs, Stream& stream, const AfterGroup& after, WeightGathers&) {
  run(inputs, stream, after);
}
const GatherPlan& Executable::gathers() const {
  static const GatherPlan none;
  return none;
}

std::unique_ptr<Executable> make_native(const ExecutableSource& source, std::shared_ptr<const KernelSet> kernels,
                                        const CompileOptions& options) {
  return std::make_unique<Native>(source, std::move(kernels), options);
}

}  // namespace lockstep
