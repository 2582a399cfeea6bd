// trainrun run: checks as much as possible before it starts a process, then supervises.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/files/private_file.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/plan/planned_run.h"
#include "launcher/cli/program/target.h"
#include "launcher/cli/program/under_launcher.h"
#include "launcher/cli/program/words.h"
#include "launcher/config/run_names.h"
#include "launcher/config/stored.h"
#include "launcher/loop/saves/memory_to_disk.h"
#include "launcher/machine/host_rates.h"
#include "launcher/machine/run_device.h"
#include "launcher/report/metrics.h"
#include "launcher/supervise/folders/memory.h"
#include "launcher/supervise/folders/run.h"
#include "launcher/supervise/hosts/agent.h"
#include "launcher/supervise/hosts/slurm_job.h"
#include "launcher/supervise/launch/command.h"
#include "launcher/supervise/launch/console.h"
#include "launcher/supervise/launch/rank_limits.h"
#include "launcher/supervise/supervisor.h"
#include "launcher/worker/simulate.h"

namespace lockstep::launcher::cli {

namespace fs = std::filesystem;

namespace {

void check_meshes(const RunConfig& config, const LaunchOptions& launch) {
  validate(config, launch.nproc);
  if (launch.min_nproc <= 0) return;
  for (int64_t nproc = launch.nproc - 1; nproc >= launch.min_nproc; --nproc) try {
      validate(config, nproc);
    } catch (const UserError& error) {
      throw UserError(str("--min-nproc ", launch.min_nproc, " lets the run go on with ", nproc,
                          " ranks, which the config does not fit: ", error.what()));
    }
}

// A program without a slash, or a missing one, would be read as a config.
void refuse_program_as_config(const std::string& target) {
  std::error_code failed;
  if (target.ends_with(".py") && !fs::exists(target, failed))
    throw UserError(str("cannot start the program ", target, ": it is not there"));
  if (target.find('/') != std::string::npos || target.ends_with(".json") ||
      !fs::is_regular_file(target, failed) || access(target.c_str(), X_OK) != 0)
    return;
  char head[4] = "";
  if (const PlainFile file = open_plain(target); file.fd) read_fully(file.fd.get(), head, sizeof head, 0);
  if (std::string_view(head, 4) == "\177ELF" || std::string_view(head, 2) == "#!")
    throw UserError(str(target, " is a program, and a target without a slash is a config; write ./", target));
}

// Restarts resume from checkpoints, so a run that may restart saves some even if none were requested.
void save_for_restarts(RunConfig& config, const LaunchOptions& launch) {
  if (launch.max_restarts == 0 || config.checkpoint.every > 0) return;
  config.checkpoint.every = std::max<int64_t>(1, config.train.steps / 20);
  std::cerr << "trainrun: checkpoint.every is 0, and --max-restarts goes on from checkpoints: saving every "
            << config.checkpoint.every << (config.checkpoint.every == 1 ? " step" : " steps")
            << "; set checkpoint.every to choose" << std::endl;
}

// The command without the flags that submit it, for the job's script.
std::vector<std::string> words_of_job(const RunArguments& arguments) {
  std::vector<std::string> out{arguments.self};
  const std::string target = arguments.program.empty() ? arguments.target : arguments.program[0];
  bool before = true;  // the words before the target; later ones are the program's
  for (const auto& word : arguments.given) {
    if (word == target) before = arguments.program.empty();
    const bool ours = word == "--dry-run" || word == "--dry_run" || word.rfind("--slurm", 0) == 0;
    if (!before || !ours) out.push_back(word);
  }
  return out;
}

// Minutes that a job requests from Slurm: a third more than the plan predicts for all steps, plus a quarter
// of an hour for starts and saves. At most a day, after which the job is requeued and continues. 0: no
// prediction.
int64_t minutes_of_job(const RunConfig& config, int64_t ranks) {
  constexpr double kStarts = 15, kDay = 24 * 60;
  double step = 0;
  try {
    step = PlannedRun(config, ranks, "").budget().step_s;
  } catch (const UserError&) {}  // the job itself reports errors of the plan
  if (step <= 0) return 0;
  const double minutes = kStarts + step * static_cast<double>(config.train.steps) * 4 / 3 / 60;
  return static_cast<int64_t>(std::ceil(std::min(minutes, kDay) / 10)) * 10;
}

int submit_run(const RunArguments& arguments, const LaunchOptions& launch, const std::string& run_dir,
               const RunConfig* config, std::ostream& out) {
  if (config && (arguments.target.starts_with("/dev/") || arguments.target.starts_with("/proc/")))
    throw UserError(str("--slurm reads the config again in its job, where ", arguments.target,
                        ", a stream of this shell, is not there; write it to a file, and name that"));
  SlurmJob job;
  if (config) {
    job.gpus = device_choice(config->train.device).kind == "cuda";
    job.minutes = minutes_of_job(*config, launch.nproc);
  }
  job.name = fs::path(run_dir).filename();
  job.nodes = static_cast<int64_t>(launch.hosts.list.size());
  job.ranks = launch.hosts.list[0].ranks;
  job.grace = launch.grace;
  job.options = arguments.slurm;
  job.words = words_of_job(arguments);
  job.folder = fs::current_path();
  const std::string script = slurm_script(job);
  if (arguments.dry_run) {
    out << script;
    return kExitOk;
  }
  make_private_folders("runs");  // Slurm writes the job's log there
  out << submit(script) << "\n";
  return kExitOk;
}

// Refuses foreign files with the names of a run's files, which would be replaced. `config`: the run has one.
void refuse_foreign_files(const std::string& run, bool config, const std::string& other) {
  refuse_foreign_metrics(run + "/metrics.jsonl");
  refuse_foreign_words(run, {"memory-id", "run.at", "logs.at", config ? "ckpt.at" : "program.json"}, other);
  if (config)
    for (const std::string& path : {run + "/config.json", asked_config(run)})
      refuse_foreign_config(path, other);
}

// Prepares the log folder and the workers' config. A folder created in vain is removed, and foreign files
// with a run's names are refused first.
void prepare(RunFolder& folder, const std::string& log_dir, const std::string& config, bool has_config,
             const std::string& other) {
  try {
    refuse_no_local_path(log_dir, "--log-dir");
    refuse_foreign_files(folder.path(), has_config, other);
    folder.keep_logs_in(log_dir);
    if (!config.empty()) folder.ask(config);
  } catch (const UserError&) {
    folder.remove_unused();
    throw;
  }
}

// Frees the memory of checkpoints. If a run failed, or its user stopped it during a change of ranks,
// checkpoints newer than the disk's stay in memory.
void end_memory(const std::string& memory, const std::string& run_dir, int code) {
  std::error_code unknown;
  if (!fs::exists(memory, unknown)) return;
  try {
    const std::string disk = checkpoint::checkpoints_of_run(run_dir);
    if (const int64_t step = code != kExitOk && code < 128 ? memory_to_disk(memory, disk) : -1; step >= 0)
      std::cerr << "trainrun: the checkpoint of step " << step << " in memory is kept as " << disk << "/step-"
                << step << std::endl;
  } catch (const UserError& error) {
    return warn_user(str("a checkpoint in memory is newer than those on the disk, and cannot be kept there: ",
                         error.what(), "; it stays in ", memory, ", and the same command goes on from it"));
  }
  if (const std::string left = remove_memory_folder(memory); !left.empty()) warn_user(left);
}

int supervise_with_memory(LaunchOptions launch, RunFolder& folder) {
  remove_forgotten_memory();
  launch.memory_dir = memory_folder_of(folder.path());
  int code = kExitInternal;
  try {
    code = supervise(launch, folder);
  } catch (const Error& error) {
    end_memory(launch.memory_dir, folder.path(), error.exit_code());
    throw;
  }
  end_memory(launch.memory_dir, folder.path(), code);
  return code;
}

// Always reports the end of the run to the agents of other hosts.
int supervise_on_hosts(const LaunchOptions& launch, RunFolder& folder) {
  try {
    const int code = supervise_with_memory(launch, folder);
    dismiss_agents(launch, folder.path(), code);
    return code;
  } catch (const Error& error) {
    dismiss_agents(launch, folder.path(), error.exit_code());
    throw;
  }
}

// A run that is to be started.
struct AskedRun {
  LaunchOptions launch;
  std::string dir;                            // runs/NAME
  std::string other = "choose --name=OTHER";  // how to choose another folder
  std::optional<RunConfig> config = {};       // none: a program
  std::string text = {};                      // of the config, for the workers
};

// The options of the launch, checked without the config.
LaunchOptions launch_of(const RunArguments& arguments) {
  LaunchOptions launch = arguments.launch;
  if (arguments.target.empty() && arguments.program.empty())
    throw UserError("no config given; name one, as in: trainrun --nproc 2 configs/quickstart.json");
  if (arguments.simulate) {
    if (launch.max_restarts || launch.min_nproc || launch.timeout > 0)
      throw UserError(
          "--max-restarts, --min-nproc and --timeout are about processes, and the ranks of --simulate are "
          "threads of one; leave them out, or use --nproc");
    launch.nproc = arguments.simulate;
  }
  if (!launch.deadlines.empty()) read_deadlines(launch.deadlines, "--deadline");
  if (launch.min_nproc > launch.nproc)
    throw UserError(str("--min-nproc ", launch.min_nproc, " is more than --nproc ", launch.nproc));
  return launch;
}

AskedRun run_of_program(const RunArguments& arguments, const LaunchOptions& launch) {
  AskedRun run{launch, ""};
  const std::string& path = arguments.program[0];
  if (arguments.simulate)
    throw UserError(str("--simulate runs the ranks of a config as threads; ", path,
                        " is a program, each of whose ranks is a process: use --nproc ", arguments.simulate));
  run.launch.profile = arguments.profile;
  const BeforeProgram before = before_program(arguments.rest, path);
  if (const std::string behind = flags_behind(arguments.program, path); !behind.empty()) warn_user(behind);
  run.dir = "runs/" + (before.name.empty() ? fs::path(path).stem().string() : before.name);
  run.launch.worker = program_command(arguments.program, before.words, arguments.self);
  run.other = str("give this one a folder of its own: trainrun --name=OTHER ", path);
  return run;
}

// The config is refused, or warned about, where the run would not do as it says.
AskedRun run_of_config(const RunArguments& arguments, const LaunchOptions& launch) {
  refuse_program_as_config(arguments.target);
  // A dry run only looks at the config, as plan does.
  open_libraries(arguments.dry_run ? "" : arguments.target, stored_in(arguments.target), arguments.rest);
  const std::vector<Override> overrides = parse_overrides(arguments.rest, arguments.flags);
  RunConfig config = load_config(arguments.target, overrides);
  if (arguments.profile) config.log.profile = arguments.profile;
  const std::string again = str("--nproc ", launch.nproc, " ", arguments.target);
  refuse_stored_plugin(config, arguments.target, stored_in(arguments.target), overrides, "trainrun " + again);
  refuse_stored_place(config, arguments.target, stored_in(arguments.target), overrides, "trainrun " + again);
  if (arguments.dry_run)
    refuse_unnamed_libraries(config, arguments.target, overrides, "trainrun --dry-run " + again);
  make_plugin_absolute(config);
  check_meshes(config, launch);
  const int64_t local = launch.hosts.list.empty() ? launch.nproc : launch.hosts.list[0].ranks;
  if (!arguments.simulate) refuse_one_device(config.train.device, local);
  if (arguments.dry_run) {
    if (const std::string data = data_in_words(config.data); data.find("there") != 0)
      warn_user("data: " + data);
    if (const std::string none = device_not_here(config.train.device, local); !none.empty())
      warn_user(str("train.device \"", config.train.device, "\": not here: ", none));
  }
  save_for_restarts(config, launch);
  for (const auto& line : config_warnings(config)) warn_user(line);
  return {.launch = launch, .dir = "runs/" + config.name, .config = config};
}

// Options that the command line leaves to the config, and the workers' command. A flag overrides the
// environment, which overrides the config.
void take_from_config(AskedRun& run, const std::string& self) {
  LaunchOptions& launch = run.launch;
  const RunConfig& config = *run.config;
  run.text = config_text(config);
  launch.threads = config.compile.threads;
  if (launch.hosts.network.empty()) launch.hosts.network = config.launch.network;
  if (launch.hosts.ports.empty()) launch.hosts.ports = config.launch.ports;
  if (launch.deadlines.empty() && !std::getenv("LOCKSTEP_DEADLINE"))
    launch.deadlines = text(Deadlines{config.watch.deadline, config.watch.start_deadline});
  if (!std::getenv("LOCKSTEP_VERIFY_COLLECTIVES")) launch.verify_collectives = config.verify.collectives;
  launch.worker = {self, "worker", asked_config(run.dir)};
  launch.heeds_stop = true;
  if (device_choice(config.train.device).kind == "plugin")
    launch.worker.push_back("--train.device=" + config.train.device);
  if (!config.compile.load_ops.empty())
    launch.worker.push_back("--compile.load_ops=" + Json(config.compile.load_ops).dump());
}

// --simulate: the ranks are threads of this process.
int run_as_threads(const AskedRun& run, bool dry_run, std::ostream& out) {
  const LaunchOptions& launch = run.launch;
  if (!launch.deadlines.empty()) setenv("LOCKSTEP_DEADLINE", launch.deadlines.c_str(), 1);
  in_place_device(*run.config, launch.nproc);
  if (dry_run) {
    out << "--simulate " << launch.nproc << ": no command; the ranks are threads of this process, and write "
        << run.dir << "\n";
    return kExitOk;
  }
  require_memory_limits();
  host_rates();
  RunFolder folder(run.dir);
  prepare(folder, launch.log_dir, "", true, run.other);
  return simulate(*run.config, launch.nproc, folder, launch.grace);
}

bool is_on_cpu(const RunConfig& config) {
  const std::string kind = device_choice(config.train.device).kind;
  return kind == "cpu" || (kind == "auto" && access("/dev/nvidiactl", F_OK) != 0);
}

int run_as_processes(const AskedRun& run) {
  const LaunchOptions& launch = run.launch;
  require_memory_limits();  // before a file is written
  if (launch.nproc > 1 && !launch.hosts.several()) require_limits(launch.nproc);
  if (!launch.hosts.several())
    require_tasks(launch.nproc,
                  threads_per_rank(launch, launch.nproc, std::max(1u, std::thread::hardware_concurrency())));
  // For the prediction of rank 0, which has no quiet moment for it.
  if (run.config && is_on_cpu(*run.config)) host_rates();
  RunFolder folder(run.dir, run.other);
  prepare(folder, launch.log_dir, run.text, run.config.has_value(), run.other);
  return supervise_on_hosts(launch, folder);
}

}  // namespace

int hand_over_words(const std::vector<std::string>& words) {
  if (words.size() < 4)
    throw UserError("hand-over is what mpirun calls, with a folder, a host and a command");
  return hand_over(words[1], {words.begin() + 2, words.end()});
}

int run(const RunArguments& arguments, std::ostream& out) {
  refuse_under_a_launcher();
  const LaunchOptions asked = launch_of(arguments);
  AskedRun run =
      arguments.program.empty() ? run_of_config(arguments, asked) : run_of_program(arguments, asked);
  if (arguments.simulate) return run_as_threads(run, arguments.dry_run, out);
  if (run.config) take_from_config(run, arguments.self);
  const LaunchOptions& launch = run.launch;
  if (!arguments.slurm.empty())
    return submit_run(arguments, launch, run.dir, run.config ? &*run.config : nullptr, out);
  if (arguments.dry_run) {
    out << text(launch_command(launch, launch.nproc, run.dir, next_attempt(run.dir), 0, 0)) << "\n";
    return kExitOk;
  }
  return launch.hosts.node > 0 ? serve_as_agent(launch, run.dir) : run_as_processes(run);
}

}  // namespace lockstep::launcher::cli
