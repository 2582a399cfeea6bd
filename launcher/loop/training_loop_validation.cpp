// The validations of a run: which steps have one, and their effects. A validation interrupted by a stop is
// marked as due in the checkpoint, and the next start makes it before it continues.
#include <cmath>
#include <utility>

#include "compiler/compile/first_nonfinite.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "distributed/watch/flight_record.h"
#include "launcher/loop/training_loop.h"

namespace lockstep::launcher {

using namespace compiler;
using namespace distributed;

// Makes the validation after a step, if it has one, and the save before a long one. A long one that a request
// to stop would interrupt at once stays due. Collective.
void TrainingLoop::validate_after(Turn& turn, Step& step, Step& evaluation) {
  const int64_t i = turn.i;
  const bool validated = is_validated(i, turn.last),
             long_one = validated && is_long(turn.seconds, step, evaluation);
  due_ = validated && (counts(i) || i == config_.train.steps);
  if (!validated || (long_one && turn.asked_to_stop())) return;
  if (long_one && saved_before(turn.last)) {
    save(i, step, turn.fed, {checkpoints(), config_.checkpoint.keep, turn.last, true});
    turn.saved = turn.last;  // else it may have failed
  }
  if (const int64_t votes = validate(i, evaluation, long_one, turn.validation)) {
    turn.stops += RunSaves::stops(votes), turn.regroups += RunSaves::regroups(votes);
    turn.last = true;
  } else {
    turn.broken = heed(i, turn.validation, step, evaluation, turn.fed);
  }
}

// Runs a validation. If ranks are asked to stop during an interruptible one, returns the sum of their votes
// without a measurement; else 0. Collective.
int64_t TrainingLoop::validate(int64_t i, Step& evaluation, bool breakable,
                               std::map<std::string, double>& measured) {
  if (!breakable) {
    measured = work_.evaluate(evaluation, i);
    return 0;
  }
  const auto& asked = hooks_.stop_of_any_rank ? hooks_.stop_of_any_rank : hooks_.stop_requested;
  bool gave_up = false;
  auto found = work_.evaluate(evaluation, i, [&] {
    if (!gave_up && asked()) gave_up = true, enter_pace(Pace::start);  // other ranks may still be working
    return gave_up;
  });
  const bool regroup = hooks_.regroup_requested && hooks_.regroup_requested();
  const int64_t stop = !hooks_.stop_requested() ? 0 : regroup ? kRegroup : 1;
  Group& world = *work_.mesh().world;
  const std::vector<int64_t> mine = {gave_up, stop};
  std::vector<int64_t> all(mine.size() * world.size());
  all_gather(world, {mine.data(), all.data(), std::vector<int64_t>(world.size(), 2), DType::i64},
             "validation");
  int64_t gave_ups = 0, votes = 0;
  for (size_t r = 0; r < all.size(); r += 2) gave_ups += all[r], votes += all[r + 1];
  if (gave_ups) return votes;
  measured = std::move(found);
  return 0;
}

// Applies the effects of a validation, which is then no longer due. Returns why the run ends after it, or "".
// Collective.
std::string TrainingLoop::heed(int64_t i, const std::map<std::string, double>& validation, Step& step,
                               Step& evaluation, const StepInput& fed) {
  due_ = false;
  const std::string broken = judge_validation(i, validation, evaluation);
  work_.measured(i, validation);
  if (counts(i) && best_.better(i, validation) && config_.checkpoint.best) save_best(i, step, fed);
  return broken;
}

// Makes a due validation of the step that the run resumes from. Returns a result if the run ends with it or
// is stopped during it. Collective.
std::optional<TrainingLoop::Outcome> TrainingLoop::make_up(int64_t i, StepRows& rows, Step& step,
                                                           Step& evaluation) {
  logs::info(str("step ", i, ": its validation is made up: the run was stopped before it was over"));
  const StepInput fed = work_.input(i, false, false);
  std::map<std::string, double> validation;
  const int64_t votes = validate(i, evaluation, true, validation);
  std::string broken;
  if (!votes) {
    broken = heed(i, validation, step, evaluation, fed);
    rows.amend(i, validation);
    if (i < config_.train.steps && !best_.over() && broken.empty())
      return {};  // continue with the first step
  }
  const bool regroup = votes && RunSaves::stops(votes) == 0, kept = regroup && keep_for_regroup(i, step, fed);
  if (!kept) save(i, step, fed, {checkpoints(), config_.checkpoint.keep, true, !broken.empty()});
  if (!broken.empty()) throw UserError(work_.in_words(broken));
  if (!kept) memory_.end();
  return end(i, !votes ? Stop::none : regroup ? Stop::regroup : Stop::asked, kept, work_.hash_state());
}

// Handles a validation loss that is not finite. The weights are finite, so its samples or values computed
// from them are not. Ends the run if train.on_nonfinite is stop, else warns. Returns why the run ends, or "".
std::string TrainingLoop::judge_validation(int64_t i, const std::map<std::string, double>& validation,
                                           Step& evaluation) {
  const auto loss = static_cast<float>(validation.at("loss"));
  if (std::isfinite(loss)) return "";
  enter_pace(Pace::start);
  const FirstNonFinite first = first_nonfinite(evaluation, work_.evaluation_input(i), work_.state());
  enter_pace(Pace::steps);
  const std::string words = str("step ", i, ": the validation loss is ",
                                std::isnan(loss) ? std::string("nan") : number_text(loss), "; ", first.words);
  if (config_.train.on_nonfinite == "stop")
    return str(words, "; the state of the step is saved in ", checkpoints(),
               first.in_data ? ". Mend the sample, or take it out of the data" : "",
               "; train.on_nonfinite=skip goes on with such validations");
  if (work_.rank() == 0)
    logs::warn(
        work_.in_words(str(words, "; it counts as no better, and the run goes on (train.on_nonfinite is ",
                           config_.train.on_nonfinite, ")")));
  return "";
}

// Whether a validation is so long, judged by the seconds of a step, that a stop may interrupt it. Rank 0
// decides. Collective.
bool TrainingLoop::is_long(double seconds, const Step& step, const Step& evaluation) {
  constexpr double kLong = 2;
  const double expected = seconds * static_cast<double>(evaluation.plan().micro_batches) /
                          static_cast<double>(step.plan().micro_batches);
  return !broadcast_text(*work_.mesh().world, expected > kLong ? "long" : "").empty();
}

// Whether the state is saved before a long validation. At the end of a run always, and again with the
// validation's results; earlier only if a run resumed from it would lose nothing of these.
bool TrainingLoop::saved_before(bool last) const {
  return last || (config_.checkpoint.every > 0 && !is_followed());
}

// Whether a missed validation changes the rest of the run.
bool TrainingLoop::is_followed() const {
  return config_.train.patience > 0 || config_.checkpoint.best || work_.follows_validations();
}

// Whether a validation marked as due in a checkpoint is still needed: the command may have changed, or the
// run may have made it before it was killed. Collective.
bool TrainingLoop::is_still_due(int64_t i, const StepRows& rows) {
  if (i != config_.train.steps && !counts(i)) return false;
  const bool made = work_.rank() == 0 && !is_followed() && rows.validated(i);
  return broadcast_text(*work_.mesh().world, made ? "made" : "").empty();
}

bool TrainingLoop::is_validated(int64_t i, bool last) const {
  return last || every(config_.train.eval_every, i);
}

// A longer run would validate at this step only by train.eval_every; if that is 0, the validation at the end
// is the only one.
bool TrainingLoop::counts(int64_t i) const {
  return config_.train.eval_every > 0 ? every(config_.train.eval_every, i) : i == config_.train.steps;
}

}  // namespace lockstep::launcher
