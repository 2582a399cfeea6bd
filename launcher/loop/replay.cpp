// Replay: loads a checkpoint, runs up to the step, and returns the results.
#include "launcher/loop/replay.h"

#include <memory>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "checkpoint/format/damage.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/reading/json_text.h"
#include "distributed/watch/flight_record.h"
#include "launcher/loop/guard.h"
#include "launcher/loop/training_loop.h"
#include "launcher/trainer/trainer.h"

namespace lockstep::launcher {

using namespace compiler;

namespace {
// Metrics of a step or an evaluation, in the format of metrics.jsonl.
void add_metrics(ReplayResult::Values& to, const std::string& prefix,
                 const std::map<std::string, double>& metrics) {
  for (const auto& [name, value] : metrics)
    if (name != "tokens" && !name.starts_with(kGradientNorm))
      to[prefix + name] = number_text(static_cast<float>(value));
}

class Replay {
 public:
  Replay(const RunConfig& config, Workload& work, const RunHooks& hooks, const ReplayTask& task)
      : config_(config), work_(work), hooks_(hooks), task_(task), guard_(config.train) {}

  int run(ReplayResult& out) {
    Step step = work_.compile_training();
    const bool measured = task_.evaluate || work_.follows_validations();
    const std::unique_ptr<Step> evaluation = measured ? work_.compile_evaluation(step) : nullptr;
    const int64_t done = load(out);
    logs::info(
        str("replaying ",
            done + 1 < task_.step ? str("steps ", done + 1, " to ", task_.step) : str("step ", task_.step),
            " from ", out.from.empty() ? std::string("the initial weights") : out.from, " on the mesh ",
            text(work_.mesh().words)));
    std::optional<ProgressLine> progress;
    if (work_.rank() == 0 && hooks_.progress.columns > 0)
      progress.emplace(hooks_.progress, task_.step, task_.step, work_.pace_unit());
    if (due_ && evaluation && work_.follows_validations())
      work_.measured(done, work_.evaluate(*evaluation, done));
    for (int64_t i = done + 1; i <= task_.step; ++i) {
      hooks_.report_step(i);
      StepInput fed = work_.input(i, i < task_.step, hooks_.stop_requested());
      guard_.limit(fed);
      if (i == task_.step && !task_.keep.folder.empty()) {
        out.before = hashes();
        keep_before(task_.keep, step, fed, work_);
      }
      const auto rate = work_.rate(i);
      const StepResult result = step.run(fed);
      distributed::enter_pace(Pace::steps);
      // Like the run, including skipped steps.
      if (guard_.judge(i, result).action == StepGuard::Action::rewind) {
        load(out);
        guard_.went_back(done, i);
      }
      if (progress) progress->update(i, static_cast<float>(result.metrics.at("loss")), work_.read_in(result));
      if (result.votes > 0 && i < task_.step) return kExitStopped;
      ReplayResult::Values& row = i == task_.step ? out.values : out.on_the_way[i];
      if (rate) row["lr"] = number_text(*rate);
      after(i, result, evaluation.get(), row);
    }
    out.values["state_hash"] = work_.hash_state();
    out.tensors = hashes();
    keep_after(task_.keep, task_.step, work_);
    out.values["certificate"] = step.certificate();
    out.mesh = text(work_.mesh().words);
    out.library = work_.target().library_version();
    return kExitOk;
  }

 private:
  std::vector<std::pair<std::string, std::string>> hashes() {
    std::vector<std::pair<std::string, std::string>> out;
    for (const Array* array : std::as_const(work_.state()).arrays())
      out.emplace_back(array->fqn, state_hash({array}, work_.mesh()));
    return out;
  }

  // The values of step i's row, and the effects of its validation.
  void after(int64_t i, const StepResult& result, Step* evaluation, ReplayResult::Values& to) {
    add_metrics(to, "", result.metrics);
    const bool on_the_way = config_.train.eval_every > 0 && i % config_.train.eval_every == 0;
    const bool asked = i == task_.step && task_.evaluate;
    if (!evaluation || !(asked || (on_the_way && work_.follows_validations()))) return;
    distributed::enter_pace(Pace::start);
    const auto validation = work_.evaluate(*evaluation, i);
    work_.measured(i, validation);
    if (asked) add_metrics(to, "val_", validation);
  }

  // Loads a checkpoint and returns its step; 0 with initial weights. A damaged one is reported, and the next
  // older one is tried.
  int64_t load(ReplayResult& out) {
    distributed::enter_pace(Pace::start);
    guard_.restore({});
    if (task_.checkpoints.empty()) {
      work_.start_state();
      return 0;
    }
    std::string damage;
    for (const auto& folder : task_.checkpoints) try {
        if (work_.start_from_weights(folder)) {
          out.from = folder;
          return 0;
        }
        const auto loaded = checkpoint::load_checkpoint(folder, work_.state().arrays(), work_.mesh());
        if (loaded.extra.contains("guard")) guard_.restore(loaded.extra["guard"]);
        due_ = loaded.extra.is_object() && loaded.extra.value(kValidationDue, false);
        out.from = folder;
        return loaded.step;
      } catch (const checkpoint::DamagedError& error) {
        if (work_.rank() == 0) logs::warn(str(folder, " is damaged: ", error.what()));
        damage += str("\n  ", error.what());
      }
    throw UserError(str("no checkpoint before step ", task_.step, " is whole:", damage,
                        "\n  --from-start reruns the steps from the initial weights"));
  }

  const RunConfig& config_;
  Workload& work_;
  const RunHooks& hooks_;
  const ReplayTask& task_;
  StepGuard guard_;
  bool due_ = false;  // the validation after the loaded step is still due
};
}  // namespace

int replay(const RunConfig& config, Workload& work, const RunHooks& hooks, const ReplayTask& task,
           ReplayResult& out) {
  return Replay(config, work, hooks, task).run(out);
}

Json to_json(const ReplayResult& result) {
  Json steps = Json::array();
  for (const auto& [step, values] : result.on_the_way) steps.push_back({step, values});
  return {{"values", result.values},   {"steps", steps},      {"tensors", result.tensors},
          {"before", result.before},   {"from", result.from}, {"mesh", result.mesh},
          {"library", result.library}, {"data", result.data}};
}
ReplayResult replay_result(const Json& json) {
  ReplayResult out;
  out.values = json.at("values").get<ReplayResult::Values>();
  for (const Json& step : json.at("steps"))
    out.on_the_way[step.at(0).get<int64_t>()] = step.at(1).get<ReplayResult::Values>();
  out.tensors = json.at("tensors").get<std::vector<std::pair<std::string, std::string>>>();
  out.before = json.at("before").get<std::vector<std::pair<std::string, std::string>>>();
  out.from = json.at("from").get<std::string>(), out.mesh = json.at("mesh").get<std::string>();
  out.library = json.at("library").get<std::string>(), out.data = json.at("data").get<std::string>();
  return out;
}

std::string text(const ReplayRequest& request) {
  return Json{{"run", request.run},
              {"checkpoints", request.task.checkpoints},
              {"step", request.task.step},
              {"evaluate", request.task.evaluate},
              {"keep", to_json(request.task.keep)},
              {"answer", request.answer}}
             .dump(-1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}
ReplayRequest replay_request(const std::string& text) try {
  const Json json = bounded_json(text);
  ReplayRequest out;
  out.run = json.at("run").get<std::string>(), out.answer = json.at("answer").get<std::string>();
  out.task.checkpoints = json.at("checkpoints").get<std::vector<std::string>>();
  out.task.keep = keep_of_replay(json.at("keep"));
  out.task.step = json.at("step").get<int64_t>(), out.task.evaluate = json.at("evaluate").get<bool>();
  return out;
} catch (const Json::exception&) {
  throw UserError("LOCKSTEP_REPLAY is what trainrun replay sets for a program; unset it");
}

}  // namespace lockstep::launcher
