// The command line: parses flags and subcommands, runs the command, and prints errors.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <ostream>

#include "core/base/error.h"
#include "launcher/cli/before_command.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/printable_stream.h"
#include "launcher/cli/program/spaced_values.h"
#include "launcher/cli/program/under_launcher.h"
#include "launcher/cli/program/words.h"
#include "launcher/cli/words/command_config.h"
#include "launcher/cli/words/flags.h"
#include "launcher/cli/words/neighbours.h"
#include "launcher/cli/words/refusal.h"
#include "launcher/cli/words/shell.h"
#include "launcher/cli/words/subcommands.h"
#include "launcher/config/stored.h"
#include "launcher/memory/needs.h"
#include "launcher/supervise/launch/console.h"
#include "launcher/supervise/worker/side.h"
#include "launcher/version.h"
#include "launcher/worker/replay.h"
#include "launcher/worker/worker.h"

namespace lockstep::launcher::cli {

namespace {
// Runs the worker of a rank: a run by its config, or a replay by its task.
using WorkerBody = std::function<int(const WorkerPlace&)>;

// Defines the subcommands with their flags, and runs the given one.
class CommandLine {
 public:
  // `worker`: set if the command is the worker's. `given`: the original words.
  CommandLine(std::ostream& out, WorkerBody& worker, const std::vector<std::string>& given)
      : out_(out), worker_(worker) {
    flags_.run.given = given;
    app_.require_subcommand(1);
    add_run();
    add_plan();
    add_show();
    add_explain();
    add_ckpt();
    add_generate();
    add_replay();
    add_bisect();
    add_hf();
    add_report();
    add_flight();
    add_watch_commands(app_, flags_.watch, act());
    add_env();
    add_shell();
    add_worker();
  }

  // A program and all words after it, which are its own.
  void take_program(std::vector<std::string>& words) {
    const std::string command = words[0];
    if (command != "run" && command != "plan" && command != "show" && command != "replay") return;
    const CLI::App* app = app_.get_subcommand(command);
    program_ = cli::take_program(words, command == "replay" ? 1 : 0, [&](const std::string& flag) {
      const CLI::Option* option = app->get_option_no_throw(flag);
      return option ? option->get_items_expected_min() > 0 && option->get_type_size() > 0
                    : command == "run" && foreign_flag_with_value(flag);
    });
  }

  int run(std::vector<std::string> words) {
    const CLI::App& command = *app_.get_subcommand(words[0]);
    refuse_without_value(words, command);
    words = with_joined_values(with_flag_values(words, command));
    before_command(words[0]);
    try {
      std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
      app_.parse(words);
    } catch (const CLI::CallForHelp&) {
      out_ << app_.help();
      return kExitOk;
    } catch (const CLI::ParseError& error) { throw UserError(refusal(app_, error)); }
    refuse_empty(app_);
    return act_();
  }

 private:
  void add_run() {
    auto* app = app_.add_subcommand("run", "train (the default command)")->allow_extras();
    add_run_flags(*app, flags_);
    app->callback([this, app] {
      flags_.run.simulate = parse_simulate(*app, flags_);
      place_ranks(*app, flags_);
      flags_.run.slurm = flags_.hosts.slurm;
      flags_.run.self = std::filesystem::read_symlink("/proc/self/exe");
      flags_.run.target = flags_.target;
      flags_.run.rest = app->remaining();
      flags_.run.program = program_;
      flags_.run.flags = names_of(*app);
      act_ = [this] { return cli::run(flags_.run, out_); };
    });
  }

  void add_plan() {
    auto* app = app_.add_subcommand("plan", "predict memory, collectives and time of a run")->allow_extras();
    add_plan_flags(*app, flags_);
    app->callback([this, app] { act_ = [this, app] { return plan_config(*app); }; });
  }
  int plan_config(const CLI::App& app) {
    if (!program_.empty()) return plan_of_program(app);
    PlanArguments arguments{config_to_open(flags_, app, "plan"),
                            parse_nproc(flags_.nproc, "--nproc", kMostRanks),
                            flags_.memory.empty() ? 0 : parse_memory(flags_.memory),
                            flags_.roofline,
                            flags_.json,
                            flags_.program,
                            flags_.listing,
                            flags_.rank,
                            flags_.whole,
                            flags_.budgets};
    check(arguments.config, arguments.nproc);
    return plan(arguments, out_);
  }
  int plan_of_program(const CLI::App& app) {
    ProgramPlanArguments arguments = program_arguments(app);
    arguments.request.memory = flags_.memory.empty() ? 0 : parse_memory(flags_.memory);
    arguments.request.json = flags_.json, arguments.request.whole = flags_.whole;
    arguments.request.program = flags_.program, arguments.request.listing = flags_.listing;
    arguments.budgets = flags_.budgets;
    return plan_program(arguments, out_);
  }
  ProgramPlanArguments program_arguments(const CLI::App& app) const {
    ProgramPlanArguments out{{}, std::filesystem::read_symlink("/proc/self/exe"), app.remaining(), program_};
    out.request.nproc = parse_nproc(flags_.nproc, "--nproc", kMostRanks);
    out.request.roofline = flags_.roofline;
    out.request.rank = flags_.rank;
    return out;
  }
  static void check(const RunConfig& config, int64_t nproc) {
    for (const auto& line : config_warnings(config)) warn_user(line);
    validate(config, nproc);
  }

  void add_show() {
    auto* app = app_.add_subcommand(
                        "show", "the resolved config; --reference: all keys; --graph: a step as a picture")
                    ->allow_extras();
    app->add_option("config", flags_.target)->type_name("CONFIG");
    app->add_flag("--reference", flags_.reference,
                  "every key with type, default, values and meaning, as Markdown");
    app->add_flag("--schema", flags_.schema, "the same as a JSON Schema, for editors");
    auto* graph = app->add_option("--graph", flags_.graph,
                                  "draw a rank's step: computation and communication over time")
                      ->type_name("FILE.svg");
    add_nproc(*app, flags_);
    add_rank(*app, flags_, "the rank of --graph; default: 0");
    add_roofline(*app, flags_);
    for (const char* of_graph : {"--nproc", "--rank", "--roofline"}) app->get_option(of_graph)->needs(graph);
    app->callback([this, app] {
      act_ = [this, app] {
        if (flags_.reference || flags_.schema)
          open_libraries("", flags_.target.empty() ? "" : stored_in(flags_.target), app->remaining());
        if (flags_.reference) return show_reference(out_);
        if (flags_.schema) return show_schema(out_);
        if (!program_.empty()) return show_program(*app);
        return flags_.graph.empty() ? show_config(*app) : draw_config(*app);
      };
    });
  }
  int show_config(const CLI::App& app) {
    const RunConfig config = config_of(flags_, app, "show");
    if (const std::string closed = unopened_libraries(config); !closed.empty()) warn_user(closed);
    return show(config, out_);
  }
  int draw_config(const CLI::App& app) {
    GraphArguments arguments{config_to_open(flags_, app, "show"), flags_.graph,
                             parse_nproc(flags_.nproc, "--nproc", kMostRanks), flags_.rank, flags_.roofline};
    check(arguments.config, arguments.nproc);
    return show_graph(arguments, out_);
  }

  int show_program(const CLI::App& app) {
    if (flags_.graph.empty())
      throw UserError(
          str("show: ", program_[0],
              " is a program, which has no config: show --graph FILE.svg draws its step, and trainrun "
              "plan ",
              program_[0], " says what it takes"));
    ProgramPlanArguments arguments = program_arguments(app);
    arguments.request.graph = true;
    return show_program_graph(arguments, flags_.graph, out_);
  }

  void add_explain() {
    auto* app = app_.add_subcommand(
        "explain", "what a config key, an op, an exit code, an error kind or a log topic means");
    app->add_option("word", flags_.words, "a word; without one: lists the kinds of words")->type_name("WORD");
    app->callback([this] { act_ = [this] { return explain(join(flags_.words, " "), out_); }; });
  }

  void add_ckpt() {
    auto* app =
        app_.add_subcommand("ckpt", "checkpoints: ls, show, verify, diff, cat, prune, reshard, average");
    add_ckpt_verbs(*app, flags_.ckpt, act());
  }
  // Receives the work of commands that are defined in other files.
  Act act() {
    return [this](std::function<int(std::ostream&)> body) {
      act_ = [this, body = std::move(body)] { return body(out_); };
    };
  }

  void add_generate() {
    auto* app = app_.add_subcommand("generate", "text from a checkpoint");
    add_generate_flags(*app, flags_);
    app->callback([this] { act_ = [this] { return generate(flags_.generate, out_); }; });
  }

  void add_replay() {
    auto* app =
        app_.add_subcommand("replay", "recompute a step of a run, and compare it with the run's record")
            ->allow_extras();
    add_replay_flags(*app, flags_);
    app->callback([this, app] {
      const int64_t threads = parse_simulate(*app, flags_);
      flags_.replay.nproc = threads ? threads : parse_nproc(flags_.nproc);
      flags_.replay.threads = threads > 0;
      flags_.replay.self = std::filesystem::read_symlink("/proc/self/exe");
      open_libraries("", flags_.replay.run, app->remaining());
      flags_.replay.overrides = parse_overrides(app->remaining(), names_of(*app));
      flags_.replay.program = program_;
      act_ = [this] { return replay(flags_.replay, out_); };
    });
  }

  void add_bisect() {
    auto* app = app_.add_subcommand("bisect", "the first step and tensor in which two runs differ");
    add_bisect_flags(*app, flags_);
    app->callback([this] {
      flags_.bisect.nproc = parse_nproc(flags_.nproc);
      flags_.bisect.self = std::filesystem::read_symlink("/proc/self/exe");
      act_ = [this] { return bisect(flags_.bisect, out_); };
    });
  }

  void add_hf() {
    auto* in =
        app_.add_subcommand("import-hf", "make a run from a model in Hugging Face's format")->allow_extras();
    add_import_flags(*in, flags_);
    in->callback([this, in] {
      flags_.import_hf.overrides = parse_overrides(in->remaining(), names_of(*in));
      act_ = [this] { return import_hf(flags_.import_hf, out_); };
    });
    auto* out = app_.add_subcommand("export-hf", "write a checkpoint in Hugging Face's format");
    add_export_flags(*out, flags_);
    out->callback([this] { act_ = [this] { return export_hf(flags_.export_hf, flags_.max_shard, out_); }; });
  }

  void add_report() {
    auto* app = app_.add_subcommand("report", "a run as one HTML page: curves, a step, memory, events");
    add_report_flags(*app, flags_);
    app->callback([this] {
      act_ = [this] {
        open_libraries("", flags_.report.run, {"--compile.load_ops=" + flags_.report.load_ops});
        return report(flags_.report, out_);
      };
    });
  }

  void add_flight() {
    auto* app = app_.add_subcommand(
        "flight", "the positions of an attempt's ranks: progress, heartbeat, last collectives");
    app->add_option("path", flags_.path, "runs/NAME/logs/attempt-K, or a record progress-R in it")
        ->required()
        ->type_name("PATH");
    app->callback([this] { act_ = [this] { return flight(flags_.path, out_); }; });
  }

  void add_env() {
    app_.add_subcommand("env", "versions, processor, LOCKSTEP_* variables, log topics")->callback([this] {
      act_ = [this] { return env(out_); };
    });
  }

  void add_shell() {
    auto* app =
        app_.add_subcommand("completion", "print a completion script: source <(trainrun completion bash)");
    app->add_option("shell", flags_.word, "bash, zsh or fish")->required()->type_name("SHELL");
    app->callback([this] {
      act_ = [this] {
        out_ << completion_script(app_, flags_.word);
        return kExitOk;
      };
    });
    app_.add_subcommand("man", "the manual page, for man: trainrun man | man -l -")->callback([this] {
      act_ = [this] {
        out_ << manual_page(app_);
        return kExitOk;
      };
    });
  }

  void add_worker() {
    auto* app = app_.add_subcommand("worker", "one rank (started by run)")->group("")->allow_extras();
    app->add_option("config", flags_.target)->required();
    app->add_flag("--replay", flags_.replay_task);
    app->callback([this, app] {
      open_libraries(flags_.target, stored_in(flags_.target), app->remaining());
      act_ = [this, target = flags_.target, overrides = parse_overrides(app->remaining())] {
        if (flags_.replay_task)
          worker_ = [target](const WorkerPlace& at) { return replay_worker(target, at); };
        else
          worker_ = [target, overrides](const WorkerPlace& at) { return run_worker(target, overrides, at); };
        return kExitOk;
      };
    });
  }

  std::ostream& out_;
  WorkerBody& worker_;
  CLI::App app_{"", "trainrun"};
  Flags flags_;
  std::vector<std::string> program_;  // a user program with its arguments
  std::function<int()> act_;
};

int dispatch(std::vector<std::string> words, std::ostream& out, std::ostream& err, WorkerBody& worker) {
  if (!words.empty() && words[0] == "hand-over") return hand_over_words(words);
  const std::vector<std::string> given = words;
  words = with_subcommand(std::move(words));
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    (words.empty() ? err : out) << help_text();
    return words.empty() ? kExitUser : kExitOk;
  }
  if (words[0] == "--version") return out << "lockstep " << kVersion << "\n", kExitOk;
  if (words[0] == "run" && waited_for_first(words)) return kExitOk;
  CommandLine line(out, worker, given);
  line.take_program(words);
  if (words[0] == "run") words = without_foreign_flags(words);
  return line.run(std::move(words));
}
bool trains(const std::vector<std::string>& words) { return with_subcommand(words).at(0) == "run"; }
}  // namespace

int trainrun(const std::vector<std::string>& arguments, std::ostream& stdout_stream,
             std::ostream& stderr_stream) {
  WorkerBody worker;
  ::signal(SIGXFSZ, SIG_IGN);  // a file over its limit is an error with a name (EFBIG), here and in the ranks
  PrintableStream shown(stdout_stream), err(stderr_stream);
  // Generated text is written unfiltered if it goes to a file.
  const bool exact = !arguments.empty() && arguments[0] == "generate" && !isatty(STDOUT_FILENO);
  std::ostream& out = exact ? stdout_stream : shown;
  try {
    const int code = dispatch(arguments, out, err, worker);
    const bool cut = !worker && output_is_cut(out, stdout_stream, err);
    if (!worker) return cut && code == kExitOk && !trains(arguments) ? kExitUser : code;
  } catch (...) {
    const Failure failure = describe_failure(std::current_exception());
    const std::string& kind = failure.record.kind;
    err << "trainrun: " << (kind == "UserError" ? "" : kind + ": ") << failure.record.message << std::endl;
    return failure.exit_code;
  }
  return worker_main(worker);
}

}  // namespace lockstep::launcher::cli
