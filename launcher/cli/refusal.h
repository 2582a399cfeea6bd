// What the parser of the command line refuses, in the launcher's own words.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lockstep::launcher::cli {

// What of the words that `app` has parsed is wrong, with the values that were given and the way out:
// "--nproc is given 2 times, as 2 and 3; ...". `app` is the whole command line, in the state that `error`
// left it in.
std::string refusal(CLI::App& app, const CLI::ParseError& error);

}  // namespace lockstep::launcher::cli
