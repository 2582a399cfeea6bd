// From a config to the options of the model, the data and the compiler.
#pragma once

#include "compiler/codegen/target.h"
#include "compiler/compile.h"
#include "launcher/config/config.h"
#include "launcher/data/dataset.h"

namespace lockstep::launcher {

data::DataOptions data_options(const RunConfig& config);
// What train.precision makes layers compute in (State::compute_dtype); tf32 is f32 with another contraction.
DType compute_dtype(const RunConfig& config);
// Makes the state compute in the config's precision. Its model is recorded. UserError: what State::float8
// throws.
void set_precision(State& state, const RunConfig& config);
// The word for what a state computes in: fp32, bf16, fp16 or float8.
std::string precision_of(const State& state);
// compute_dtype for a word. UserError for another one.
DType dtype_of_precision(const std::string& precision);
// Opens the libraries of compile.load_ops first. UserError when the device does not have the config's
// precision, and what load_ops throws. Threads: compile.threads, or this host's
// cores over its ranks.
compiler::CompileOptions compile_options(const RunConfig& config, int64_t local_ranks,
                                         const compiler::Target& target = compiler::cpu_target());

}  // namespace lockstep::launcher
