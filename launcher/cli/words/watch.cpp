// autopsy, top and doctor, as words of the command line.
#include "launcher/cli/doctor/doctor.h"
#include "launcher/cli/watch_commands.h"
#include "launcher/cli/words/care_flags.h"
#include "launcher/cli/words/flags.h"

namespace lockstep::launcher::cli {

void add_watch_commands(CLI::App& app, WatchFlags& flags, const Act& act) {
  auto* shown = app.add_subcommand("top", "a running job, live: ranks, step, pace, memory, who is late");
  add_run_name(*shown, flags.top.run);
  shown->add_flag("--once", flags.top.once, "print once; always so if the output is not a terminal");
  shown->footer("Ctrl-C ends it; the run continues.");
  shown->callback([&flags, act] { act([&flags](std::ostream& out) { return top(flags.top, out); }); });

  auto* after = app.add_subcommand(
      "autopsy", "what ended a run: the position of each rank, missing ranks, the first difference");
  add_run_name(*after, flags.autopsy.run);
  after->add_option("--attempt", flags.autopsy.attempt, "which start of it; default: the newest")
      ->transform(whole_number_within(1))
      ->type_name("K");
  after->callback(
      [&flags, act] { act([&flags](std::ostream& out) { return autopsy(flags.autopsy, out); }); });

  auto* checks = app.add_subcommand(
      "doctor", "whether this machine is fit for runs: cores, memory, disk, links, clocks, GPUs, limits");
  checks->footer("Takes some seconds, and writes and removes a file. Exit codes: 0; 1 if a check fails.");
  checks->callback([act] { act([](std::ostream& out) { return doctor(out); }); });
  auto* rank = app.add_subcommand("doctor-rank", "one of the doctor's two ranks")->group("");
  rank->add_option("file", flags.file)->required();
  rank->callback([&flags, act] { act([&flags](std::ostream&) { return link_rank(flags.file); }); });
}

}  // namespace lockstep::launcher::cli
