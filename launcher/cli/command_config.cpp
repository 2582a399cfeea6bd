// Reading the config of a command line.
#include "launcher/cli/command_config.h"

#include "core/base/error.h"
#include "launcher/config/stored.h"

namespace lockstep::launcher::cli {

RunConfig config_of(const Flags& flags, const CLI::App& app, const char* command) {
  if (flags.target.empty())
    throw UserError(str("no config given; name one, as in: trainrun ", command, " configs/quickstart.json"));
  open_libraries(flags.target, stored_in(flags.target), app.remaining());
  return load_config(flags.target, parse_overrides(app.remaining(), names_of(app)), DataPaths::may_be_empty);
}

RunConfig config_to_open(const Flags& flags, const CLI::App& app, const char* command) {
  RunConfig config = config_of(flags, app, command);
  refuse_stored_plugin(config, flags.target, stored_in(flags.target),
                       parse_overrides(app.remaining(), names_of(app)),
                       str("trainrun ", command, " ", flags.target));
  return config;
}

}  // namespace lockstep::launcher::cli
