// Updates by generated multi-tensor kernels, or by the reference evaluator.
#include "compiler/run/update.h"

#include <cstring>
#include <map>

#include "compiler/codegen/target.h"
#include "compiler/run/reference.h"
#include "core/base/error.h"
#include "core/ops/op.h"

namespace lockstep {

namespace {
class ReferenceUpdates : public UpdateBatcher {
 public:
  void add(const UpdateCall& call) override {
    const Graph& graph = *call.graph;
    std::vector<HostTensor> inputs;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const Value& value = graph[call.node->inputs[i]];
      inputs.push_back(make_tensor(value.dtype, value.shape.empty() ? Shape{} : Shape{call.count}));
      std::memcpy(inputs.back().data.data(), call.inputs[i], inputs.back().bytes());
    }
    auto outputs = evaluate_node(graph, *call.node, inputs);
    for (size_t o = 0; o < outputs.size(); ++o) std::memcpy(call.outputs[o], outputs[o].data.data(), outputs[o].bytes());
  }
  void flush(Stream&) override {}
};

Graph body_of(const Graph& graph, const Node& node) { return multi_tensor_body(node.op, node.attrs, graph[node.inputs[0]].dtype); }

// All updates of one kind (op and attributes other than the tensor's own weight decay) in one launch.
class MultiTensorUpdates : public UpdateBatcher {
 public:
  MultiTensorUpdates(std::shared_ptr<const KernelSet> kernels, const CompileOptions& options)
      : kernels_(std::move(kernels)), target_(target_of(options)), threads_(options.threads) {}

  void add(const UpdateCall& call) override {
    Kind& kind = kind_of(call);
    std::vector<void*> scalars, elements;
    for (size_t i = 0; i < call.inputs.size(); ++i)
      ((*call.graph)[call.node->inputs[i]].shape.empty() ? scalars : elements).push_back(call.inputs[i]);
    // Two optimizers of one kind have scalars of their own.
    Batch& batch = batches_[{kind.name, scalars}];
    batch.kernel = kind.kernel;
    batch.scalars = scalars;
    batch.table.insert(batch.table.end(), elements.begin(), elements.end());
    for (void* output : call.outputs) batch.table.push_back(output);
    batch.numels.push_back(call.count);
    batch.per_tensor.push_back(static_cast<float>(call.node->attrs.number("weight_decay")));
  }
  void flush(Stream& stream) override {
    for (auto& [key, batch] : batches_)
      batch.kernel->enqueue(batch.table.data(), batch.numels.data(), batch.per_tensor.data(), static_cast<int64_t>(batch.numels.size()),
                            batch.scalars.data(), stream, threads_);
    batches_.clear();
  }

 private:
  struct Kind {
    std::string name;
    const MultiTensorKernel* kernel = nullptr;
  };
  struct Batch {
    const MultiTensorKernel* kernel = nullptr;
    std::vector<void*> table, scalars;
    std::vector<int64_t> numels;
    std::vector<float> per_tensor;
  };
  Kind& kind_of(const UpdateCall& call) {
    Kind& kind = kinds_[call.node];
    if (kind.name.empty()) {
      kind.name = target_.generate_multi_tensor(body_of(*call.graph, *call.node)).name;
      kind.kernel = &kernels_->find_multi_tensor(kind.name);
    }
    return kind;
  }

  std::shared_ptr<const KernelSet> kernels_;
  const Target& target_;
  int threads_;
  std::map<const Node*, Kind> kinds_;
  std::map<std::pair<std::string, std::vector<void*>>, Batch> batches_;
};
}  // namespace

std::unique_ptr<UpdateBatcher> make_update_batcher(std::shared_ptr<const KernelSet> kernels, const CompileOptions& options) {
  if (!kernels) return std::make_unique<ReferenceUpdates>();
  return std::make_unique<MultiTensorUpdates>(std::move(kernels), options);
}

std::vector<KernelSource> update_kernels(const Phases& phases, const CompileOptions& options) {
  std::map<std::string, KernelSource> made;
  for (const Node& node : phases.whole.nodes)
    if (op_row(node.op).kind == OpKind::update) {
      KernelSource source = target_of(options).generate_multi_tensor(body_of(phases.whole, node));
      made.emplace(source.name, std::move(source));
    }
  std::vector<KernelSource> out;
  for (auto& [name, source] : made) out.push_back(std::move(source));
  return out;
}

}  // namespace lockstep
