// Data and compile() for user programs.
#include "launcher/api/program.h"

#include "core/base/error.h"

namespace lockstep {

TokenFile::TokenFile(const std::string& path, TokenFileOptions options)
    : options_(std::move(options)),
      data_({.kind = "tokens",
             .paths = {path},
             .dtype = options_.dtype,
             .order = options_.order,
             .vocab = options_.vocab,
             .context = options_.context,
             .seed = options_.seed}) {}

compiler::StepInput TokenFile::at(int64_t i) const {
  return {i + 1, [this, i](int64_t first, int64_t count, const std::vector<void*>& fields) {
            data_.fill(i, options_.global_batch, first, count, static_cast<int32_t*>(fields[0]),
                       static_cast<int32_t*>(fields[1]));
          }};
}

compiler::Step compile(State& state, const TokenFile::Spec& spec,
                       const std::function<Loss(Tensor ids, Tensor targets)>& function,
                       compiler::CompileOptions options) {
  Shape shape{spec.micro_batch, spec.context};
  return compile(
      state, {{"ids", DType::i32, shape}, {"targets", DType::i32, shape}},
      {spec.global_batch, spec.micro_batch, spec.lanes},
      [&](const std::vector<Tensor>& batch) { return function(batch[0], batch[1]); }, options);
}

}  // namespace lockstep
