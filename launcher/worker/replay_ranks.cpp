// Runs the ranks of a config's replay as threads or processes.
#include "core/base/error.h"
#include "core/table/op_library.h"
#include "distributed/open_world.h"
#include "launcher/supervise/folders/run.h"
#include "launcher/worker/ranks_in_place.h"
#include "launcher/worker/replay.h"
#include "launcher/worker/replay_processes.h"

namespace lockstep::launcher {

namespace {
AttemptOutcome in_processes(const ConfigReplay& asked, const ReplayPlace& place, Console& console,
                            ReplayResult& result) {
  Json answer;
  const AttemptOutcome outcome = replay_in_processes(
      console,
      [&](const ReplayFiles& files) {
        const Json json = {{"config", config_json(asked.config)},
                           {"task", text(ReplayRequest{"", asked.task, files.answer})}};
        write_whole(files.request, json.dump() + "\n");
        ReplayLaunch out;
        out.launch.nproc = place.nproc;
        out.launch.threads = asked.config.compile.threads;
        if (!std::getenv("LOCKSTEP_DEADLINE"))
          out.launch.deadlines =
              text(Deadlines{asked.config.watch.deadline, asked.config.watch.start_deadline});
        out.launch.heeds_stop = true;
        out.launch.worker = {place.self, "worker", "--replay", files.request};
        return out;
      },
      answer);
  if (answer.is_object()) result = replay_result(answer);
  return outcome;
}

AttemptOutcome in_threads(const ConfigReplay& asked, const ReplayPlace& place, Console& console,
                          ReplayResult& result) {
  const InPlace options{.nproc = place.nproc,
                        .run_dir = "",
                        .log_dir = "",
                        .device = in_place_device(asked.config, place.nproc),
                        .when_stopped = "finishing the step"};
  return run_in_place(
      options, console,
      [&](const WorkerPlace& at, std::shared_ptr<distributed::World> world, const RunHooks& hooks) {
        ReplayResult own;
        const bool lead = world->rank() == 0;
        int code = replay_rank(asked, at, std::move(world), hooks, own);
        if (lead) result = own;
        return code;
      });
}
}  // namespace

int run_replay(const ConfigReplay& asked, const ReplayPlace& place, ReplayResult& result) {
  Console console;
  const AttemptOutcome outcome = place.processes ? in_processes(asked, place, console, result)
                                                 : in_threads(asked, place, console, result);
  return tell_replay(outcome, asked.task.step, console);
}

int replay_worker(const std::string& file, const WorkerPlace& at) {
  const Json json = read_json_file(file);
  if (!json.is_object())
    throw UserError(
        str("cannot read ", file, "; it is written by trainrun replay, which starts its ranks itself"));
  for (const std::string& path : libraries_of(json["config"].dump(), {})) load_ops(path);
  const ReplayRequest request = replay_request(json["task"].get<std::string>());
  const ConfigReplay asked{parse_config(json["config"].dump(), file), request.task};
  ReplayResult result;
  int code = replay_rank(asked, at, distributed::open_world(), process_hooks(asked.config), result);
  if (at.rank == 0 && code == kExitOk) write_whole(request.answer, to_json(result).dump() + "\n");
  return code;
}

}  // namespace lockstep::launcher
