// Shell completion and the manual page, generated from the tables of --help and show --reference.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace lockstep::launcher::cli {

// A script that completes commands, flags, config keys and files: for "bash", "zsh" or "fish" to source.
// UserError for another shell.
std::string completion_script(const CLI::App& app, const std::string& shell);

// trainrun(1) as roff, for man.
std::string manual_page(const CLI::App& app);

}  // namespace lockstep::launcher::cli
