// The config that a command line names.
#pragma once

#include "launcher/cli/words/flags.h"

namespace lockstep::launcher::cli {

// For a command that reads no data: the config file with the remaining arguments as overrides. Libraries
// named by the arguments are opened first; those named in the file are not, because the command only inspects
// it. UserError when no file is named, and as load_config.
RunConfig config_of(const Flags& flags, const CLI::App& app, const char* command);
// The same for a command that runs the config's ops on its device; the command line names their libraries.
RunConfig config_to_open(const Flags& flags, const CLI::App& app, const char* command);

}  // namespace lockstep::launcher::cli
