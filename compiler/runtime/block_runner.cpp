// Runs calls in order, with every argument at its planned place.
#include "compiler/runtime/block_runner.h"

#include <chrono>
#include <cstring>

#include "compiler/reference/evaluate.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
bool g_timing = false;
}
void set_timing(bool on) { g_timing = on; }
bool timing() { return g_timing; }

BlockRunner::BlockRunner(const ProgramBlock& block, std::shared_ptr<const KernelSet> kernels,
                         const CompileOptions& options, const Collectives* collectives)
    : block_(block),
      kernels_(std::move(kernels)),
      options_(options),
      collectives_(collectives),
      kernel_of_(block.calls.size(), nullptr) {
  for (size_t c = 0; c < block.calls.size(); ++c) {
    const BlockCall& call = block.calls[c];
    times_.push_back({call.what, call.family, 0, 0, call.flops, call.bytes});
    if (call.kind == BlockCall::Kind::kernel && kernels_) kernel_of_[c] = &kernels_->find(call.name);
    if (call.kind != BlockCall::Kind::start) continue;
    LS_CHECK(collectives_, "a block that runs alone has a collective, ", call.what);
    starts_.resize(std::max(starts_.size(), static_cast<size_t>(call.flight) + 1));
    const std::string& along = block.graph.node(call.node).attrs.word("mesh_dim");
    starts_[call.flight] = start_of(block, call, collectives_->group(along).size());
  }
}

std::byte* BlockRunner::at(const BlockPlace& slot, const Memory& memory) {
  std::byte* base = slot.base == BlockPlace::own_arena ? memory.own
                    : slot.base == BlockPlace::shared_arena
                        ? memory.shared
                        : static_cast<std::byte*>(memory.inputs[slot.base]);
  return base + slot.offset;
}

int64_t BlockRunner::stride(const BlockPlace& slot, const Memory& memory) {
  return slot.base == BlockPlace::own_arena      ? memory.own_stride
         : slot.base == BlockPlace::shared_arena ? 0
                                                 : memory.strides[slot.base];
}

void BlockRunner::run(int first, int last, const Memory& memory, Stream& stream) {
  for (int c = first; c < last; ++c) {
    const BlockCall::Kind kind = block_.calls[c].kind;
    const bool travels = kind == BlockCall::Kind::start || kind == BlockCall::Kind::wait;
    if (give_up_ && !travels && give_up_()) continue;
    if (recorder_) recorder_->enter_call(c, stream);
    run_call(c, memory, stream);
    if (recorder_) recorder_->leave(stream);
  }
}

void BlockRunner::run_call(size_t c, const Memory& memory, Stream& stream) {
  const BlockCall& call = block_.calls[c];
  args_.clear();
  for (const BlockPlace& slot : call.args) args_.push_back(at(slot, memory));
  for (size_t i = 0; i < call.begins.size(); ++i)
    args_[i] = static_cast<std::byte*>(args_[i]) + call.begins[i];
  Repeats repeats{.count = memory.micro_batches};
  if (repeats.count > 1) {
    strides_.clear();
    for (const BlockPlace& slot : call.args) strides_.push_back(stride(slot, memory));
    repeats.strides = strides_.data(), repeats.args = strides_.size();
    repeats.workspace = stride(call.workspace, memory);
  }
  const auto began = timing() ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
  switch (call.kind) {
    case BlockCall::Kind::kernel:
      LS_CHECK(kernel_of_[c], "this block was made for a plan; it has no kernels");
      if (repeats.count == 1 || !kernel_of_[c]->enqueue_together(args_.data(), at(call.workspace, memory),
                                                                 repeats, stream, options_.threads))
        for (int64_t j = 0; j < repeats.count; ++j) {
          if (j > 0) repeats.step(args_.data());
          kernel_of_[c]->enqueue(args_.data(), at(call.workspace, memory) + j * repeats.workspace, stream,
                                 options_.threads);
        }
      break;
    case BlockCall::Kind::library:
      if (repeats.count == 1 || !call.library->enqueue_together(args_.data(), at(call.workspace, memory),
                                                                repeats, stream, options_.threads))
        run_each(*call.library, at(call.workspace, memory), repeats, memory.device, stream);
      break;
    case BlockCall::Kind::evaluate:
      for (int64_t j = 0; j < repeats.count; ++j) {
        if (j > 0) repeats.step(args_.data());
        evaluate(call, stream);
      }
      break;
    case BlockCall::Kind::start: {
      LS_CHECK(repeats.count == 1, "a collective along a model dim is of one micro-batch, ", call.what);
      const BoundCollective bound = collectives_->bind(starts_[call.flight], args_[0], args_[1]);
      auto& work = memory.flights->at(call.flight) = bound.start(stream);
      if (recorder_) recorder_->started(bound, work, stream);
      break;
    }
    case BlockCall::Kind::wait: {
      auto work = std::move(memory.flights->at(call.flight));
      LS_CHECK(work, "nothing is under way for the wait at ", block_.graph.node(call.node).at.text());
      work->wait(stream);
      break;
    }
  }
  if (!timing()) return;
  stream.synchronize();  // so that each call is timed separately
  times_[c].seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  times_[c].runs += repeats.count;
}

void BlockRunner::run_each(const LibraryCall& call, std::byte* workspace, const Repeats& repeats,
                           Device* device, Stream& stream) {
  constexpr size_t kSides = 3;  // in addition to the stream itself
  size_t sides = 0;
  if (repeats.count > 1 && device && !device->addressable() && call.runs_side_by_side())
    sides = std::min<size_t>(kSides, static_cast<size_t>(repeats.count) - 1);
  while (sides_.size() < sides) sides_.push_back(device->make_stream());
  const std::shared_ptr<Event> begun = sides ? stream.record() : nullptr;
  for (size_t s = 0; s < sides; ++s) sides_[s]->wait(begun);
  for (int64_t j = 0; j < repeats.count; ++j) {
    if (j > 0) repeats.step(args_.data());
    const size_t lane = static_cast<size_t>(j) % (sides + 1);
    call.enqueue(args_.data(), workspace + j * repeats.workspace, lane ? *sides_[lane - 1] : stream,
                 options_.threads);
  }
  for (size_t s = 0; s < sides; ++s) stream.wait(sides_[s]->record());
}

void BlockRunner::evaluate(const BlockCall& call, Stream& stream) const {
  stream.synchronize();
  const Node& node = block_.graph.node(call.node);
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < call.inputs; ++i) {
    const Value& value = block_.graph[node.inputs[i]];
    inputs.push_back(make_tensor(value.dtype, value.shape));
    if (inputs.back().bytes()) std::memcpy(inputs.back().data.data(), args_[i], inputs.back().bytes());
  }
  const auto outputs = evaluate_node(block_.graph, node, inputs);
  for (size_t o = 0; o < outputs.size(); ++o)
    if (outputs[o].bytes()) std::memcpy(args_[call.inputs + o], outputs[o].data.data(), outputs[o].bytes());
}

}  // namespace lockstep::compiler
