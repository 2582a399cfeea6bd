// The ranks of a replay: threads of this process, or processes that work in a temporary folder.
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/private_file.h"
#include "core/base/temporary_folder.h"
#include "distributed/open_world.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/run_folder.h"
#include "launcher/worker/ranks_in_place.h"
#include "launcher/worker/replay.h"

namespace lockstep::launcher {

namespace fs = std::filesystem;

namespace {
Json to_json(const ReplayResult& result) {
  return {{"values", result.values},
          {"from", result.from},
          {"mesh", result.mesh},
          {"library", result.library},
          {"data", result.data}};
}
ReplayResult result_of(const Json& json) {
  return {json["values"].get<std::map<std::string, std::string>>(), json["from"], json["mesh"],
          json["library"], json["data"]};
}
Json read_json(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file, nullptr, false);
}

AttemptOutcome in_processes(const ReplayTask& task, const ReplayPlace& place, Console& console,
                            ReplayResult& result) {
  const TemporaryFolder folder("replay");
  const std::string file = folder.path() + "/task.json", out = folder.path() + "/result.json";
  Json json = {{"config", config_json(task.config)},
               {"checkpoints", task.checkpoints},
               {"step", task.step},
               {"evaluate", task.evaluate},
               {"result", out}};
  write_whole(file, json.dump() + "\n");
  LaunchOptions launch;
  launch.nproc = place.nproc;
  launch.threads = task.config.compile.threads;
  if (!std::getenv("LOCKSTEP_DEADLINE"))
    launch.deadlines = text(Deadlines{task.config.watch.deadline, task.config.watch.start_deadline});
  launch.heeds_stop = true;
  launch.worker = {place.self, "worker", "--replay", file};
  const std::string log_dir = folder.path() + "/logs";
  make_private_folders(log_dir);
  install_signals();
  auto command = launch_command(launch, place.nproc, folder.path(), log_dir, 0, console.columns());
  AttemptOutcome outcome = diagnose(run_attempt(command, log_dir, launch.grace, console));
  if (outcome.cause.empty() && outcome.exit_code == kExitOk) result = result_of(read_json(out));
  return outcome;
}

AttemptOutcome in_threads(const ReplayTask& task, const ReplayPlace& place, Console& console,
                          ReplayResult& result) {
  const InPlace options{.nproc = place.nproc,
                        .run_dir = "",
                        .log_dir = "",
                        .device = in_place_device(task.config, place.nproc),
                        .when_stopped = "finishing the step"};
  return run_in_place(
      options, console,
      [&](const WorkerPlace& at, std::shared_ptr<distributed::World> world, const RunHooks& hooks) {
        ReplayResult own;
        const bool lead = world->rank() == 0;
        int code = replay_rank(task, at, std::move(world), hooks, own);
        if (lead) result = own;
        return code;
      });
}
}  // namespace

int run_replay(const ReplayTask& task, const ReplayPlace& place, ReplayResult& result) {
  Console console;
  AttemptOutcome outcome =
      place.processes ? in_processes(task, place, console, result) : in_threads(task, place, console, result);
  if (!outcome.cause.empty())
    tell_failure(outcome, "", console);
  else if (outcome.exit_code == kExitStopped)
    console.notice(str("stopped on request before step ", task.step, "; nothing was written"));
  return outcome.exit_code;
}

int replay_worker(const std::string& file, const WorkerPlace& at) {
  Json json = read_json(file);
  if (!json.is_object())
    throw UserError(
        str("cannot read ", file, "; it is written by trainrun replay, which starts its ranks itself"));
  ReplayTask task{parse_config(json["config"].dump(), file), json["checkpoints"], json["step"],
                  json["evaluate"]};
  ReplayResult result;
  int code = replay_rank(task, at, distributed::open_world(), process_hooks(task.config), result);
  if (at.rank == 0 && code == kExitOk) write_whole(json["result"], to_json(result).dump() + "\n");
  return code;
}

}  // namespace lockstep::launcher
