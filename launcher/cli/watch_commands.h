// Commands that look at a run and at its machine: autopsy, top, doctor. Each returns the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

#include "launcher/cli/ckpt_commands.h"

namespace lockstep::launcher::cli {

// autopsy RUN: the newest attempt's end, across its ranks.
struct AutopsyArguments {
  std::string run;      // a name below runs/, or a path
  int64_t attempt = 0;  // 0: the newest
};
int autopsy(const AutopsyArguments& arguments, std::ostream& out);

// top RUN: a running job, each second on a terminal; once elsewhere.
struct TopArguments {
  std::string run;
  bool once = false;
};
int top(const TopArguments& arguments, std::ostream& out);

// doctor: what of this machine a run would stumble over, a line each. kExitDiffers where a check fails.
int doctor(std::ostream& out);

struct WatchFlags {
  std::string file;  // of doctor-rank

  AutopsyArguments autopsy;
  TopArguments top;
};
// Adds the commands; a callback hands what is to be done to `act`.
void add_watch_commands(CLI::App& app, WatchFlags& flags, const Act& act);

}  // namespace lockstep::launcher::cli
