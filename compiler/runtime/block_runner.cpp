// Calls in order, every argument at its planned place.
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

void BlockRunner::run(int first, int last, const Memory& memory, Stream& stream) {
  for (int c = first; c < last; ++c) {
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
  const auto began = timing() ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
  switch (call.kind) {
    case BlockCall::Kind::kernel:
      LS_CHECK(kernel_of_[c], "this block was made for a plan; it has no kernels");
      kernel_of_[c]->enqueue(args_.data(), at(call.workspace, memory), stream, options_.threads);
      break;
    case BlockCall::Kind::library:
      call.library->enqueue(args_.data(), at(call.workspace, memory), stream, options_.threads);
      break;
    case BlockCall::Kind::evaluate:
      evaluate(call, stream);
      break;
    case BlockCall::Kind::start: {
      const BoundCollective bound = collectives_->bind(starts_[call.flight], args_[0], args_[1]);
      auto& work = memory.flights->at(call.flight) = bound.start(stream);
      if (recorder_) recorder_->started(bound, *work, stream);
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
  stream.synchronize();  // times of calls are of each alone
  times_[c].seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  ++times_[c].runs;
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
