// The reference backend: the slow evaluator behind the interface of an executable.
#include <cstring>
#include <map>

#include "compiler/reference/evaluate.h"
#include "compiler/runtime/executable.h"
#include "core/base/error.h"

namespace lockstep {

namespace {
class ReferenceExecutable : public Executable {
 public:
  explicit ReferenceExecutable(const ExecutableSource& source)
      : graph_(source.graph), groups_(source.groups), collectives_(source.group_of) {}
  void run(const std::vector<void*>& inputs, Stream& stream, const AfterGroup& after) override {
    std::vector<HostTensor> arguments;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value& value = graph_[graph_.inputs[i].value];
      arguments.push_back(make_tensor(value.dtype, value.shape));
      std::memcpy(arguments.back().data.data(), inputs[i], arguments.back().bytes());
    }
    std::map<ValueId, std::pair<HostTensor, HostTensor>> flying;  // input and result, by handle
    results_ = evaluate(graph_, arguments,
                        [&](const Node& node, const std::vector<HostTensor>& in) -> std::vector<HostTensor> {
                          if (is_body_start(node)) {
                            const Value& result = graph_[result_of_start(graph_, node)];
                            auto& [from, to] =
                                flying[node.outputs[0]] = {in[0], make_tensor(result.dtype, result.shape)};
                            collectives_.start(graph_, node, from.data.data(), to.data.data(), stream);
                            return {make_tensor(DType::u8, {0})};
                          }
                          collectives_.wait(node, stream);
                          stream.synchronize();
                          return {flying.at(node.inputs[0]).second};
                        });
    for (size_t g = 0; g < groups_.size(); ++g)
      if (after) after(static_cast<int>(g));
  }
  const void* output(size_t index) const override { return results_[index].data.data(); }
  int64_t arena_bytes() const override { return 0; }
  std::string algorithms() const override { return "reference\n"; }
  std::string describe() const override { return "reference evaluator\n"; }

 private:
  Graph graph_;
  std::vector<std::vector<int>> groups_;
  BodyCollectives collectives_;
  std::vector<HostTensor> results_;
};
}  // namespace

std::unique_ptr<Executable> make_reference(const ExecutableSource& source) {
  return std::make_unique<ReferenceExecutable>(source);
}

}  // namespace lockstep
