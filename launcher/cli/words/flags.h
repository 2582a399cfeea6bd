// Defines the flags of the command line and the destinations of their values.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "launcher/cli/ckpt/commands.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/look/bisect.h"
#include "launcher/cli/watch_commands.h"
#include "launcher/cli/words/care_flags.h"
#include "launcher/cli/words/host_flags.h"

namespace lockstep::launcher::cli {

struct Flags {
  std::string nproc = "1", simulate, target, word, path, memory, roofline, graph;
  std::vector<std::string> words;  // of explain: "root cause" is two
  RunArguments run;
  HostFlags hosts;
  CareFlags care;
  GenerateArguments generate;
  ReplayArguments replay;
  BisectArguments bisect;
  ReportArguments report;
  CkptFlags ckpt;
  WatchFlags watch;
  hf::ImportRequest import_hf;
  hf::ExportRequest export_hf;
  std::string max_shard;
  bool reference = false, schema = false, json = false, whole = false, budgets = false, program = false,
       listing = false;
  bool replay_task = false;  // for a worker: its file describes a replay
  int64_t rank = 0;          // of --program, --listing and --graph
};

// Adds --nproc and its spellings, with `more` after its help; the value goes to flags.nproc, to be read by
// parse_nproc.
CLI::Option* add_nproc(CLI::App& app, Flags& flags, const std::string& more = "");
// Adds the run that a command looks at.
void add_run_name(CLI::App& app, std::string& run);
// Adds --rank and --roofline of the plan.
void add_rank(CLI::App& app, Flags& flags, const std::string& help);
void add_roofline(CLI::App& app, Flags& flags);
// Adds every flag of run, and the config or program.
void add_run_flags(CLI::App& app, Flags& flags);
// Adds --simulate; the value goes to flags.simulate, to be read by parse_simulate.
void add_simulate(CLI::App& app, Flags& flags);
// Adds every flag of plan, and the config or program.
void add_plan_flags(CLI::App& app, Flags& flags);
// Adds every flag of generate, and the path.
void add_generate_flags(CLI::App& app, Flags& flags);
// Adds every flag of replay, and the run.
void add_replay_flags(CLI::App& app, Flags& flags);
// Adds every flag of bisect, and the runs.
void add_bisect_flags(CLI::App& app, Flags& flags);
// Adds every flag of import-hf and of export-hf, and their paths.
void add_import_flags(CLI::App& app, Flags& flags);
void add_export_flags(CLI::App& app, Flags& flags);
// Adds the run and the flags of report.
void add_report_flags(CLI::App& app, Flags& flags);
inline constexpr int64_t kMostLocalRanks = 4096;  // processes or threads that one command starts
// A rank count of 1 to `most`; "auto" is one per core. UserError naming the flag for anything else.
int64_t parse_nproc(const std::string& text, const char* flag = "--nproc", int64_t most = kMostLocalRanks);
// --simulate's rank count; 0 without it. UserError when --nproc is given too.
int64_t parse_simulate(const CLI::App& app, const Flags& flags);
// Parses a run's ranks, hosts and supervision into flags.run.launch. UserError naming the flag.
void place_ranks(const CLI::App& app, Flags& flags);
// A flag of `run` as in its help.
struct FlagWords {
  std::vector<std::string> names;  // long ones, without dashes
  std::string type, help;
};
std::vector<FlagWords> run_flags();
// Long names of the flags of a command, without dashes.
std::vector<std::string> names_of(const CLI::App& app);

}  // namespace lockstep::launcher::cli
