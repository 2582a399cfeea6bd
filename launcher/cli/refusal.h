// What the parser of the command line refuses, in the launcher's own words.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lockstep::launcher::cli {

// What of the words that `app` has parsed is wrong, with the values that were given and the way out:
// "--nproc is given 2 times, as 2 and 3; ...". `app` is the whole command line, in the state that `error`
// left it in.
std::string refusal(CLI::App& app, const CLI::ParseError& error);

// UserError for an argument that is given and empty, as of a variable that is not set: "OUT is empty; ...".
// What a model is to read (--prompt, --system) may be.
void refuse_empty(CLI::App& app);
// The same for a word --FLAG= of `command`, which would take the next word.
void refuse_without_value(const std::vector<std::string>& words, const CLI::App& command);

}  // namespace lockstep::launcher::cli
