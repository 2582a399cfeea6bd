// The command line: flags and subcommands, and what is printed for each error.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <ostream>

#include "core/base/error.h"
#include "core/base/log.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/flags.h"
#include "launcher/cli/neighbours.h"
#include "launcher/cli/printable_stream.h"
#include "launcher/config/stored.h"
#include "launcher/memory/needs.h"
#include "launcher/supervise/worker_side.h"
#include "launcher/version.h"
#include "launcher/worker/replay.h"
#include "launcher/worker/worker.h"

namespace lockstep::cli {

namespace {

const std::vector<std::string> kSubcommands = {"run",      "plan",   "show",   "explain", "ckpt",
                                               "generate", "replay", "flight", "env",     "worker"};
// Words of other command lines, that nobody means as the name of a config.
const std::map<std::string, std::string> kElsewhere = {
    {"completion", "there is no completion of a shell's words"},
    {"train", "training is trainrun [run] CONFIG"},
    {"eval", "a run validates by itself: train.eval_every"},
    {"launch", "training is trainrun [run] CONFIG"},
    {"test", "a run validates by itself: train.eval_every"},
    {"resume", "a run resumes by itself: the same command goes on from its newest checkpoint"},
    {"config", "trainrun show CONFIG prints a config, trainrun show --reference all keys"},
    {"version", "trainrun --version prints it"},
    {"doctor", "trainrun env prints what this machine says"}};

// The first word that is no flag decides: a subcommand's name, or else the command is `run`. `help COMMAND`
// is `COMMAND --help`.
std::vector<std::string> with_subcommand(std::vector<std::string> words) {
  const bool subcommand =
      words.size() > 1 && std::find(kSubcommands.begin(), kSubcommands.end(), words[1]) != kSubcommands.end();
  if (words.size() > 1 && words[0] == "help") {
    if (!subcommand)
      throw UserError(str("help: there is no command \"", words[1], "\"; the commands are ",
                          join({kSubcommands.begin(), kSubcommands.end() - 1}, ", ")));
    return {words[1], "--help"};
  }
  if (words.size() == 1 && words[0].find_first_of("./") == std::string::npos &&
      !std::filesystem::exists(words[0]))
    if (auto found = kElsewhere.find(words[0]); found != kElsewhere.end())
      throw UserError(str("there is no command \"", words[0], "\": ", found->second, "; the commands are ",
                          join({kSubcommands.begin(), kSubcommands.end() - 1}, ", ")));
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "--version" ||
      words[0] == "help")
    return words;
  if (std::find(kSubcommands.begin(), kSubcommands.end(), words[0]) == kSubcommands.end())
    words.insert(words.begin(), "run");
  return words;
}

// Of what reads no data.
RunConfig config_of(const Flags& flags, const CLI::App& app, const char* command) {
  if (flags.target.empty())
    throw UserError(str("no config given; name one, as in: trainrun ", command, " configs/quickstart.json"));
  return load_config(flags.target, parse_overrides(app.remaining(), names_of(app)), DataPaths::may_be_empty);
}

// The same for a command that opens the config's device: a stored config does not say which library that is.
RunConfig config_to_open(const Flags& flags, const CLI::App& app, const char* command) {
  RunConfig config = config_of(flags, app, command);
  refuse_stored_plugin(config, flags.target, stored_in(flags.target),
                       parse_overrides(app.remaining(), names_of(app)),
                       str("trainrun ", command, " ", flags.target));
  return config;
}

// What a rank that is a process does: a run by its config, or a replay by its task.
using WorkerBody = std::function<int(const WorkerPlace&)>;

// `worker`: set where the command is the worker's; nothing else is done here then.
int dispatch(std::vector<std::string> words, std::ostream& out, std::ostream& err, WorkerBody& worker) {
  words = with_subcommand(std::move(words));
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    (words.empty() ? err : out) << help_text();
    return words.empty() ? kExitUser : kExitOk;
  }
  if (words[0] == "--version") {
    out << "lockstep " << kVersion << "\n";
    return kExitOk;
  }
  const std::string command = words[0];
  if (command == "run") words = without_foreign_flags(words);
  Flags flags;
  std::function<int()> act;
  CLI::App app("", "trainrun");
  app.require_subcommand(1);

  auto* run_app = app.add_subcommand("run", "train (the default command)")->allow_extras();
  add_run_flags(*run_app, flags);
  run_app->callback([&] {
    flags.run.launch.nproc = parse_nproc(flags.nproc);
    flags.run.simulate = parse_simulate(*run_app, flags);
    flags.run.self = std::filesystem::read_symlink("/proc/self/exe");
    flags.run.target = flags.target;
    flags.run.rest = run_app->remaining();
    flags.run.flags = names_of(*run_app);
    act = [&] { return run(flags.run, out); };
  });
  auto* plan_app = app.add_subcommand("plan", "memory, collectives and time of a run, before it is started")
                       ->allow_extras();
  add_nproc(*plan_app, flags);
  plan_app
      ->add_option("--memory", flags.memory,
                   "the memory of a rank's GPU, as in 141GB (on the CPU: of its host's memory); more than "
                   "that is refused")
      ->type_name("BYTES");
  add_roofline(*plan_app, flags);
  plan_app->add_flag("--json", flags.json, "one JSON object instead of tables");
  plan_app->add_flag("--program", flags.program, "what a rank does in a step, instruction by instruction");
  add_rank(*plan_app, flags, "whose program; default: 0");
  plan_app->add_option("config", flags.target)->type_name("CONFIG");
  plan_app->callback([&] {
    act = [&] {
      PlanArguments arguments{config_to_open(flags, *plan_app, "plan"),
                              parse_nproc(flags.nproc, "--nproc", kMostRanks),
                              flags.memory.empty() ? 0 : parse_memory(flags.memory),
                              flags.roofline,
                              flags.json,
                              flags.program,
                              flags.rank};
      for (const auto& line : config_warnings(arguments.config)) logs::warn("trainrun: " + line);
      validate(arguments.config, arguments.nproc);
      return plan(arguments, out);
    };
  });
  auto* show_app =
      app.add_subcommand("show", "the resolved config; --reference: all keys; --graph: a step as a picture")
          ->allow_extras();
  show_app->add_option("config", flags.target)->type_name("CONFIG");
  show_app->add_flag("--reference", flags.reference,
                     "every key with type, default, values and meaning, as Markdown");
  auto* graph = show_app
                    ->add_option("--graph", flags.graph,
                                 "writes a picture of a rank's step: what computes, what travels")
                    ->type_name("FILE.svg");
  add_nproc(*show_app, flags);
  add_rank(*show_app, flags, "whose step --graph draws; default: 0");
  add_roofline(*show_app, flags);
  for (const char* of_graph : {"--nproc", "--rank", "--roofline"})
    show_app->get_option(of_graph)->needs(graph);
  show_app->callback([&] {
    act = [&] {
      if (flags.reference) return show_reference(out);
      if (flags.graph.empty()) return show(config_of(flags, *show_app, "show"), out);
      GraphArguments arguments{config_to_open(flags, *show_app, "show"), flags.graph,
                               parse_nproc(flags.nproc, "--nproc", kMostRanks), flags.rank, flags.roofline};
      for (const auto& line : config_warnings(arguments.config)) logs::warn("trainrun: " + line);
      validate(arguments.config, arguments.nproc);
      return show_graph(arguments, out);
    };
  });
  auto* explain_app = app.add_subcommand(
      "explain", "what a config key, an op, an exit code, an error kind or a log topic means");
  explain_app->add_option("word", flags.word)->required()->type_name("WORD");
  explain_app->callback([&] { act = [&] { return explain(flags.word, out); }; });
  auto* ckpt_app = app.add_subcommand("ckpt", "checkpoints: ls, show, verify");
  ckpt_app->require_subcommand(1);
  struct {
    const char *name, *help;
    int (*body)(const std::string&, std::ostream&);
  } const verbs[] = {{"ls", "all checkpoints of a run", ckpt_ls},
                     {"show", "the tensors of one checkpoint", ckpt_show},
                     {"verify", "read every byte and compare every checksum", ckpt_verify}};
  for (const auto& verb : verbs) {
    auto* verb_app = ckpt_app->add_subcommand(verb.name, verb.help);
    verb_app->add_option("path", flags.path, "runs/NAME, its ckpt folder, or one step-N folder")
        ->required()
        ->type_name("PATH");
    verb_app->callback([&flags, &act, &out, body = verb.body] {
      act = [&flags, &out, body] { return body(flags.path, out); };
    });
  }
  auto* generate_app = app.add_subcommand("generate", "text from a checkpoint");
  auto& g = flags.generate;
  generate_app->add_option("path", g.path, "runs/NAME, its ckpt folder, or one step-N folder")
      ->required()
      ->type_name("PATH");
  generate_app->add_option("--prompt", g.prompt, "the text to go on from")->type_name("TEXT");
  generate_app->add_option("--tokens", g.tokens, "how many tokens to add; default 200")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  generate_app->add_option("--temperature", g.temperature, "0: always the likeliest; default 0.8")
      ->check(CLI::NonNegativeNumber)
      ->type_name("T");
  generate_app->add_option("--top-k,--top_k", g.top_k, "choose among the K likeliest; 0: among all")
      ->check(CLI::NonNegativeNumber)
      ->type_name("K");
  generate_app
      ->add_option("--train.device", g.device,
                   "where to compute; default: where the run did, or the CPU. A plugin is named here, with "
                   "its absolute path")
      ->type_name("DEVICE");
  generate_app->add_option("--seed", g.seed, "of the choice; default 1337")->type_name("N");
  generate_app->callback([&] { act = [&] { return generate(flags.generate, out); }; });
  auto* replay_app =
      app.add_subcommand("replay", "compute a step of a run again, and compare it with the run's record")
          ->allow_extras();
  add_replay_flags(*replay_app, flags);
  replay_app->callback([&] {
    const int64_t threads = parse_simulate(*replay_app, flags);
    flags.replay.nproc = threads ? threads : parse_nproc(flags.nproc);
    flags.replay.processes = !threads && flags.replay.nproc > 1;
    flags.replay.self = std::filesystem::read_symlink("/proc/self/exe");
    flags.replay.overrides = parse_overrides(replay_app->remaining(), names_of(*replay_app));
    act = [&] { return replay(flags.replay, out); };
  });
  auto* flight_app = app.add_subcommand(
      "flight", "where the ranks of an attempt are, or were: progress, heartbeat, last collectives");
  flight_app->add_option("path", flags.path, "runs/NAME/logs/attempt-K, or a record progress-R in it")
      ->required()
      ->type_name("PATH");
  flight_app->callback([&] { act = [&] { return flight(flags.path, out); }; });
  app.add_subcommand("env", "versions, processor, LOCKSTEP_* variables, log topics")->callback([&] {
    act = [&] { return env(out); };
  });
  auto* worker_app = app.add_subcommand("worker", "one rank (started by run)")->group("")->allow_extras();
  worker_app->add_option("config", flags.target)->required();
  worker_app->add_flag("--replay", flags.replay.processes);
  worker_app->callback([&] {
    act = [&, target = flags.target, overrides = parse_overrides(worker_app->remaining())] {
      if (flags.replay.processes)
        worker = [target](const WorkerPlace& at) { return replay_worker(target, at); };
      else
        worker = [target, overrides](const WorkerPlace& at) { return run_worker(target, overrides, at); };
      return kExitOk;
    };
  });

  try {
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    out << app.help();
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    throw UserError(str(error.what(), "; trainrun ", command, " --help lists what there is"));
  }
  return act();
}

}  // namespace

int trainrun(const std::vector<std::string>& arguments, std::ostream& stdout_stream,
             std::ostream& stderr_stream) {
  WorkerBody worker;
  PrintableStream shown(stdout_stream), err(stderr_stream);
  // Text that a model made is the user's own where it goes to a file.
  const bool exact = !arguments.empty() && arguments[0] == "generate" && !isatty(STDOUT_FILENO);
  std::ostream& out = exact ? stdout_stream : shown;
  try {
    const int code = dispatch(arguments, out, err, worker);
    if (!worker) return code;
  } catch (const Error& error) {
    err << "trainrun: " << (std::string(error.kind()) == "UserError" ? "" : str(error.kind(), ": "))
        << error.what() << std::endl;
    return error.exit_code();
  } catch (const std::filesystem::filesystem_error& error) {
    err << "trainrun: " << file_error_text(error) << std::endl;
    return kExitUser;
  } catch (const std::exception& error) {
    err << "trainrun: InternalError: " << error.what() << std::endl;
    return kExitInternal;
  }
  return worker_main(worker);
}

}  // namespace lockstep::cli
