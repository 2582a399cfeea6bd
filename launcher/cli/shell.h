// What a shell and man want of the command line: completion of words, and a manual page, from the tables that
// --help and show --reference print.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lockstep::launcher::cli {

// A script that completes commands, flags, config keys and files: to be sourced by the shell, "bash", "zsh"
// or "fish". UserError for another one.
std::string completion_script(const CLI::App& app, const std::string& shell);

// trainrun(1) as roff, for man.
std::string manual_page(const CLI::App& app);

}  // namespace lockstep::launcher::cli
