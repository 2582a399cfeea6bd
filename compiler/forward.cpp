// A compiled function without a loss.
#include "compiler/forward.h"

#include "compiler/codegen/kernel_library.h"
#include "compiler/lower/decompose.h"
#include "compiler/lower/simplify.h"
#include "compiler/pipeline.h"
#include "core/base/error.h"

namespace lockstep {

Forward::Forward(State& state, const std::vector<BatchField>& batch, const std::function<Tensor(const std::vector<Tensor>&)>& function,
                 const CompileOptions& options)
    : state_(state) {
  LS_CHECK(state.mesh().words.size() == 1, "a forward function runs on one rank");
  auto builder = std::make_shared<Builder>();
  std::vector<Tensor> inputs;
  for (const auto& field : batch)
    inputs.emplace_back(builder, builder->graph.add_input(InputKind::batch, field.name, field.dtype, field.shape));
  Tensor result = function(inputs);
  shape_ = result.shape();
  builder->graph.add_output(OutputKind::value, "result", result.id());
  PassContext context{state.mesh().words, [&state](const std::string& fqn) { return state.layout(fqn); }, options};
  graph_ = simplify(decompose(simplify(std::move(builder->graph), context), context), context);
  if (options.backend == Backend::reference) {
    executable_ = make_reference({graph_, {}});
    return;
  }
  graph_ = run_passes(std::move(graph_), phase_passes(), context);
  KernelOptions kernel_options;
  kernel_options.cache_dir = options.cache_dir;
  kernels_ = std::make_shared<const KernelLibrary>(compile_kernels(kernels_of(graph_), kernel_options));
  executable_ = make_native({graph_, {}}, kernels_, options);
}
Forward::~Forward() = default;

const void* Forward::run(const std::vector<void*>& batch) {
  std::vector<void*> inputs;
  size_t next = 0;
  for (const auto& input : graph_.inputs) {
    LS_CHECK(input.kind == InputKind::batch || input.kind == InputKind::state, "a forward function reads ", input.name);
    inputs.push_back(input.kind == InputKind::batch ? batch.at(next++) : static_cast<void*>(state_.array(input.name).data.data()));
  }
  executable_->run(inputs);
  return executable_->output(0);
}

}  // namespace lockstep
