// trainrun replay: a step of a run computed again, beside what the run recorded of it.
#include <algorithm>
#include <ostream>

#include "core/base/error.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/run_record.h"
#include "launcher/config/stored.h"
#include "launcher/worker/replay.h"

namespace lockstep::launcher::cli {

namespace {
std::string list_of(const std::vector<int64_t>& steps) {
  std::vector<std::string> words;
  for (int64_t step : steps) words.push_back(str(step));
  return join(words, ", ");
}

// All of a few; of many those around `step`.
std::string steps_text(const std::vector<int64_t>& steps, int64_t step) {
  if (steps.empty()) return "none";
  if (steps.size() <= 12) return list_of(steps);
  auto at = std::lower_bound(steps.begin(), steps.end(), step);
  auto first = at - std::min<std::ptrdiff_t>(3, at - steps.begin()),
       last = at + std::min<std::ptrdiff_t>(3, steps.end() - at);
  return str(list_of({first, last}), " and others, ", steps.size(), " from ", steps.front(), " to ",
             steps.back());
}

// Keys that decide the bits of a step, and differ between what ran then and what runs now.
std::vector<std::string> changed_keys(const RunConfig& then, const RunConfig& now) {
  std::vector<std::string> out;
  for (const auto& row : config_keys()) {
    if (!has_meaning(then, row) && !has_meaning(now, row)) continue;
    Json a = get_key(then, row), b = get_key(now, row);
    if (a != b) out.push_back(str(row.path, ": ", a.dump(), " then, ", b.dump(), " now"));
  }
  return out;
}

// Why the certificates differ, as far as the record tells.
std::string why_other_bits(const RunRecord::Then& then, const RunConfig& now, const ReplayResult& result) {
  std::vector<std::string> reasons = changed_keys(then.config, now);
  if (!then.library.empty() && then.library != result.library)
    reasons.push_back(str("library: ", then.library, " then, ", result.library, " now"));
  if (now.train.numerics == "free" && !then.mesh.empty() && then.mesh != result.mesh)
    reasons.push_back(str("train.numerics free, on the mesh ", then.mesh, " then, ", result.mesh, " now"));
  return reasons.empty()
             ? "the record names no difference: another build of Lockstep, whose passes or kernels are others"
             : join(reasons, "; ");
}

struct Row {
  std::string quantity, recorded, replayed, verdict;
};

void print(std::ostream& out, const std::vector<Row>& rows) {
  size_t width[3] = {0, 0, 0};
  for (const auto& row : rows) {
    width[0] = std::max(width[0], row.quantity.size());
    width[1] = std::max(width[1], row.recorded.size());
    width[2] = std::max(width[2], row.replayed.size());
  }
  auto padded = [](const std::string& text, size_t to) {
    return text + std::string(to - text.size() + 2, ' ');
  };
  for (const auto& row : rows)
    out << "  " << padded(row.quantity, width[0]) << padded(row.recorded, width[1])
        << padded(row.replayed, width[2]) << row.verdict << "\n";
}

// What cannot be replayed is refused before a rank is started.
void check_step(const RunRecord& run, const ReplayArguments& arguments) {
  const int64_t step = arguments.step, last = run.last_step();
  if (step < 1) throw UserError(str("--step is ", step, "; steps are counted from 1"));
  if (step > last)
    throw UserError(str("step ", step, " is beyond the run: ", run.folder(),
                        last ? str(" is recorded up to step ", last) : " has recorded no step"));
  if (run.values(step).empty())
    throw UserError(str("nothing is recorded of step ", step, " of ", run.folder(),
                        "; metrics.jsonl has the steps ", steps_text(run.steps_with(), step),
                        ", and there are checkpoints of ", steps_text(run.checkpoint_steps(), step),
                        " (log.every and log.hash_every decide what is recorded)"));
  if (!arguments.from_start && run.checkpoints_before(step).empty())
    throw UserError(
        str("no checkpoint before step ", step, " in ", run.folder(), "/ckpt; it holds the steps ",
            steps_text(run.checkpoint_steps(), step),
            ": choose a later step, or --from-start, which reruns all steps from the initial weights"));
}
}  // namespace

int replay(const ReplayArguments& arguments, std::ostream& out) {
  RunRecord run(arguments.run);
  const int64_t step = arguments.step;
  check_step(run, arguments);
  auto recorded = run.values(step);
  const RunRecord::Then then = run.then(step);
  if (then.program)
    throw UserError(
        str("replay: ", run.folder(),
            " is a run of a program of its own, whose model no config tells; start the program "
            "again with a copy of the run's folder that has an older checkpoint alone: its rows and "
            "states come out again"));
  ReplayTask task;
  task.config = parse_config(config_text(then.config), then.where, arguments.overrides);
  refuse_stored_plugin(task.config, then.where, run.folder(), arguments.overrides,
                       str("trainrun replay --step ", step, " ", run.folder()));
  if (!arguments.from_start) task.checkpoints = run.checkpoints_before(step);
  task.step = step;
  task.evaluate = recorded.count("val_loss") > 0;
  validate(task.config, arguments.nproc);
  if (!arguments.processes) in_place_device(task.config, arguments.nproc);

  ReplayResult result;
  const int code = run_replay(task, {arguments.nproc, arguments.processes, arguments.self}, result);
  if (code != kExitOk) return code;

  out << "step " << step << " of " << run.folder() << ", config of " << then.where << "\n";
  std::vector<Row> rows = {{"quantity", "recorded", "replayed", ""}};
  std::vector<std::string> different;
  for (const char* name : {"loss", "grad_norm", "lr", "val_loss", "state_hash", "certificate"}) {
    const bool has = recorded.count(name), made = result.values.count(name);
    if (!has && !made) continue;
    const bool equal = has && made && recorded[name] == result.values[name];
    if (has && !equal) different.push_back(name);
    rows.push_back({name, has ? recorded[name] : "-", made ? result.values[name] : "-",
                    !has    ? "not recorded"
                    : equal ? "equal"
                            : "differs"});
  }
  print(out, rows);
  auto with_line = run.steps_with();
  if (!std::binary_search(with_line.begin(), with_line.end(), step))
    out << "metrics.jsonl has no line of step " << step << " (log.every " << then.config.log.every
        << "; it has " << steps_text(with_line, step) << "): what is compared is of the checkpoint "
        << run.checkpoint(step)->path << "\n";
  if (!recorded.count("state_hash")) {
    auto with_hash = run.steps_with("state_hash"), saved = run.checkpoint_steps();
    with_hash.insert(with_hash.end(), saved.begin(), saved.end());
    std::sort(with_hash.begin(), with_hash.end());
    with_hash.erase(std::unique(with_hash.begin(), with_hash.end()), with_hash.end());
    out << "the state of step " << step << " was not hashed (log.hash_every " << then.config.log.hash_every
        << "); steps that have a hash: " << steps_text(with_hash, step) << "\n";
  }
  if (!then.data.empty() && then.data != result.data)
    out << "the data is not what it was: its fingerprint is " << result.data << ", the run's " << then.data
        << "\n";
  if (different.empty()) {
    out << "equal: what is recorded of step " << step << " came out again, bit for bit\n";
    return kExitOk;
  }
  out << "differs: " << join(different, ", ") << "\n";
  if (recorded.count("certificate") && recorded["certificate"] != result.values["certificate"])
    out << "bits are not promised equal, since the certificates differ; "
        << why_other_bits(then, task.config, result) << "\n";
  else if (auto changed = changed_keys(then.config, task.config); !changed.empty())
    out << "the config is not the run's: " << join(changed, "; ") << "\n";
  else if (recorded.count("certificate"))
    out << "the certificates are equal, which promises equal bits: the record was changed, or one of the two "
           "computed wrong; replay again, here and "
           "elsewhere, to see which\n";
  return kExitDiffers;
}

}  // namespace lockstep::launcher::cli
