// Reads the config of a command line.
#include "launcher/cli/words/command_config.h"

#include "core/base/error.h"
#include "launcher/config/stored.h"

namespace lockstep::launcher::cli {

RunConfig config_of(const Flags& flags, const CLI::App& app, const char* command) {
  if (flags.target.empty())
    throw UserError(str("no config given; name one, as in: trainrun ", command, " configs/quickstart.json"));
  open_libraries("", stored_in(flags.target), app.remaining());
  return load_config(flags.target, parse_overrides(app.remaining(), names_of(app)), DataPaths::may_be_empty);
}

RunConfig config_to_open(const Flags& flags, const CLI::App& app, const char* command) {
  RunConfig config = config_of(flags, app, command);
  const auto overrides = parse_overrides(app.remaining(), names_of(app));
  const std::string again = str("trainrun ", command, " ", flags.target);
  refuse_stored_plugin(config, flags.target, stored_in(flags.target), overrides, again);
  refuse_unnamed_libraries(config, flags.target, overrides, again);
  return config;
}

}  // namespace lockstep::launcher::cli
