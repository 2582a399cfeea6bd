// TrainingLoop: resumes a workload, runs its steps, and saves.
#include "launcher/loop/training_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "checkpoint/place.h"
#include "compiler/compile/counted_scalars.h"
#include "compiler/compile/first_nonfinite.h"
#include "compiler/compile/memory_budget.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/steady_seconds.h"
#include "core/files/remove_known.h"
#include "core/mesh/together.h"
#include "core/ops/count_metric.h"
#include "distributed/watch/flight_record.h"
#include "launcher/loop/injected_fault.h"
#include "launcher/loop/left_out.h"
#include "launcher/loop/saves/elsewhere.h"
#include "launcher/loop/snapshot_room.h"
#include "launcher/machine/run_device.h"
#include "launcher/supervise/folders/program.h"
#include "launcher/supervise/worker/corruption.h"
#include "launcher/supervise/worker/side.h"

namespace lockstep::launcher {

using namespace checkpoint;
using namespace compiler;
using namespace distributed;

TrainingLoop::TrainingLoop(const RunConfig& config, Workload& work, const WorkerPlace& at,
                           const RunHooks& hooks, std::string run_dir)
    : config_(config),
      work_(work),
      place_(at),
      hooks_(hooks),
      dir_(std::move(run_dir)),
      kept_(kept_in(config, dir_)),
      guard_(config.train),
      best_(config.train),
      replicas_(config.verify.replicas_every, work.mesh()),
      corruption_(config.verify, work.mesh(), at,
                  device_place(hooks.device, work.target().device(), at.local_rank)),
      saves_(config.checkpoint, work.mesh(), room_for_snapshots(work, at)),
      memory_(config.checkpoint, work.mesh(), at, room_for_snapshots(work, at)) {}

TrainingLoop::Outcome TrainingLoop::run() {
  const double start = steady_seconds();
  work_.check();
  Step step = work_.compile_training();
  std::unique_ptr<Step> evaluation = work_.compile_evaluation(step);
  const double compiled = steady_seconds() - start;
  if (evaluation) best_.check(measured_by(*evaluation));
  lock();
  const int64_t done = resume(step, evaluation);
  if (done < config_.train.steps) memory_.open(std::as_const(work_.state()).arrays());
  introduce(step, compiled, done);
  return steps(step, evaluation.get(), done);
}

// The metrics of a validation, by name.
std::vector<std::string> TrainingLoop::measured_by(const Step& evaluation) const {
  std::vector<std::string> out;
  for (const auto& metric : evaluation.program().metrics)
    if (!is_later_count(metric.name)) out.push_back(metric.name);
  if (work_.perplexity()) out.emplace_back("perplexity");
  return out;
}

TrainingLoop::Outcome TrainingLoop::steps(Step& step, Step* evaluation, int64_t done) {
  together(*work_.mesh().world, [&] { work_.rank() == 0 ? part_from_others(done) : void(); });
  StepRows rows(config_, work_, dir_, done, step, place_.restart > 0);
  due_ = due_ && evaluation && is_still_due(done, rows);
  if (!due_ && nothing_to_do(done)) return {.stopped = false, .step = done, .state_hash = ""};
  if (work_.rank() == 0) work_.describe(dir_);  // the config of the steps that follow
  ProgressLine progress(hooks_.progress, config_.train.steps, config_.log.every, work_.pace_unit());
  progress.costs(rows.costs());
  if (due_)
    if (const auto ended = make_up(done, rows, step, *evaluation)) return *ended;
  Profile profile({config_.name, dir_, done + 1, config_.log.profile, config_.train.steps}, work_.mesh());
  for (int64_t i = done + 1;; ++i) {
    Turn turn = make_step(i, step, rows, profile);
    if (evaluation) validate_after(turn, step, *evaluation);
    turn.last = turn.last || best_.over();
    const std::string hash = report(turn, step, rows, progress);
    const bool kept = save_after(turn, step);
    if (turn.fed.trace)
      if (const std::string path = profile.end(i, turn.last); !path.empty())
        logs::info(str("step ", i, ": trace in ", path, "; ui.perfetto.dev and chrome://tracing open it"));
    if (!turn.broken.empty()) throw UserError(work_.in_words(turn.broken));
    if (!turn.last) continue;
    if (!kept) memory_.end();
    const bool more = turn.asked_to_stop() && (i < config_.train.steps || due_) && !best_.over();
    return end(i, !more ? Stop::none : turn.stops > 0 ? Stop::asked : Stop::regroup, kept, hash);
  }
}

// Runs step i, acts on what is wrong with it, and goes on with a background save. Collective.
TrainingLoop::Turn TrainingLoop::make_step(int64_t i, Step& step, StepRows& rows, Profile& profile) {
  hooks_.report_step(i);
  const bool traced = profile.wants(i);
  if (traced) profile.begin(i);
  const double began = steady_seconds();
  const bool stop = hooks_.stop_requested(),
             regroup = stop && hooks_.regroup_requested && hooks_.regroup_requested();
  Turn turn{.i = i, .fed = work_.input(i, i < config_.train.steps, stop && !regroup)};
  turn.fed.trace = traced;
  guard_.limit(turn.fed);
  replicas_.ask(turn.fed);
  turn.fed.vote += (regroup ? kRegroup : 0) + saves_.vote() + memory_.vote();
  inject_fault(place_, i, work_.state(), turn.fed);
  turn.rate = work_.rate(i);  // read before the step or a validation changes a plateau
  turn.result = step.run(turn.fed);
  if (traced) profile.add(turn.result, step);
  replicas_.hear(i, turn.result, step);
  turn.seconds = steady_seconds() - began;
  const std::string foretold = rows.note(turn.seconds, turn.result, step);
  enter_pace(Pace::steps);
  turn.stops = RunSaves::stops(turn.result.votes), turn.regroups = RunSaves::regroups(turn.result.votes);
  turn.last = i == config_.train.steps || turn.asked_to_stop();
  act(i, guard_.judge(i, turn.result), step, turn.fed);  // according to train.on_nonfinite and train.on_spike
  go_on_saving(i, turn.result, step, turn.fed);
  look_for_corruption(i, step, turn.fed, false);
  if (!foretold.empty()) logs::info(str("step ", i, ": ", foretold));
  return turn;
}

// Writes the step's row and its line of progress. Returns the state's hash if the row has one. Collective.
std::string TrainingLoop::report(const Turn& turn, const Step& step, StepRows& rows, ProgressLine& progress) {
  const FinishedStep finished{turn.i,
                              turn.seconds,
                              turn.rate,
                              turn.result,
                              turn.validation.empty() ? nullptr : &turn.validation,
                              turn.last,
                              guard_.passed_over()};
  std::string hash;
  if (rows.due(finished)) hash = rows.write(finished, step);
  if (turn.last && !hooks_.report_state) logs::info(str("step ", turn.i, ": state ", hash));
  const auto loss = static_cast<float>(turn.result.metrics.at("loss"));
  if (work_.rank() == 0) progress.update(turn.i, loss, work_.read_in(turn.result), work_.shown(turn.result));
  return hash;
}

// The saves after a step. Returns whether memory keeps the state for ranks that continue at once. Collective.
bool TrainingLoop::save_after(const Turn& turn, Step& step) {
  const int64_t i = turn.i;
  const bool last = turn.last, broken = !turn.broken.empty();
  const bool kept = turn.stops == 0 && turn.regroups > 0 && i < config_.train.steps && !best_.over() &&
                    !broken && keep_for_regroup(i, step, turn.fed);
  const bool as_before = turn.saved && due_;  // the validation was interrupted
  if (!as_before && ((last && !kept) || every(config_.checkpoint.every, i) || broken))
    save(i, step, turn.fed,
         {checkpoints(), config_.checkpoint.keep, last, broken,
          [this, i, passed_over = guard_.passed_over(i)] {
            if (!passed_over) guard_.saved(i);
          }});
  if (!last && !broken) keep_in_memory(i, step, turn.fed);
  return kept;
}

void TrainingLoop::lock() {
  std::string refused;
  if (work_.rank() == 0) {
    try {
      before_ = checkpoints_of_run(dir_);
      lock_ = lock_in_time(checkpoints(), hooks_.stop_requested);
      look_at_best();
      claim(config_, dir_);
      name_each_other(place_, dir_);
    } catch (const UserError& error) { refused = error.what(); }
  }
  agree(*work_.mesh().world, refused);
}

// What stands in the way of the best one is met now, not by the first validation. An object store has nothing
// that does.
void TrainingLoop::look_at_best() const {
  const std::string best = best_checkpoints();
  if (!config_.checkpoint.best || any_storage().commit(best) != Commit::rename) return;
  if (any_storage().exists(best) || is_link(best)) (void)lock_in_time(best, hooks_.stop_requested);
}

SaveInfo TrainingLoop::save_info(int64_t i, const Step& step) {
  Json extra = work_.remembered(i);
  extra["guard"] = guard_.json();
  extra["best"] = best_.json();
  if (due_) extra[kValidationDue] = true;
  return {i, work_.config(), step.certificate(), extra};
}

// Called after the best validation, which then counts as saved.
void TrainingLoop::keep_in_memory(int64_t i, Step& step, const StepInput& fed) {
  if (!memory_.due(i, saves_.in_flight(best_checkpoints()))) return;
  enter_pace(Pace::start);
  replicas_.compare(i, step, true);
  look_for_corruption(i, step, fed, true);  // it may end up on the disk if the run fails
  memory_.save(save_info(i, step), std::as_const(work_.state()).arrays());
  enter_pace(Pace::steps);
}

// After the last step of these ranks, when others continue at once: if memory takes the state, no file is
// written. A save in flight is finished here, because the next ranks could not.
bool TrainingLoop::keep_for_regroup(int64_t i, Step& step, const StepInput& fed) {
  if (!memory_.used()) return false;
  settle_saves();
  replicas_.compare(i, step, true);
  look_for_corruption(i, step, fed, true);
  return memory_.keep(save_info(i, step), std::as_const(work_.state()).arrays());
}

void TrainingLoop::save(int64_t i, Step& step, const StepInput& fed, const SaveOrder& order) {
  enter_pace(Pace::start);
  replicas_.compare(i, step, true);
  look_for_corruption(i, step, fed, true);
  auto write = [&] { saves_.save(order, save_info(i, step), std::as_const(work_.state()).arrays()); };
  try {
    write();
  } catch (const NonFiniteError& error) {  // the update overflowed although loss and norm did not
    act(i, guard_.judge_state(error.what()), step, fed);
    write();
  }
}

// Finishes a background save after all ranks voted that their part is done.
void TrainingLoop::go_on_saving(int64_t i, const StepResult& result, Step& step, const StepInput& fed) {
  memory_.heard(result.votes);
  if (!saves_.in_flight()) return;
  enter_pace(Pace::start);
  try {
    saves_.heard(result.votes);
  } catch (const NonFiniteError& error) {  // found during the save
    act(i, guard_.judge_state(error.what()), step, fed);
  }
  enter_pace(Pace::steps);
}

// Before the run rewinds or ends: finishes the last save, from which it continues.
void TrainingLoop::settle_saves() {
  enter_pace(Pace::start);
  auto tell = [this](const Error& error) { work_.rank() == 0 ? logs::warn(error.what()) : void(); };
  try {
    saves_.finish();
  } catch (const NotSaved& error) { tell(error); } catch (const NonFiniteError& error) {
    tell(error);
  }
}

// Saves to a separate folder that has only the best one. Later steps in it were made before the run rewound
// past them.
void TrainingLoop::save_best(int64_t i, Step& step, const StepInput& fed) {
  enter_pace(Pace::start);
  try {
    saves_.finish();
  } catch (const NonFiniteError& error) { act(i, guard_.judge_state(error.what()), step, fed); }
  together(*work_.mesh().world, [&] {
    if (work_.rank() != 0) return;
    for (const auto& found : list_checkpoints(best_checkpoints()))
      if (found.step > i) remove_checkpoints(any_storage(), best_checkpoints(), {found.path});
  });
  save(i, step, fed, {best_checkpoints()});
}

// After step i, if due: all ranks recompute one micro-batch. A state that may be wrong is never saved; an
// earlier save, whose state was checked, is finished.
void TrainingLoop::look_for_corruption(int64_t i, Step& step, const StepInput& fed, bool save) {
  if (!corruption_.due(i, save)) return;
  const auto found = corruption_.look(i, step, fed, [&] {
    enter_pace(Pace::start);
    replicas_.compare_now(i, step);
  });
  if (!found) return;
  const auto words = work_.in_words(found->words + corruption_.consequence(*found, work_.target().device()));
  if (config_.verify.on_corruption == "warn") {
    if (work_.rank() == 0) logs::warn(words);
    return;
  }
  memory_.forget();
  try {
    settle_saves();
  } catch (const Error& error) { logs::warn(error.what()); }  // the finding is more informative
  throw CorruptionError(words, corruption_.wrong_ranks(*found, work_.target().device()));
}

// Carries out the guard's decision on step i, the same on all ranks; returns unless the run ends.
void TrainingLoop::act(int64_t i, StepGuard::Finding finding, Step& step, const StepInput& fed) {
  using Action = StepGuard::Action;
  // A search for the value, or the load of a checkpoint. The fault may be on another rank.
  if (finding.action != Action::go_on) enter_pace(Pace::start), replicas_.compare(i, step, false);
  if (finding.action == Action::stop || finding.action == Action::rewind) settle_saves();
  FirstNonFinite first;
  if (finding.nonfinite && finding.look) {
    first = first_nonfinite(step, fed, work_.state());
    finding.words += "; " + first.words;
  }
  if (finding.action == Action::stop)
    throw UserError(work_.in_words(str("step ", i, ": ", finding.words,
                                       finding.of_state ? "" : "; the last checkpoint is untouched",
                                       first.in_data       ? ". Mend the sample, or take it out of the data"
                                       : finding.nonfinite ? ". Lower optim.lr, or clip more (optim.clip)"
                                                           : "; train.on_spike decides what a spike does")));
  if (finding.action == Action::go_on && !finding.words.empty())
    logs::info(str("step ", i, ": ", finding.words));
  if (finding.action == Action::skip && work_.rank() == 0)
    logs::warn(str("step ", i, " is passed over: ", finding.words, "; its update was not made"));
  if (finding.action == Action::rewind) {
    memory_.forget();  // drop those of skipped steps
    const auto loaded = load_latest(checkpoints(), work_.state().arrays(), work_.mesh());
    const int64_t from = loaded ? loaded->step : 0;
    if (!loaded) work_.start_state();
    restore(loaded ? loaded->extra : Json());
    due_ = false;  // it was done before
    guard_.went_back(from, i);
    if (work_.rank() == 0)
      logs::warn(str("step ", i, ": ", finding.words, "; going on behind it from the state of ",
                     loaded ? loaded->path : std::string("the initial weights"), ": steps ", from + 1, " to ",
                     i, " are passed over"));
  }
}

void TrainingLoop::restore(const Json& extra) {
  auto part = [&](const char* name) {
    return extra.is_object() && extra.contains(name) ? extra[name] : Json();
  };
  guard_.restore(part("guard"));
  best_.restore(part("best"));
  due_ = part(kValidationDue) == true;
}

// The number of finished steps: from the newest checkpoint of the run, else 0 with initial weights.
int64_t TrainingLoop::resume(Step& step, std::unique_ptr<Step>& evaluation) {
  work_.state().live_on(work_.target().device());
  const bool kept = memory_.find(work_.state().arrays());
  if (!kept && work_.start_from_import(checkpoints())) {
    logs::info(str("resumed from ", checkpoints(), "/step-0 (step 0, state ", work_.hash_state(), ")"));
    return 0;
  }
  std::vector<std::string> folders{checkpoints()};
  if (kept) folders.push_back(memory_.folder());
  LeftOut left;
  if (config_.load.partial) work_.start_state();  // tensors that are not loaded have these values
  const auto loaded = load_newest(folders, work_.state().arrays(), work_.mesh(), any_storage(),
                                  memory_.apart(), config_.load.partial ? &left : nullptr);
  if (!loaded && !config_.load.partial) work_.start_state();
  if (!loaded) return 0;
  if (!left.none() && work_.rank() == 0) tell_left(*loaded, left);
  const bool from_memory = parent_folder(loaded->path) == memory_.folder();
  logs::info(str("resumed from ", from_memory ? "memory, " : "", loaded->path, " (step ", loaded->step,
                 ", state ", loaded->state_hash, ")"));
  // tensors that joined the run later count their own
  if (!CountedScalars(step.plan(), work_.state()).alike()) {
    evaluation.reset();  // updates; its memory is part of the step's
    step = work_.compile_training();
    evaluation = work_.compile_evaluation(step);
  }
  work_.tell_changes(*loaded, step.certificate());
  restore(loaded->extra);
  return loaded->step;
}

}  // namespace lockstep::launcher
