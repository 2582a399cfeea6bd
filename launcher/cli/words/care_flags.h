// Flags of `run` for the supervision of ranks: restarts, elastic rank counts, time limits, logs, what is
// shown, and the environment.
#pragma once

#include <CLI/CLI.hpp>
#include <limits>
#include <string>
#include <vector>

#include "launcher/supervise/launch/options.h"

namespace lockstep::launcher::cli {

struct CareFlags {
  std::string max_restarts = "0", timeout = {}, tee = {}, only = {};
  std::vector<std::string> env = {};
};

// Adds the flags; those with a text value write it directly to `launch`.
void add_care_flags(CLI::App& app, CareFlags& flags, LaunchOptions& launch);
// Parses the others into `launch`, whose ranks and hosts are known. Also applies --env to trainrun's own
// environment. UserError naming the flag.
void read_care_flags(const CareFlags& flags, LaunchOptions& launch);

// "2:8" of --nproc: its two sides; one number is both.
struct NprocRange {
  std::string least, most;
};
NprocRange split_nproc(const std::string& text);
// Its lower side, as launch.min_nproc. UserError if --min-nproc differs, or the run has several hosts.
void read_nproc_range(const NprocRange& range, LaunchOptions& launch);

// What a flag of a number takes: one from `least` to `most`, and neither NaN nor one that a double has not,
// which CLI::Range and CLI::NonNegativeNumber let pass.
CLI::Validator number_within(double least, int64_t most);
// The same of a whole number, for transform(). It is decimal: CLI11 alone would read 010 as 8, and cut one
// beyond 64 bits.
CLI::Validator whole_number_within(int64_t least = std::numeric_limits<int64_t>::min(),
                                   int64_t most = std::numeric_limits<int64_t>::max());

// "90", "90s", "15m", "1.5h", "2d" as seconds. UserError naming the flag.
double read_duration(const std::string& text, const std::string& flag);

}  // namespace lockstep::launcher::cli
