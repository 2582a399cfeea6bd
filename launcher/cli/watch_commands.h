// Commands that inspect a run or the machine: autopsy, top, doctor. Each returns the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

#include "launcher/cli/ckpt/commands.h"

namespace lockstep::launcher::cli {

// autopsy RUN: the newest attempt's end, across its ranks.
struct AutopsyArguments {
  std::string run;      // a name below runs/, or a path
  int64_t attempt = 0;  // 0: the newest
};
int autopsy(const AutopsyArguments& arguments, std::ostream& out);

// top RUN: a running job, refreshed each second on a terminal; printed once elsewhere.
struct TopArguments {
  std::string run;
  bool once = false;
};
int top(const TopArguments& arguments, std::ostream& out);

// doctor: problems of this machine, one line each. kExitDiffers when a check fails.
int doctor(std::ostream& out);

struct WatchFlags {
  std::string file;  // for doctor-rank

  AutopsyArguments autopsy;
  TopArguments top;
};
// Adds the commands; a callback passes the chosen work to `act`.
void add_watch_commands(CLI::App& app, WatchFlags& flags, const Act& act);

}  // namespace lockstep::launcher::cli
