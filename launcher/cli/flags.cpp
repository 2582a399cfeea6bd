// The launcher's own flags. They share the command line with config keys, so a test asserts that no name is both.
#include "launcher/cli/flags.h"

#include <algorithm>
#include <thread>

#include "core/base/error.h"

namespace lockstep::cli {

int64_t parse_nproc(const std::string& text) {
  if (text == "auto") return std::max(1u, std::thread::hardware_concurrency());
  size_t end = 0;
  long long value = 0;
  try {
    value = std::stoll(text, &end);
  } catch (const std::exception&) {
    end = 0;  // no number; refused below
  }
  if (end == 0 || end != text.size() || value < 1)
    throw UserError(str("--nproc is \"", text, "\"; give a number of ranks, 1 or more, or auto (one per core)"));
  return value;
}

void add_nproc(CLI::App& app, Flags& flags) {
  app.add_option("-n,--nproc,--nproc-per-node,--nproc_per_node", flags.nproc, "ranks on this host: a number, or auto (one per core)")
      ->type_name("N|auto");
}

void add_run_flags(CLI::App& app, Flags& flags) {
  LaunchOptions& launch = flags.run.launch;
  add_nproc(app, flags);
  app.add_option("--max-restarts,--max_restarts", launch.max_restarts, "restarts after a rank died, from the last checkpoint")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  app.add_option("--min-nproc,--min_nproc", launch.min_nproc, "restart without the ranks that died, down to N; default: always --nproc")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  app.add_option("--grace", launch.grace, "seconds to finish and save after SIGTERM or SIGINT; default 30")
      ->check(CLI::NonNegativeNumber)
      ->type_name("SECONDS");
  app.add_flag("--dry-run,--dry_run", flags.run.dry_run, "print the command and the environment, start nothing");
  app.add_option("target", flags.target, "a config (JSON), or a program of yours (a path with a slash)")->type_name("CONFIG|PROGRAM");
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> out;
  for (const auto* option : app.get_options())
    for (const auto& name : option->get_lnames()) out.push_back(name);
  return out;
}

std::vector<std::string> launcher_flags() {
  CLI::App app;
  Flags flags;
  add_run_flags(app, flags);
  return names_of(app);
}

}  // namespace lockstep::cli
