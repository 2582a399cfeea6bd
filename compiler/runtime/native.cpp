// The native executable run: kernels and library calls in order, micro-batch after micro-batch, or bucket
// after bucket of weights. The eager backend is the same with a buffer per value and no sharing.
#include "compiler/runtime/native.h"

#include <chrono>

#include "core/base/error.h"

namespace lockstep {

Native::Native(const ExecutableSource& source, std::shared_ptr<const KernelSet> kernels,
               const CompileOptions& options)
    : block_(plan_block({source.graph, source.groups, source.streamed, source.gather, source.micro_batches},
                        options)),
      collectives_(static_cast<size_t>(block_.micro_batches), BodyCollectives(source.group_of)),
      kernels_(std::move(kernels)),
      kernel_of_(block_.calls.size(), nullptr),
      options_(options) {
  for (const BlockCall& call : block_.calls)
    times_.push_back({call.what, call.family, 0, 0, call.flops, call.bytes});
  if (!kernels_) return;
  for (size_t c = 0; c < block_.calls.size(); ++c)
    if (block_.calls[c].kind == BlockCall::Kind::kernel)
      kernel_of_[c] = &kernels_->find(block_.calls[c].name);
  Allocator& memory = target_of(options_).device().memory();
  for (int64_t j = 0; j < block_.micro_batches; ++j)
    arenas_.emplace_back(static_cast<size_t>(block_.own_bytes), memory);
  shared_ = Buffer(static_cast<size_t>(block_.shared_bytes), memory);
}

void Native::run(const std::vector<void*>& inputs, Stream& stream, const AfterGroup& after) {
  LS_CHECK(block_.gathers.segments.empty(),
           "this executable gathers its weights; it needs to be given a way");
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

const void* Native::output(size_t index) const {
  return pointer(block_.outputs[index], inputs_, micro_batch_);
}

std::vector<int> Native::group_ready() const {
  std::vector<int> out;
  for (int call : block_.ready) out.push_back(call + 1);
  return out;
}

std::byte* Native::pointer(const BlockSlot& slot, const std::vector<void*>& inputs,
                           size_t micro_batch) const {
  std::byte* base = slot.base == BlockSlot::own_arena      ? arenas_[micro_batch].data()
                    : slot.base == BlockSlot::shared_arena ? shared_.data()
                                                           : static_cast<std::byte*>(inputs[slot.base]);
  return base + slot.offset;
}

void Native::enqueue(std::vector<Turn> turns, Stream& stream, const AfterLayer& after,
                     WeightGathers* weights) {
  LS_CHECK(kernels_ || block_.calls.empty(), "this executable was made for a plan; it has no kernels");
  auto reached = [&](Turn& turn, int done) {
    for (; turn.group < block_.groups.size() && block_.ready[turn.group] <= done; ++turn.group)
      after(turn.micro_batch, static_cast<int>(turn.group));
  };
  auto take = [&](const Turn& turn) {
    micro_batch_ = turn.micro_batch;
    if (turn.inputs) inputs_ = *turn.inputs;
  };
  for (Turn& turn : turns) {
    LS_CHECK(!turn.inputs || turn.inputs->size() == block_.graph.inputs.size(), turn.inputs->size(),
             " inputs for ", block_.graph.inputs.size());
    take(turn);
    reached(turn, -1);
  }
  const size_t buckets = weights ? block_.gathers.buckets.size() : 0;
  auto start_gather = [&](size_t b) {
    if (b >= buckets) return;
    std::vector<void*> to;
    for (int segment : block_.gathers.buckets[b].segments)
      to.push_back(pointer(block_.segment_at[segment], {}, 0));
    weights->start(static_cast<int>(b), to, stream);
  };
  start_gather(0);
  size_t bucket = 0;  // the next to be waited for; the one behind it is started then
  for (int from = 0, end = static_cast<int>(block_.calls.size()); from < end;) {
    for (; bucket < buckets && block_.gathers.buckets[bucket].wait == from; ++bucket) {
      weights->wait(static_cast<int>(bucket), stream);
      start_gather(bucket + 1);
    }
    const int to = bucket < buckets ? block_.gathers.buckets[bucket].wait : end;
    for (Turn& turn : turns) {
      take(turn);
      for (int c = from; c < to; ++c) {
        if (turn.inputs) enqueue_call(static_cast<size_t>(c), turn, stream);
        reached(turn, c);
      }
    }
    from = to;
  }
}

void Native::enqueue_call(size_t c, const Turn& turn, Stream& stream) {
  const BlockCall& call = block_.calls[c];
  args_.clear();
  for (const BlockSlot& slot : call.args) args_.push_back(pointer(slot, *turn.inputs, turn.micro_batch));
  auto start = timing() ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
  BodyCollectives& collectives = collectives_[turn.micro_batch];
  void* workspace = pointer(call.workspace, *turn.inputs, turn.micro_batch);
  const Node& node = block_.graph.node(call.node);
  switch (call.kind) {
    case BlockCall::Kind::kernel:
      kernel_of_[c]->enqueue(args_.data(), workspace, stream, options_.threads);
      break;
    case BlockCall::Kind::library:
      call.library->enqueue(args_.data(), workspace, stream, options_.threads);
      break;
    case BlockCall::Kind::start:
      collectives.start(block_.graph, node, args_[0], args_[1], stream);
      break;
    case BlockCall::Kind::wait:
      collectives.wait(node, stream);
      break;
  }
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
