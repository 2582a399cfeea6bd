// ReplayedRun: a program's answer to trainrun replay.
#include "launcher/api/replayed_run.h"

#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/files/plain_file.h"
#include "core/mesh/together.h"
#include "launcher/supervise/folders/run.h"

namespace lockstep {

using namespace launcher;

namespace {
ReplayRequest request_of_environment() {
  std::string text, why;
  const std::string file = env("LOCKSTEP_REPLAY");
  if (!read_plain(file, text, why)) throw UserError(str("LOCKSTEP_REPLAY: cannot read ", file, ": ", why));
  return replay_request(text);
}

// Stands in for a finished train() into another folder, before the replayed one.
std::string pass_over(Workload& work, const std::string& run, const std::string& replayed) {
  work.state().allocate();
  const auto loaded =
      checkpoint::load_latest(checkpoint::checkpoints_of_run(run), work.state().arrays(), work.mesh());
  if (!loaded)
    throw UserError(
        str("[train] this is a replay of ", replayed, ", and train() is to write ", run,
            ", which holds no checkpoint: give the program the arguments that the run was started "
            "with"));
  logs::info(str("replay of ", replayed, ": train() into ", run, " is passed over, with the state of ",
                 loaded->path));
  return loaded->state_hash;
}
}  // namespace

bool replaying() { return !env("LOCKSTEP_REPLAY").empty(); }

std::string replay_instead(Session& session, const RunConfig& config, Workload& work, const RunHooks& hooks,
                           const std::string& run) {
  const ReplayRequest request = together(*work.mesh().world, request_of_environment);
  if (std::filesystem::weakly_canonical(run) != request.run) return pass_over(work, run, request.run);
  work.check();
  ReplayResult result;
  const int code = replay(config, work, hooks, request.task, result);
  if (session.rank() == 0 && code == kExitOk) write_whole(request.answer, to_json(result).dump() + "\n");
  session.leave(code);
}

}  // namespace lockstep
