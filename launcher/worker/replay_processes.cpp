// Replay processes: runs one attempt in a temporary folder, which is removed afterwards; and a program's
// replay.
#include "launcher/worker/replay_processes.h"

#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/files/private_file.h"
#include "core/files/temporary_folder.h"
#include "core/reading/json_text.h"
#include "launcher/supervise/folders/run.h"
#include "launcher/supervise/run/stop_request.h"
#include "launcher/worker/ranks_in_place.h"
#include "launcher/worker/replay.h"

namespace lockstep::launcher {

Json read_json_file(const std::string& path) {
  std::string text, why;
  read_plain(path, text, why, kJsonBytes);
  return bounded_json(text, {.members = kAllMembers});
}

AttemptOutcome replay_in_processes(Console& console,
                                   const std::function<ReplayLaunch(const ReplayFiles&)>& ask, Json& answer) {
  const TemporaryFolder folder("replay");
  const ReplayFiles files{folder.path() + "/task.json", folder.path() + "/result.json"};
  ReplayLaunch asked = ask(files);
  const std::string log_dir = folder.path() + "/logs";
  make_private_folders(log_dir);
  install_signals();
  auto command =
      launch_command(asked.launch, asked.launch.nproc, folder.path(), log_dir, 0, console.columns());
  command.variables.insert(command.variables.end(), asked.variables.begin(), asked.variables.end());
  StopRequest stop(asked.launch.grace, {}, console);
  AttemptOutcome outcome = diagnose(run_attempt(command, log_dir, stop, console));
  if (outcome.cause.empty() && outcome.exit_code == kExitOk) answer = read_json_file(files.answer);
  return outcome;
}

int tell_replay(const AttemptOutcome& outcome, int64_t step, Console& console) {
  if (!outcome.cause.empty())
    tell_failure(outcome, "", console);
  else if (outcome.exit_code == kExitStopped)
    console.notice(str("stopped on request before step ", step, "; nothing was written"));
  return outcome.exit_code;
}

int run_replay(const ProgramReplay& asked, int64_t nproc, ReplayResult& result) {
  Console console;
  Json answer;
  const AttemptOutcome outcome = replay_in_processes(
      console,
      [&](const ReplayFiles& files) {
        write_whole(files.request, text(ReplayRequest{asked.run, asked.task, files.answer}));
        ReplayLaunch out{{}, {{"LOCKSTEP_REPLAY", files.request}}};
        out.launch.nproc = nproc;
        out.launch.worker = asked.command;
        return out;
      },
      answer);
  const int code = tell_replay(outcome, asked.task.step, console);
  if (code != kExitOk) return code;
  if (!answer.is_object())
    throw UserError(
        str("replay: the program ended without a train() into ", asked.run,
            ": what is replayed is a step of train(), whose `run` is that folder; give the program "
            "the arguments that the run was started with"));
  result = replay_result(answer);
  return code;
}

}  // namespace lockstep::launcher
