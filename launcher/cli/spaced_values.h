// Config keys and flags whose values stand behind a space.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "launcher/config/config.h"

namespace lockstep::launcher::cli {

// The same words with "--profile", "3" as "--profile=3" and "--dry-run", "true" as "--dry-run=true": a flag
// of the command that takes no word behind it. A word that is none of these stays: it may be the config.
std::vector<std::string> with_flag_values(const std::vector<std::string>& words, const CLI::App& command);

// The same words with "--optim.lr", "1e-3" as "--optim.lr=1e-3", where the first word is a config key without
// '='. A key of true or false takes these words alone, so that a config may stand behind it; words that begin
// with "--" are no values. Of explain the dashes of a flag go. Of commands that read no config key: as they
// are.
std::vector<std::string> with_joined_values(const std::vector<std::string>& words);

// The config key that a word names without '=': "--optim.lr"; null for any other word.
const ConfigKey* spaced_key(const std::string& word);

// Whether a word of the command line is a program of the user's: a path with a slash that may be executed.
bool names_a_program(const std::string& word);

}  // namespace lockstep::launcher::cli
