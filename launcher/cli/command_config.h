// The config that a command line names.
#pragma once

#include "launcher/cli/flags.h"

namespace lockstep::launcher::cli {

// Of a command that reads no data: the file `flags` name, with the arguments that the app left. Libraries
// that the arguments name are opened first, those of the file are not: the command only looks at it.
// UserError where none is named, and what load_config throws.
RunConfig config_of(const Flags& flags, const CLI::App& app, const char* command);
// The same for a command that computes with the config's ops on its device: the command line says which
// libraries these are.
RunConfig config_to_open(const Flags& flags, const CLI::App& app, const char* command);

}  // namespace lockstep::launcher::cli
