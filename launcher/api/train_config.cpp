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
  Json all = Json::object();
  each_train_option([&](const char* name, const char*, auto of, auto...) { all[name] = o.*of; });
  all.erase("run");  // a part of its own
  all["profile"] = traced_steps(o);
  all["precision"] = session.precision();
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
  each_train_option([&](const char* name, const char* key, auto of, auto... of_compiler) {
    if (!*key || sizeof...(of_compiler) > 0) return;
    const ConfigKey* row = launcher::find_key(key);
    LS_CHECK(row && row->set(&c, options.*of), "option ", name, " of train() has no key ", key);
  });
  c.train.precision = session.precision().empty() ? launcher::precision_of(state) : session.precision();
  c.train.eval_every = options.validation ? options.validation->every : 0;
  c.log.profile = traced_steps(options);
  RunConfig checked = c;
  // a config holds out a share of its data for validation
  checked.data.validation = options.validation ? 0.5 : 0;
  if (const auto errors = config_errors(checked, launcher::DataPaths::may_be_empty); !errors.empty())
    throw UserError("[train] " + in_options(join(errors, "\n")));
  c.name = std::filesystem::path(options.run).lexically_normal().filename();
  return c;
}

}  // namespace lockstep
