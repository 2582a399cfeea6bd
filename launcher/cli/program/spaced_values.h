// Joins config keys and flags with values that follow after a space.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "launcher/config/config.h"

namespace lockstep::launcher::cli {

// The same words with "--profile", "3" as "--profile=3" and "--dry-run", "true" as "--dry-run=true": for
// flags of the command that do not take the next word. Other words stay: one may be the config.
std::vector<std::string> with_flag_values(const std::vector<std::string>& words, const CLI::App& command);

// The same words with "--optim.lr", "1e-3" as "--optim.lr=1e-3", where the first word is a config key without
// '='. A boolean key takes only true or false, so that a config may follow it; words that begin with "--" are
// not values. For explain, the dashes of a flag are removed. Commands without config keys get their words
// unchanged.
std::vector<std::string> with_joined_values(const std::vector<std::string>& words);

// The config key that a word names without '=': "--optim.lr"; null for any other word.
const ConfigKey* spaced_key(const std::string& word);

// Whether a word is a user program: a path with a slash that is executable.
bool names_a_program(const std::string& word);

}  // namespace lockstep::launcher::cli
