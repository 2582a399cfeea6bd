// The native executable run: kernels and library calls in order, micro-batch after micro-batch, or bucket
// after bucket of weights. The eager backend is the same with a buffer per value and no sharing.
#include "compiler/runtime/native.h"

#include <chrono>

#include "core/base/error.h"

namespace lockstep {

Native::Native(const ExecutableSource& source, std::shared_ptr<const KernelSet> kernels,
               const CompileOptions& options)
    : graph_(source.graph),
      places_(places_of(graph_)),
      groups_(source.groups),
      collectives_(std::max<int64_t>(1, source.micro_batches), BodyCollectives(source.group_of)),
      kernels_(std::move(kernels)),
      options_(options),
      target_(target_of(options)),
      target_options_(target_options(options)),
      streamed_(source.streamed),
      gather_options_(source.gather) {
  make_calls();
  plan();
}

void Native::run(const std::vector<void*>& inputs, Stream& stream, const AfterGroup& after) {
  LS_CHECK(streamed_.empty(), "this executable gathers its weights; it needs to be given a way");
  enqueue(
      {{&inputs}}, stream,
      [&](size_t, int group) {
        if (after) after(group);
      },
      nullptr);
}
void Native::run(const std::vector<void*>& inputs, Stream& stream, const AfterGroup& after,
                 WeightGathers& weights) {
  enqueue(
      {{&inputs}}, stream,
      [&](size_t, int group) {
        if (after) after(group);
      },
      &weights);
}
void Native::run_layers(const std::vector<std::vector<void*>>& inputs, Stream& stream,
                        const AfterLayer& after, WeightGathers& weights) {
  LS_CHECK(inputs.size() <= collectives_.size(), inputs.size(), " micro-batches at once, made for ",
           collectives_.size());
  std::vector<Turn> turns;
  for (size_t j = 0; j < inputs.size(); ++j) turns.push_back({inputs[j].empty() ? nullptr : &inputs[j], j});
  enqueue(std::move(turns), stream, after, &weights);
}

const void* Native::output(size_t index) const { return pointer(outputs_[index], inputs_, micro_batch_); }

std::string Native::algorithms() const {
  std::string out;
  for (const Call& call : calls_)
    if (call.library || !call.kernel_name.empty())
      out += (!call.library ? call.kernel_name : call.library->algorithm()) + "\n";
  return out;
}

std::string Native::describe() const {
  std::string out = str("arena ", arena_bytes_, " bytes (floor ", floor_, ")\n");
  for (const Call& call : calls_) {
    const Node& node = graph_.node(call.node);
    out += is_body_start(node) || is_body_wait(node) ? std::string(node.op.name())
           : !call.library ? call.kernel_name + (node.body ? str(" ", fused_text(*node.body)) : "")
                           : call.library->algorithm();
    for (size_t i = 0; i < call.args.size(); ++i)
      out += str(i == 0             ? " ("
                 : i == call.inputs ? " -> "
                                    : ", ",
                 call.args[i].base == kOwn      ? "arena"
                 : call.args[i].base == kShared ? "shared"
                                                : str("in", call.args[i].base),
                 "+", call.args[i].offset);
    out += str(") @ ", node.at.text(), "\n");
  }
  return out;
}

double Native::flops() const {
  double sum = 0;
  for (const Call& call : calls_) sum += call.library ? call.library->flops() : 0;
  return sum;
}

std::vector<int> Native::group_ready() const {
  std::vector<int> out;
  for (int call : ready_) out.push_back(call + 1);
  return out;
}

std::byte* Native::pointer(const Slot& slot, const std::vector<void*>& inputs, size_t micro_batch) const {
  std::byte* base = slot.base == kOwn      ? arenas_[micro_batch].data()
                    : slot.base == kShared ? shared_.data()
                                           : static_cast<std::byte*>(inputs[slot.base]);
  return base + slot.offset;
}

void Native::enqueue(std::vector<Turn> turns, Stream& stream, const AfterLayer& after,
                     WeightGathers* weights) {
  LS_CHECK(kernels_ || calls_.empty(), "this executable was made for a plan; it has no kernels");
  auto reached = [&](Turn& turn, int done) {
    for (; turn.group < groups_.size() && ready_[turn.group] <= done; ++turn.group)
      after(turn.micro_batch, static_cast<int>(turn.group));
  };
  auto take = [&](const Turn& turn) {
    micro_batch_ = turn.micro_batch;
    if (turn.inputs) inputs_ = *turn.inputs;
  };
  for (Turn& turn : turns) {
    LS_CHECK(!turn.inputs || turn.inputs->size() == graph_.inputs.size(), turn.inputs->size(), " inputs for ",
             graph_.inputs.size());
    take(turn);
    reached(turn, -1);
  }
  const size_t buckets = weights ? gathers_.buckets.size() : 0;
  auto start_gather = [&](size_t b) {
    if (b >= buckets) return;
    std::vector<void*> to;
    for (int segment : gathers_.buckets[b].segments) to.push_back(pointer(segment_at_[segment], {}, 0));
    weights->start(static_cast<int>(b), to, stream);
  };
  start_gather(0);
  size_t bucket = 0;  // the next to be waited for; the one behind it is started then
  for (int from = 0, end = static_cast<int>(calls_.size()); from < end;) {
    for (; bucket < buckets && gathers_.buckets[bucket].wait == from; ++bucket) {
      weights->wait(static_cast<int>(bucket), stream);
      start_gather(bucket + 1);
    }
    const int to = bucket < buckets ? gathers_.buckets[bucket].wait : end;
    for (Turn& turn : turns) {
      take(turn);
      for (int c = from; c < to; ++c) {
        if (turn.inputs) enqueue_call(c, turn, stream);
        reached(turn, c);
      }
    }
    from = to;
  }
}

void Native::enqueue_call(size_t c, const Turn& turn, Stream& stream) {
  const Call& call = calls_[c];
  args_.clear();
  for (const Slot& slot : call.args) args_.push_back(pointer(slot, *turn.inputs, turn.micro_batch));
  auto start = timing() ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
  BodyCollectives& collectives = collectives_[turn.micro_batch];
  void* workspace = pointer(call.workspace, *turn.inputs, turn.micro_batch);
  if (const Node& node = graph_.node(call.node); is_body_start(node))
    collectives.start(graph_, node, args_[0], args_[1], stream);
  else if (is_body_wait(node))
    collectives.wait(node, stream);
  else if (!call.library)
    call.kernel->enqueue(args_.data(), workspace, stream, options_.threads);
  else
    call.library->enqueue(args_.data(), workspace, stream, options_.threads);
  if (!timing()) return;
  stream.synchronize();  // times of calls are of each alone
  times_[c].seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ++times_[c].runs;
}

namespace {
bool g_timing = false;
}

void set_timing(bool on) { g_timing = on; }
bool timing() { return g_timing; }

std::vector<KernelSource> kernels_of(const Graph& graph, const CompileOptions& options) {
  std::vector<KernelSource> out;
  for (const Node& node : graph.nodes)
    if (node.body) out.push_back(target_of(options).generate(*node.body));
  return out;
}

void Executable::run(const std::vector<void*>& inputs, Stream& stream, const AfterGroup& after,
                     WeightGathers&) {
  run(inputs, stream, after);
}
void Executable::run_layers(const std::vector<std::vector<void*>>&, Stream&, const AfterLayer&,
                            WeightGathers&) {
  throw InternalError("this executable runs one micro-batch at a time");
}
const GatherPlan& Executable::gathers() const {
  static const GatherPlan none;
  return none;
}

std::unique_ptr<Executable> make_native(const ExecutableSource& source,
                                        std::shared_ptr<const KernelSet> kernels,
                                        const CompileOptions& options) {
  return std::make_unique<Native>(source, std::move(kernels), options);
}

}  // namespace lockstep
