// Rewords errors of the command line parser in the launcher's style.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lockstep::launcher::cli {

// Describes the error in the words that `app` parsed, with the given values and the way out: "--nproc is
// given 2 times, as 2 and 3; ...". `app` is the whole command line, in the state that `error` left it in.
std::string refusal(CLI::App& app, const CLI::ParseError& error);

// UserError for an empty argument, for example from an unset variable: "OUT is empty; ...". Text for a model
// (--prompt, --system) may be empty.
void refuse_empty(CLI::App& app);
// The same for a word --FLAG= of `command`, which would consume the next word.
void refuse_without_value(const std::vector<std::string>& words, const CLI::App& command);

}  // namespace lockstep::launcher::cli
