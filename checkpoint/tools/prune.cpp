// Prunes checkpoints: keeps the newest intact one and those of the rule, and removes the rest like retain().
#include "checkpoint/tools/prune.h"

#include <algorithm>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/place.h"
#include "core/base/error.h"

namespace lockstep::checkpoint {

namespace {
int64_t bytes_of(Storage& storage, const std::string& folder) {
  int64_t bytes = 0;
  for (const auto& entry : storage.list(folder))
    if (!entry.folder) bytes += storage.open(folder + "/" + entry.name)->bytes();
  return bytes;
}

// Decides about each checkpoint. `whole` is set once a verified one is intact.
std::vector<PrunedStep> decide(Storage& storage, const std::string& dir, const PruneRule& rule) {
  std::vector<PrunedStep> out;
  int kept = 0;
  for (const StepFolder& folder : scan(storage, dir)) {
    PrunedStep one{folder.path, folder.step, bytes_of(storage, folder.path), false, ""};
    std::string problem = structure_problem(storage, folder);
    if (problem.empty() && kept == 0 && !folder.linked)
      if (const auto found = verify_checkpoint(folder.path, storage); !found.empty()) problem = found[0];
    if (folder.linked)
      one.why = "a link, behind which nothing is removed";
    else if (!problem.empty())
      one.why = "damaged: " + problem;
    else if (kept < rule.keep)
      one.why = ++kept == 1 ? "the newest whole one" : str("one of the newest ", rule.keep);
    else if (rule.every > 0 && folder.step % rule.every == 0)
      one.why = str("every ", rule.every, " steps");
    else if (const std::string stranger = stranger_in(storage, folder.path); !stranger.empty())
      one.why = str("it holds ", printable(stranger), ", which is no file of a checkpoint");
    else
      one.removed = true;
    out.push_back(std::move(one));
  }
  if (out.empty())
    throw UserError(str(dir, " holds no checkpoint; name a run (runs/NAME) or its ckpt folder"));
  if (kept == 0)
    throw UserError(str("none of the ", out.size(), " checkpoints in ", dir,
                        " is whole, and none is removed: ", out[0].path, " is ", out[0].why));
  return out;
}

void remove(Storage& storage, const std::string& dir, const std::vector<PrunedStep>& steps) {
  const std::string latest = read_latest(storage, dir);
  std::string newest;
  bool named = false;
  for (const PrunedStep& one : steps) {
    if (!one.removed && newest.empty() && one.why.rfind("damaged", 0) != 0) newest = last_part(one.path);
    if (one.removed && last_part(one.path) == latest) named = true;
  }
  if (named) write_latest(storage, dir, newest);
  std::vector<std::string> doomed;
  for (const PrunedStep& one : steps)
    if (one.removed) doomed.push_back(one.path);
  remove_checkpoints(storage, dir, doomed);
}
}  // namespace

std::vector<PrunedStep> prune_checkpoints(const std::string& dir, const PruneRule& rule, Storage& storage) {
  if (rule.keep < 1)
    throw UserError(
        str("--keep is ", rule.keep, "; it must be at least 1: the newest whole checkpoint stays"));
  if (rule.every < 0)
    throw UserError(str("--keep-every is ", rule.every, "; it must be a number of steps, 1 or more"));
  if (rule.only_tell || scan(storage, dir).empty()) return decide(storage, dir, rule);  // nothing to lock
  const auto lock = lock_checkpoints(dir, storage);
  tidy(storage, dir);
  auto out = decide(storage, dir, rule);
  lock->check();
  remove(storage, dir, out);
  for (PrunedStep& one : out)
    if (one.removed && storage.exists(one.path)) one.removed = false, one.why = "it cannot be removed";
  return out;
}

}  // namespace lockstep::checkpoint
