// The config that a command line names.
#pragma once

#include "launcher/cli/flags.h"

namespace lockstep::launcher::cli {

// Of a command that reads no data: the file `flags` name, with the arguments that the app left. Libraries of
// the config are opened first. UserError where none is named, and what load_config throws.
RunConfig config_of(const Flags& flags, const CLI::App& app, const char* command);
// The same for a command that opens the config's device: a stored config does not say which library that is.
RunConfig config_to_open(const Flags& flags, const CLI::App& app, const char* command);

}  // namespace lockstep::launcher::cli
