// The reference backend: the slow evaluator behind the interface of an executable.
#include <cstring>

#include "compiler/run/executable.h"
#include "compiler/run/reference.h"
#include "core/base/error.h"

namespace lockstep {

namespace {
class ReferenceExecutable : public Executable {
 public:
  explicit ReferenceExecutable(const ExecutableSource& source) : graph_(source.graph), groups_(source.groups) {}
  void run(const std::vector<void*>& inputs, Stream&, const AfterGroup& after) override {
    std::vector<HostTensor> arguments;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value& value = graph_[graph_.inputs[i].value];
      arguments.push_back(make_tensor(value.dtype, value.shape));
      std::memcpy(arguments.back().data.data(), inputs[i], arguments.back().bytes());
    }
    results_ = evaluate(graph_, arguments);
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
  std::vector<HostTensor> results_;
};
}  // namespace

std::unique_ptr<Executable> make_reference(const ExecutableSource& source) { return std::make_unique<ReferenceExecutable>(source); }

}  // namespace lockstep
