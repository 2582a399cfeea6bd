// Log lines before a run's first step, and the reason for its end.
#include <cstdio>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "compiler/compile/memory_budget.h"
#include "core/base/log.h"
#include "launcher/loop/saves/elsewhere.h"
#include "launcher/loop/training_loop.h"
#include "launcher/machine/hosts.h"
#include "launcher/machine/idle_ranks.h"

namespace lockstep::launcher {

using namespace checkpoint;
using namespace compiler;

namespace {
bool is_same_place(const std::string& a, const std::string& b) {
  std::error_code none;
  return a == b || std::filesystem::equivalent(a, b, none);
}
// An object store is not queried: it may no longer be reachable.
bool holds_some(const std::string& folder) {
  return any_storage().commit(folder) != Commit::rename || !list_checkpoints(folder).empty();
}
}  // namespace

void TrainingLoop::introduce(const Step& step, double compiled, int64_t done) {
  int64_t elements = 0, trained = 0;
  for (const auto& spec : work_.state().specs())
    if (spec.role == Role::parameter)
      elements += numel(spec.shape), trained += spec.trainable ? numel(spec.shape) : 0;
  const auto& lanes = step.lane_plan();
  const LiveMesh& mesh = work_.mesh();
  logs::info(str(work_.title(), " ", elements, " parameters",
                 trained < elements ? str(", ", trained, " of them trained") : "", "; mesh ",
                 text(mesh.words), "; ", lanes.micro_batches, " micro-batches in ", lanes.lanes,
                 " lanes per step"));
  if (work_.rank() == 0)
    tell_idle_ranks(work_.in_words(idle_ranks(lanes, mesh.words, step.plan().options.invariant)));
  logs::info(str("memory per rank: state ", bytes_text(static_cast<double>(work_.state().bytes_per_rank())),
                 ", arena ", bytes_text(static_cast<double>(step.arena_bytes())), ", reduction ",
                 bytes_text(static_cast<double>(step.reduction_bytes())), "; ", work_.threads(),
                 work_.threads() == 1 ? " thread" : " threads"));
  if (const std::string words = hosts_of(config_, mesh.words, mesh.ranks_per_node).words; !words.empty())
    logs::info(str("gradients are exchanged ", words));
  if (const std::string words = corruption_.in_vain(); !words.empty()) logs::info(work_.in_words(words));
  if (step.plan().recompute.values) logs::info(str("backward recomputes ", text(step.plan().recompute)));
  if (const ProgramBlock& body = step.program().blocks[kBodyBlock]; !body.away.empty())
    logs::info(str("activations wait on the host: ", away_text(body, step.plan().recompute)));
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f", compiled);
  logs::info(str("compiled in ", seconds, " s; certificate ", step.certificate(),
                 done ? "" : "; starting at step 1"));
}

// Called on rank 0 once the run is sure to continue. If its checkpoints were elsewhere before, the old rows
// belong to those and are set aside, unless the checkpoints were moved here. From here on the file ckpt.at
// names the new place.
void TrainingLoop::part_from_others(int64_t done) const {
  std::string aside;
  const bool moved = !is_same_place(before_, checkpoints()), others = moved && holds_some(before_);
  if (moved) aside = set_rows_aside(dir_ + "/metrics.jsonl", others ? 0 : done);
  point_to(dir_, config_.checkpoint.dir.empty() ? "" : checkpoints());
  if (!others && aside.empty()) return;
  const std::string own = dir_ + "/ckpt";
  const std::string said = before_ == own ? str("the checkpoints of this run were in ", own)
                                          : str(dir_, "/", kElsewhere, " named other checkpoints, ", before_);
  const std::string now = done == 0 ? std::string("starts at step 1") : str("goes on behind step ", done);
  const std::string way = before_ == own ? std::string("without checkpoint.dir")
                                         : "checkpoint.dir=" + parent_folder(parent_folder(before_));
  logs::warn(work_.in_words(str(said, others ? ", which stay as they are" : ", which are gone",
                                "; this command has its own in ", checkpoints(), ", and ", now,
                                others ? str("; ", way, " goes on with the others") : "",
                                aside.empty() ? "" : "; the rows of the others are kept as " + aside)));
}

// Logs why the run ends after step `i`.
TrainingLoop::Outcome TrainingLoop::end(int64_t i, Stop stop, bool kept, const std::string& hash) {
  if (config_.checkpoint.best && best_.step() > 0)
    logs::info(work_.in_words(
        str("the best validation: ", best_.found(), "; its state is in ", best_checkpoints())));
  if (stop == Stop::regroup)
    logs::info(str("stopped after step ", i, " to go on with other ranks; ",
                   kept ? "kept in memory" : "saved in " + checkpoints()));
  else if (stop == Stop::asked)
    logs::info(str("stopped on request after step ", i, "; saved in ", checkpoints(),
                   "; the same command goes on from there"));
  else if (i < config_.train.steps)
    logs::info(work_.in_words(str("done early, after step ", i, " of ", config_.train.steps, ": ",
                                  best_.words(), " (train.patience); checkpoint in ", checkpoints())));
  else
    logs::info(str("done: ", config_.train.steps, " steps, checkpoint in ", checkpoints()));
  if (hooks_.report_state && work_.rank() == 0) hooks_.report_state(i, hash);
  return {stop != Stop::none, i, hash};
}

bool TrainingLoop::nothing_to_do(int64_t done) const {
  if (done >= config_.train.steps)
    logs::info(work_.in_words(
        str("nothing to do: ", checkpoints(), " holds step ", done, " of ", config_.train.steps,
            "; raise train.steps to go on, or give the run another name to begin anew",
            config_.log.profile ? ". No step is traced: another --name traces a run of its own" : "")));
  else if (best_.over())
    logs::info(work_.in_words(str("nothing to do: ", checkpoints(), " holds step ", done,
                                  ", after which the run was done early: ", best_.words(),
                                  "; raise train.patience to go on")));
  else
    return false;
  return true;
}

}  // namespace lockstep::launcher
