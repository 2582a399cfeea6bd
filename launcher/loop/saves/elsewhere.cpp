// Writes and removes the file ckpt.at of a run folder, and ckpt.of in the folder that it names.
#include "launcher/loop/saves/elsewhere.h"

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "checkpoint/place.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "launcher/supervise/folders/run.h"

namespace lockstep::launcher {

std::string kept_in(const RunConfig& config, const std::string& run_dir) {
  const std::string& dir = config.checkpoint.dir;
  return dir.empty() ? run_dir : dir.substr(0, dir.find_last_not_of('/') + 1) + "/" + config.name;
}

void point_to(const std::string& run_dir, const std::string& checkpoints) {
  const std::string pointer = run_dir + "/" + checkpoint::kElsewhere;
  if (!checkpoints.empty()) return write_whole(pointer, checkpoints + "\n");
  std::error_code none;
  std::filesystem::remove(pointer, none);
}

namespace {
constexpr int64_t kMostBytes = 1 << 16;  // of ckpt.of

std::string run_of(checkpoint::Storage& storage, const std::string& mark) {
  return storage.exists(mark) ? trim(checkpoint::read_text(storage, mark, kMostBytes)) : "";
}
}  // namespace

void claim(const RunConfig& config, const std::string& run_dir) {
  namespace fs = std::filesystem;
  if (config.checkpoint.dir.empty()) return;
  checkpoint::Storage& storage = checkpoint::any_storage();
  const std::string kept = kept_in(config, run_dir), mark = kept + "/" + kOwner,
                    mine = fs::absolute(run_dir).lexically_normal().string(), before = run_of(storage, mark);
  std::error_code gone;
  if (before == mine || fs::equivalent(kept, mine, gone)) return;
  refuse_linked_run(kept);
  if (!before.empty() && before[0] != '/')
    throw UserError(str(printable(mark),
                        " is there, and no run wrote it: the run's would take its place. It is "
                        "left as it is; move it away, or choose another name (--name) or checkpoint.dir"));
  if (!before.empty() && fs::exists(before, gone) && !fs::equivalent(before, mine, gone))
    throw UserError(str(
        "checkpoint.dir ", printable(config.checkpoint.dir), ": ", printable(kept),
        " holds the checkpoints of another run, ", printable(before), ", and this one is ", printable(mine),
        "; choose another name (--name) or checkpoint.dir; --train.init_from=", printable(kept),
        " then starts from its weights. If that run needs them no more, remove ", printable(mark)));
  if (!before.empty() && !fs::exists(before, gone))
    logs::warn(str(printable(kept), " holds the checkpoints of ", printable(before),
                   ", which is not here: they are taken for this run's"));
  checkpoint::replace_text(storage, mark, mine + "\n");
}

std::shared_ptr<checkpoint::FolderLock> lock_in_time(const std::string& folder,
                                                     const std::function<bool()>& stopped) {
  using std::chrono::steady_clock;
  constexpr std::chrono::seconds kPatience(8);
  for (const auto begin = steady_clock::now();;) try {
      return checkpoint::lock_checkpoints(folder);
    } catch (const checkpoint::StorageError& error) {
      if (error.code != EWOULDBLOCK || steady_clock::now() - begin > kPatience || (stopped && stopped()))
        throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

}  // namespace lockstep::launcher
