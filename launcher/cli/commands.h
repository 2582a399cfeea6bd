// The subcommands of trainrun: their arguments and functions. Each function returns the exit code.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/hf/export.h"
#include "launcher/hf/import.h"
#include "launcher/plan/request.h"
#include "launcher/supervise/launch/options.h"

namespace lockstep::launcher::cli {

// trainrun [run] [flags] CONFIG.json|PROGRAM [--a.b=VALUE ...]
struct RunArguments {
  LaunchOptions launch;              // worker is filled by run()
  int64_t simulate = 0;              // ranks as threads of this process; 0: launch.nproc processes
  int64_t profile = 0;               // log.profile, if given
  bool dry_run = false;              // print the command and the environment, start nothing, write nothing
  std::string slurm;                 // options of sbatch if the run is to be submitted; "": it is not
  std::vector<std::string> given;    // the original command line
  std::string self;                  // path of trainrun, which is the worker's program for a config
  std::string target;                // a config; "" with a program
  std::vector<std::string> rest;     // overrides; the words before a program
  std::vector<std::string> flags;    // flag names of this command, for advice
  std::vector<std::string> program;  // a user program with its arguments
};
int run(const RunArguments& arguments, std::ostream& out);
// trainrun hand-over LOG_DIR HOST COMMAND: mpirun calls it to start the daemon on a host with an agent.
int hand_over_words(const std::vector<std::string>& words);

// trainrun plan [--nproc N] [--memory BYTES] [--roofline NAME|FILE.json] [--long | --json | --program |
// --listing, [--rank R]] CONFIG.json [--a.b=VALUE ...]: predicts memory, traffic and time of N ranks without
// starting one. UserError, after everything is printed, when a rank needs more than `memory`; it names the
// nearest mesh that fits.
struct PlanArguments {
  RunConfig config;
  int64_t nproc = 1;
  int64_t memory = 0;    // limit of a rank's bytes on its device or host; 0: that of the local GPU; without a
                         // GPU nothing is refused
  std::string roofline;  // for the predicted time; "": that of the device, or of the kind of device in the
                         // config
  bool json = false;     // one object (launcher/plan/report.h) instead of lines
  bool program = false;  // the instructions of `rank`'s step instead of lines
  bool listing =
      false;  // the same with all numbers, as text that parses back (compiler/program/show/listing.h)
  int64_t rank = 0;
  bool whole = false;    // --long: tables after the first screen
  bool budgets = false;  // compares bytes and time for values of compile.memory_budget
};
int plan(const PlanArguments& arguments, std::ostream& out);

// The same for the first step that a program compiles: trainrun plan [flags] PROGRAM [arguments]. Returns the
// program's exit code; UserError when it ends without compiling a step.
struct ProgramPlanArguments {
  PlanRequest request;
  std::string self;                  // path of trainrun
  std::vector<std::string> rest;     // the words before the program
  std::vector<std::string> program;  // with its arguments
  bool budgets = false;              // refused: a program has no config to vary
};
int plan_program(const ProgramPlanArguments& arguments, std::ostream& out);
// The program's answer and exit code; its output goes to stderr.
struct ProgramAnswer {
  int code = 0;
  std::string text;
};
ProgramAnswer ask_program(ProgramPlanArguments arguments);

// trainrun replay --step K RUN [--nproc N | --simulate N] [--a.b=VALUE ...], or RUN PROGRAM [arguments]:
// recomputes a step from an earlier checkpoint, and prints a table of recorded and recomputed values. Returns
// kExitDiffers when they differ; writes nothing into the run's folder.
struct ReplayArguments {
  std::string run;  // a name below runs/, or a path
  int64_t step = 0;
  int64_t nproc = 1;
  bool threads = false;              // ranks are threads of this process; always so for one rank of a config
  bool from_start = false;           // from the initial weights, not from a checkpoint
  std::vector<Override> overrides;   // of the run's config
  std::vector<std::string> program;  // for a program's run: the program and its arguments
  std::string self;                  // path of trainrun
};
inline constexpr int kExitDiffers =
    1;  // of replay and ckpt diff; 1 is a program's own failure in a run; the others are in core/base/error.h
int replay(const ReplayArguments& arguments, std::ostream& out);

// trainrun report RUN [--budgets] [--out FILE.html]: an HTML page of a run's records and its plan. UserError
// when the run does not exist or has no rows yet, or the file is not .html or cannot be written.
struct ReportArguments {
  std::string run;       // a name below runs/, or a path
  std::string out;       // "": report.html in the run's folder
  std::string load_ops;  // the libraries of the run's config, which are opened only if named here
  bool budgets = false;  // also compares the plan's bytes and time
};
int report(const ReportArguments& arguments, std::ostream& out);

// trainrun generate RUN [flags]: text from a checkpoint.
struct GenerateArguments {
  std::string path;          // runs/NAME, its ckpt folder, or one step-N folder
  std::string prompt;        // the text to continue; "" starts from a newline
  bool chat = false;         // the prompt is a user's message, in the template of the run's data
  std::string system;        // for chat: the system message; "": none
  int64_t tokens = 200;      // how many to add
  double temperature = 0.8;  // 0 takes the likeliest token
  int64_t top_k = 0;         // choose among the k likeliest; 0: among all
  int64_t seed = 1337;
  std::string tokenizer;  // "": the one of the checkpoint's config
  std::string device;     // "": the one of the checkpoint's config, which must not be a plugin
  std::string load_ops;   // "": those of the checkpoint's config, which must have none
};
int generate(const GenerateArguments& arguments, std::ostream& out);

// trainrun import-hf DIR|FILE --name=NAME [--a.b=VALUE ...]: runs/NAME of a model in Hugging Face's format.
int import_hf(const hf::ImportRequest& request, std::ostream& out);
// trainrun export-hf RUN OUT [--step=N] [--max-shard=BYTES] [--dtype=f32|bf16|f16] [--adapter]: a checkpoint
// in that format. `max_shard`: a size such as 5GB, which is also the default for "".
int export_hf(hf::ExportRequest request, const std::string& max_shard, std::ostream& out);

// The resolved config, which reruns the run.
int show(const RunConfig& config, std::ostream& out);
// trainrun show --graph FILE.svg [--nproc N] [--rank R] [--roofline NAME|FILE.json] CONFIG.json
// [--a.b=VALUE ...]: draws a rank's step as a timeline of computation and communication. UserError as plan,
// and for a path that is not .svg or cannot be written.
struct GraphArguments {
  RunConfig config;
  std::string path;
  int64_t nproc = 1;
  int64_t rank = 0;
  std::string roofline;  // as PlanArguments
};
int show_graph(const GraphArguments& arguments, std::ostream& out);
// The same for the first step that a program compiles.
int show_program_graph(const ProgramPlanArguments& arguments, const std::string& path, std::ostream& out);
// The reference of all config keys, Markdown.
int show_reference(std::ostream& out);
// The same as a JSON Schema.
int show_schema(std::ostream& out);

// What a word means: a config key or section, an op, an exit code, a kind of error, a LOCKSTEP_* variable, a
// log topic. "": lists the kinds of words. UserError with a similar word, else with the kinds of words.
int explain(const std::string& word, std::ostream& out);

// Checkpoints of a run folder, a ckpt folder or one step-N folder. UserError when there is none.
int ckpt_ls(const std::string& path, std::ostream& out);
int ckpt_show(const std::string& path,
              std::ostream& out);  // one checkpoint (the newest of a folder): its manifest as a table
int ckpt_verify(const std::string& path,
                std::ostream& out);  // reads every byte; kExitUser when anything is damaged

// The flight records of an attempt's folder, or one of them: a line of progress, then one per collective.
// UserError when there is none.
int flight(const std::string& path, std::ostream& out);

// Versions, processor, every LOCKSTEP_* variable, every log topic.
int env(std::ostream& out);

// The command line. Catches every error, prints it to `err`, and returns the exit code.
int trainrun(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);
// The first screen of --help.
std::string help_text();
// Names of the launcher's own flags ("nproc", "max-restarts", ...): none is also a config key, so that
// neither hides the other.
std::vector<std::string> launcher_flags();

}  // namespace lockstep::launcher::cli
