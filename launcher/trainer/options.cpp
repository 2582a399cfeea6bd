// Converts a config to options, key by key.
#include "launcher/trainer/options.h"

#include <algorithm>
#include <thread>

#include "compiler/codegen/cache/kernel_cache.h"
#include "compiler/compile/memory_budget.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/table/op_library.h"

namespace lockstep::launcher {

using namespace compiler;

data::DataOptions data_options(const RunConfig& config) {
  const DataConfig& d = config.data;
  std::vector<data::DataSource> sources;
  for (const auto& row : d.sources)
    sources.push_back({row.paths, row.weight, row.text, row.prompt, row.completion, row.messages, row.label,
                       row.text_pair});
  return {.kind = d.kind,
          .paths = d.paths,
          .sources = std::move(sources),
          .tokenizer = d.tokenizer,
          .dtype = d.dtype,
          .order = d.order,
          .validation = d.validation,
          .vocab = config.model.integer("vocab", 1),
          .context = config.model.integer("context", 1),
          .seed = static_cast<uint64_t>(config.train.seed),
          .raw = d.raw,
          .read_whole = parse_bytes(d.fingerprint).value_or(0),
          .cache = cpu::KernelCache::default_dir() + "/data",
          .eos = d.eos,
          .text_key = d.text,
          .prompt_key = d.prompt,
          .completion_key = d.completion,
          .messages_key = d.messages,
          .chat_template = d.chat_template,
          .pack = d.pack,
          .label_key = d.label,
          .pair_key = d.text_pair,
          .classes = d.classes,
          .image = {d.image.crop, d.image.crop_share, d.image.flip, d.image.mean, d.image.deviation}};
}

DType compute_dtype(const RunConfig& config) { return dtype_of_precision(config.train.precision); }
DType dtype_of_precision(const std::string& precision) {
  if (precision == "fp32" || precision == "tf32") return DType::f32;
  if (precision == "bf16" || precision == "float8") return DType::bf16;
  if (precision == "fp16") return DType::f16;
  throw UserError(str("train.precision is \"", shortened(precision, 120),
                      "\"; choose fp32 | tf32 | bf16 | fp16 | float8"));
}

std::string precision_of(const State& state) {
  if (state.compute_dtype() == DType::bf16) return state.float8_products() ? "float8" : "bf16";
  return state.compute_dtype() == DType::f16 ? "fp16" : "fp32";
}

void set_precision(State& state, const RunConfig& config) {
  if (config.train.precision == "bf16" && state.float8_products())
    throw UserError(
        "train.precision is \"bf16\", and the program's layers multiply in float8 (State::float8); leave out "
        "one "
        "of the two");
  state.compute_dtype(compute_dtype(config));
  if (config.train.precision != "float8") return;
  const Float8Config& how = config.train.float8;
  const DType gradients = how.gradients == "e4m3" ? DType::f8_e4m3 : DType::f8_e5m2;
  state.float8({gradients, how.skip, how.head, parse_float8_recipe(how.recipe), how.history},
               {"", 0, "train.float8"});
}

CompileOptions compile_options(const RunConfig& config, int64_t local_ranks, const Target& target) {
  for (const std::string& path : config.compile.load_ops) load_ops(path);
  CompileOptions options;
  options.target = &target;
  options.backend = parse_backend(config.compile.backend);
  options.capture = config.compile.capture;
  options.fusion = config.compile.fusion;
  int64_t cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  options.threads = static_cast<int>(config.compile.threads
                                         ? config.compile.threads
                                         : std::max<int64_t>(1, cores / std::max<int64_t>(1, local_ranks)));
  options.memory_budget = parse_memory_budget(config.compile.memory_budget);
  options.offload_activations = config.compile.offload_activations;
  options.together = config.compile.together;
  options.offload_moments = config.optim.offload;
  options.invariant = config.train.numerics == "invariant";
  options.skip_passes = config.compile.skip_passes;
  options.extra_passes = config.compile.extra_passes;
  options.precision = config.train.precision;
  // A plan for the config's GPU is possible on a machine without one.
  options.stands_in = device_choice(config.train.device).kind == "cuda" && target.device().addressable();
  std::string device =
      device_choice(config.train.device).kind == "auto" ? target.device().kind() : config.train.device;
  if (auto wrong = precision_error(options.precision, device); !wrong.empty()) throw UserError(wrong);
  return options;
}

}  // namespace lockstep::launcher
