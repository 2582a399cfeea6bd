// Finds the subcommand of a command line.
#pragma once

#include <string>
#include <vector>

namespace lockstep::launcher::cli {

// The first word that is not a flag decides: a subcommand's name, or else the command is `run`. `help
// COMMAND` is `COMMAND --help`. UserError for a word that other launchers have as a command.
std::vector<std::string> with_subcommand(std::vector<std::string> words);

}  // namespace lockstep::launcher::cli
