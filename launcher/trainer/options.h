// Converts a config to the options of the model, the data and the compiler.
#pragma once

#include "compiler/codegen/target.h"
#include "compiler/compile/compile.h"
#include "launcher/config/config.h"
#include "launcher/data/dataset.h"

namespace lockstep::launcher {

data::DataOptions data_options(const RunConfig& config);
// The compute dtype of layers for train.precision (State::compute_dtype); tf32 is f32 with a different
// contraction.
DType compute_dtype(const RunConfig& config);
// Makes the state compute in the config's precision, after its model is recorded. UserError from
// State::float8.
void set_precision(State& state, const RunConfig& config);
// The name of a state's precision: fp32, bf16, fp16 or float8.
std::string precision_of(const State& state);
// compute_dtype for a word. UserError for another one.
DType dtype_of_precision(const std::string& precision);
// Opens the libraries of compile.load_ops first. UserError when the device lacks the config's precision, and
// errors of load_ops. Threads: compile.threads, or this host's cores divided by its ranks.
compiler::CompileOptions compile_options(const RunConfig& config, int64_t local_ranks,
                                         const compiler::Target& target = compiler::cpu_target());

}  // namespace lockstep::launcher
