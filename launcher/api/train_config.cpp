// Converts a program's options to config keys.
#include "launcher/api/train_config.h"

#include <filesystem>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/mesh/fingerprint.h"
#include "core/reading/one_line.h"
#include "launcher/api/option_words.h"
#include "launcher/config/config.h"
#include "launcher/trainer/options.h"

namespace lockstep {

using launcher::RunConfig;

namespace {
void check_validation(const TrainOptions& options) {
  const char* asked = options.patience > 0 ? "patience" : options.best ? "best" : "";
  if (!options.validation) {
    if (*asked)
      throw UserError(str("[train] ", asked, " goes by validations, and there is no validation: give one"));
    return;
  }
  const Validation& v = *options.validation;
  if (v.samples < 1)
    throw UserError(str("[train] validation.samples is ", v.samples, "; a validation measures at least 1"));
  if (v.data.rows > 0 && v.samples > v.data.rows)
    throw UserError(str("[train] validation.samples is ", v.samples, ", and its data has ", v.data.rows,
                        v.data.rows == 1 ? " row" : " rows", ", so that some would be measured twice: take ",
                        v.data.rows));
  if (v.every < 0) throw UserError(str("[train] validation.every is ", v.every, ", needs 0 or more steps"));
}

// log.profile: `trainrun --profile=N ./program` passes it in the environment.
int64_t traced_steps(const TrainOptions& options) {
  const std::string asked = env("LOCKSTEP_PROFILE");
  return asked.empty() ? options.profile : std::atoll(asked.c_str());
}
}  // namespace

void compare_options(const Session& session, const TrainOptions& o) {
  if (session.planned()) return;
  Json all = {{"steps", o.steps},
              {"global_batch", o.global_batch},
              {"micro_batch", o.micro_batch},
              {"lanes", o.lanes},
              {"memory_budget", o.memory_budget},
              {"together", o.together},
              {"offload_moments", o.offload_moments},
              {"offload_activations", o.offload_activations},
              {"save_every", o.save_every},
              {"save_async", o.save_async},
              {"memory_every", o.memory_every},
              {"report_every", o.report_every},
              {"keep", o.keep},
              {"monitor", o.monitor},
              {"monitor_mode", o.monitor_mode},
              {"min_delta", o.min_delta},
              {"best", o.best},
              {"patience", o.patience},
              {"on_nonfinite", o.on_nonfinite},
              {"nonfinite_limit", o.nonfinite_limit},
              {"on_spike", o.on_spike},
              {"spike_factor", o.spike_factor},
              {"spike_window", o.spike_window},
              {"hash_every", o.hash_every},
              {"norms_every", o.norms_every},
              {"tensorboard", o.tensorboard},
              {"profile", traced_steps(o)},
              {"retries", o.retries},
              {"on_failure", o.on_failure},
              {"replicas_every", o.replicas_every},
              {"recompute_every", o.recompute_every},
              {"on_corruption", o.on_corruption},
              {"return_when_stopped", o.return_when_stopped},
              {"precision", session.precision()}};
  if (o.validation) {
    all["validation.samples"] = o.validation->samples, all["validation.every"] = o.validation->every;
    all["validation.measured"] = o.validation->measured ? "a function" : "none";
  }
  FingerprintPart options{"set of options of train()", {}, "give every rank the same options"};
  for (const auto& [name, value] : all.items())
    options.lines.push_back({name, value.dump(-1, ' ', false, Json::error_handler_t::replace)});
  compare(
      *session.mesh().world, "where train() is called",
      {options,
       {"folder of the run",
        {{"run", one_line(o.run)}},
        "every rank reads and writes one folder: a time, a draw or a rank's number in its name differs, so "
        "make the name before the ranks start, and hand it over as an argument of the program"}});
}

RunConfig config_of(const TrainOptions& options, const Session& session, const State& state) {
  check_validation(options);
  RunConfig c;
  c.name = "program";
  c.mesh.shape = session.mesh().words.shape;
  c.mesh.dim_names = session.mesh().words.dim_names;
  c.batch.global = options.global_batch, c.batch.micro = options.micro_batch, c.batch.lanes = options.lanes;
  c.train.steps = options.steps;
  c.train.precision = session.precision().empty() ? launcher::precision_of(state) : session.precision();
  c.train.eval_every = options.validation ? options.validation->every : 0;
  c.train.monitor = options.monitor, c.train.monitor_mode = options.monitor_mode;
  c.train.min_delta = options.min_delta, c.train.patience = options.patience;
  c.train.on_nonfinite = options.on_nonfinite, c.train.nonfinite_limit = options.nonfinite_limit;
  c.train.on_spike = options.on_spike, c.train.spike_factor = options.spike_factor;
  c.train.spike_window = options.spike_window;
  c.checkpoint.every = options.save_every, c.checkpoint.async = options.save_async;
  c.checkpoint.memory_every = options.memory_every, c.checkpoint.keep = options.keep;
  c.checkpoint.best = options.best;
  c.checkpoint.retries = options.retries, c.checkpoint.on_failure = options.on_failure;
  c.log.every = options.report_every, c.log.hash_every = options.hash_every;
  c.log.norms_every = options.norms_every, c.log.tensorboard = options.tensorboard;
  c.log.profile = traced_steps(options);
  c.verify.replicas_every = options.replicas_every;
  c.verify.recompute_every = options.recompute_every, c.verify.on_corruption = options.on_corruption;
  RunConfig checked = c;
  // a config holds out a share of its data for validation
  checked.data.validation = options.validation ? 0.5 : 0;
  if (const auto errors = config_errors(checked, launcher::DataPaths::may_be_empty); !errors.empty())
    throw UserError("[train] " + in_options(join(errors, "\n")));
  c.name = std::filesystem::path(options.run).lexically_normal().filename();
  return c;
}

}  // namespace lockstep
