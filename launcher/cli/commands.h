// The subcommands of trainrun: what each is given, and the function that does it. Each returns the exit code.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/hf/export.h"
#include "launcher/hf/import.h"
#include "launcher/plan/request.h"
#include "launcher/supervise/options.h"

namespace lockstep::launcher::cli {

// trainrun [run] [flags] CONFIG.json|PROGRAM [--a.b=VALUE ...]
struct RunArguments {
  LaunchOptions launch;              // worker is filled by run()
  int64_t simulate = 0;              // ranks as threads of this process; 0: launch.nproc processes
  int64_t profile = 0;               // log.profile, where it is given
  bool dry_run = false;              // print the command and the environment, start nothing, write nothing
  std::string slurm;                 // options of sbatch, where the run is to be submitted; "": it is not
  std::vector<std::string> given;    // the command line as it came
  std::string self;                  // path of trainrun, which is the worker's program for a config
  std::string target;                // a config; "" with a program
  std::vector<std::string> rest;     // overrides; what stands before a program
  std::vector<std::string> flags;    // names of the flags of this command, for advice
  std::vector<std::string> program;  // of the user, with its arguments
};
int run(const RunArguments& arguments, std::ostream& out);
// trainrun hand-over LOG_DIR HOST COMMAND: what mpirun calls for the daemon of a host that has an agent.
int hand_over_words(const std::vector<std::string>& words);

// trainrun plan [--nproc N] [--memory BYTES] [--roofline NAME|FILE.json] [--long | --json | --program |
// --listing, [--rank R]] CONFIG.json
// [--a.b=VALUE ...]: what N ranks would hold, send and take, without starting one. UserError, after
// everything is printed, when a rank needs more than `memory`: it names the nearest mesh that fits.
struct PlanArguments {
  RunConfig config;
  int64_t nproc = 1;
  int64_t memory = 0;  // bytes that a rank may take of its device or host; 0: those of the GPU here; without
                       // one nothing is refused
  std::string roofline;  // of the predicted time; "": that of the device, or of the kind of device that the
                         // config names
  bool json = false;     // one object (launcher/plan/report.h) instead of lines
  bool program = false;  // the instructions of `rank`'s step instead of lines
  bool listing = false;  // the same with every number, as text that parses back (compiler/program/listing.h)
  int64_t rank = 0;
  bool whole = false;    // --long: tables after the first screen
  bool budgets = false;  // bytes against time under values of compile.memory_budget
};
int plan(const PlanArguments& arguments, std::ostream& out);

// The same for a program, which plans the first step that it compiles: trainrun plan [flags] PROGRAM
// [arguments]. Returns the program's exit code; UserError where it ends without having compiled a step.
struct ProgramPlanArguments {
  PlanRequest request;
  std::string self;                  // path of trainrun
  std::vector<std::string> rest;     // what stands before the program
  std::vector<std::string> program;  // with its arguments
  bool budgets = false;              // refused: a program has no config that they could change
};
int plan_program(const ProgramPlanArguments& arguments, std::ostream& out);
// What the program answers, and its exit code; what it prints goes to stderr.
struct ProgramAnswer {
  int code = 0;
  std::string text;
};
ProgramAnswer ask_program(ProgramPlanArguments arguments);

// trainrun replay --step K RUN [--nproc N | --simulate N] [--a.b=VALUE ...], or RUN PROGRAM [arguments]:
// computes a step again, from a checkpoint before it, and prints a table of what the run recorded and what
// came out. Returns kExitDiffers when they are not equal; writes nothing into the run's folder.
struct ReplayArguments {
  std::string run;  // a name below runs/, or a path
  int64_t step = 0;
  int64_t nproc = 1;
  bool threads = false;              // ranks are threads of this process, as one rank of a config always is
  bool from_start = false;           // from the initial weights, not from a checkpoint
  std::vector<Override> overrides;   // of the run's config
  std::vector<std::string> program;  // of a program's run: the program and its arguments
  std::string self;                  // path of trainrun
};
inline constexpr int kExitDiffers =
    1;  // of replay and ckpt diff; 1 is a program's own failure in a run; the others are in core/base/error.h
int replay(const ReplayArguments& arguments, std::ostream& out);

// trainrun report RUN [--budgets] [--out FILE.html]: what a run has recorded, and its plan beside it, as one
// page. UserError where there is no such run, it has no rows yet, or the file is no .html or cannot be
// written.
struct ReportArguments {
  std::string run;       // a name below runs/, or a path
  std::string out;       // "": report.html in the run's folder
  std::string load_ops;  // the libraries of the run's config, which are not opened unless they are named here
  bool budgets = false;  // the plan's bytes against time, too
};
int report(const ReportArguments& arguments, std::ostream& out);

// trainrun generate RUN [flags]: text from a checkpoint.
struct GenerateArguments {
  std::string path;          // runs/NAME, its ckpt folder, or one step-N folder
  std::string prompt;        // the text to go on from; "" starts from a newline
  bool chat = false;         // the prompt is a user's message, in the template of the run's data
  std::string system;        // of chat: the message before it; "": none
  int64_t tokens = 200;      // how many to add
  double temperature = 0.8;  // 0 takes the likeliest token
  int64_t top_k = 0;         // choose among the k likeliest; 0: among all
  int64_t seed = 1337;
  std::string tokenizer;  // "": the one of the checkpoint's config
  std::string device;     // "": the one of the checkpoint's config, which may not be a plugin
  std::string load_ops;   // "": those of the checkpoint's config, which may have none
};
int generate(const GenerateArguments& arguments, std::ostream& out);

// trainrun import-hf DIR|FILE --name=NAME [--a.b=VALUE ...]: runs/NAME of a model in Hugging Face's format.
int import_hf(const hf::ImportRequest& request, std::ostream& out);
// trainrun export-hf RUN OUT [--step=N] [--max-shard=BYTES] [--dtype=f32|bf16|f16] [--adapter]: a checkpoint
// in that format. `max_shard`: as people write bytes; "" for 5GB.
int export_hf(hf::ExportRequest request, const std::string& max_shard, std::ostream& out);

// The resolved config, which reruns the run.
int show(const RunConfig& config, std::ostream& out);
// trainrun show --graph FILE.svg [--nproc N] [--rank R] [--roofline NAME|FILE.json] CONFIG.json
// [--a.b=VALUE ...]: a rank's step as a picture, with what computes and what travels over time. UserError as
// plan, and for a path that is no .svg or cannot be written.
struct GraphArguments {
  RunConfig config;
  std::string path;
  int64_t nproc = 1;
  int64_t rank = 0;
  std::string roofline;  // as PlanArguments
};
int show_graph(const GraphArguments& arguments, std::ostream& out);
// The same of the first step that a program compiles.
int show_program_graph(const ProgramPlanArguments& arguments, const std::string& path, std::ostream& out);
// The reference of all config keys, Markdown.
int show_reference(std::ostream& out);
// The same as a JSON Schema.
int show_schema(std::ostream& out);

// What a word means: a config key or section, an op, an exit code, a kind of error, a LOCKSTEP_* variable, a
// log topic. "": what there is. UserError with a word that is near, else with what can be explained.
int explain(const std::string& word, std::ostream& out);

// Checkpoints of a run folder, a ckpt folder or one step-N folder. UserError when there is none.
int ckpt_ls(const std::string& path, std::ostream& out);
int ckpt_show(const std::string& path,
              std::ostream& out);  // one checkpoint (the newest of a folder): its manifest as a table
int ckpt_verify(const std::string& path,
                std::ostream& out);  // every byte; kExitUser when anything is damaged

// The flight records of an attempt's folder, or one of them: a line of progress, then one per collective.
// UserError when there is none.
int flight(const std::string& path, std::ostream& out);

// Versions, processor, every LOCKSTEP_* variable, every log topic.
int env(std::ostream& out);

// The command line. Catches every error, prints it to `err`, and returns the exit code.
int trainrun(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);
// The first screen of --help.
std::string help_text();
// Names of the launcher's own flags ("nproc", "max-restarts", ...): none is a config key, so that neither
// hides the other.
std::vector<std::string> launcher_flags();

}  // namespace lockstep::launcher::cli
