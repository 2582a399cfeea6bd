// trainrun replay: recomputes a step of a run and compares it with the run's record.
#include <algorithm>
#include <filesystem>
#include <ostream>

#include "core/base/error.h"
#include "launcher/api/option_words.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/look/run_record.h"
#include "launcher/cli/program/target.h"
#include "launcher/config/stored.h"
#include "launcher/supervise/launch/command.h"
#include "launcher/worker/replay.h"

namespace lockstep::launcher::cli {

namespace {
std::string list_of(const std::vector<int64_t>& steps) {
  std::vector<std::string> words;
  for (int64_t step : steps) words.push_back(str(step));
  return join(words, ", ");
}

// All steps if few; else those around `step`.
std::string steps_text(const std::vector<int64_t>& steps, int64_t step) {
  if (steps.empty()) return "none";
  if (steps.size() <= 12) return list_of(steps);
  auto at = std::lower_bound(steps.begin(), steps.end(), step);
  auto first = at - std::min<std::ptrdiff_t>(3, at - steps.begin()),
       last = at + std::min<std::ptrdiff_t>(3, steps.end() - at);
  return str(list_of({first, last}), " and others, ", steps.size(), " from ", steps.front(), " to ",
             steps.back());
}

// Keys that affect the bits of a step and differ between the recorded and the current config.
std::vector<std::string> changed_keys(const RunConfig& then, const RunConfig& now) {
  std::vector<std::string> out;
  for (const auto& row : config_keys()) {
    if (!has_meaning(then, row) && !has_meaning(now, row)) continue;
    Json a = get_key(then, row), b = get_key(now, row);
    if (a != b) out.push_back(str(row.path, ": ", a.dump(), " then, ", b.dump(), " now"));
  }
  return out;
}

// A finished replay and the recorded values.
struct Replayed {
  const RunRecord& run;
  RunRecord::Then then;
  int64_t step = 0;
  RunConfig now;  // for a config's run
  ReplayResult result;
};

// Keys of a config, or options of train().
std::string in_words(const RunRecord::Then& then, const std::string& text) {
  return then.program ? in_options(text) : text;
}

// Why the certificates differ, as far as the record tells.
std::string why_other_bits(const Replayed& r) {
  std::vector<std::string> reasons =
      r.then.program ? std::vector<std::string>{} : changed_keys(r.then.config, r.now);
  if (!r.then.library.empty() && r.then.library != r.result.library)
    reasons.push_back(str("library: ", r.then.library, " then, ", r.result.library, " now"));
  if (!r.then.program && r.now.train.numerics == "free" && !r.then.mesh.empty() &&
      r.then.mesh != r.result.mesh)
    reasons.push_back(
        str("train.numerics free, on the mesh ", r.then.mesh, " then, ", r.result.mesh, " now"));
  if (!reasons.empty()) return join(reasons, "; ");
  return r.then.program
             ? "the program's step, its batch or its precision is not the one that made the run, or "
               "this is another build of Lockstep: replay with the program as it was then, and its "
               "arguments"
             : "the record names no difference: another build of Lockstep, whose passes or kernels "
               "are others";
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

// Refuses what cannot be replayed before a rank is started.
void check_step(const RunRecord& run, const RunRecord::Then& then, const ReplayArguments& arguments) {
  const int64_t step = arguments.step;
  if (run.values(step).empty())
    throw UserError(str("nothing is recorded of step ", step, " of ", run.folder(),
                        "; metrics.jsonl has the steps ", steps_text(run.steps_with(), step),
                        ", and there are checkpoints of ", steps_text(run.checkpoint_steps(), step),
                        in_words(then, " (log.every and log.hash_every decide what is recorded)")));
  if (!arguments.from_start && run.checkpoints_before(step).empty())
    throw UserError(
        str("no checkpoint before step ", step, " in ", run.folder(), "/ckpt; it holds the steps ",
            steps_text(run.checkpoint_steps(), step),
            ": choose a later step, or --from-start, which reruns all steps from the initial weights"));
}
// Before the run's record is looked at.
void check_range(const RunRecord& run, int64_t step) {
  const int64_t last = run.last_step();
  if (step < 1) throw UserError(str("--step is ", step, "; steps are counted from 1"));
  if (step > last)
    throw UserError(str("step ", step, " is beyond the run: ", run.folder(),
                        last ? str(" is recorded up to step ", last) : " has recorded no step"));
}

// The user must name the program: a program named only in a run's folder is never started automatically.
void check_program(const RunRecord& run, const RunRecord::Then& then, const ReplayArguments& arguments) {
  const std::string call = str("trainrun replay --step ", arguments.step, " ", quoted(run.folder()));
  if (then.program && arguments.program.empty()) {
    const RunRecord::Command started = run.command();
    const bool elsewhere =
        !started.folder.empty() && started.folder != std::filesystem::current_path().string();
    throw UserError(str("replay: ", run.folder(),
                        " is a run of a program of its own, whose model no config tells; name the program "
                        "after it, as it was started: ",
                        call, " ", started.words.empty() ? "./program ARGUMENTS" : started.words,
                        elsewhere ? str(" (in ", started.folder, ")") : ""));
  }
  if (!then.program && !arguments.program.empty())
    throw UserError(str("replay: ", run.folder(), " is a run of the config ", then.where, ", and ",
                        arguments.program[0], " is a program: leave it out, as in ", call));
  if (!then.program) return;
  if (!arguments.overrides.empty())
    throw UserError(
        str("replay: --", arguments.overrides[0].path,
            " is a config key, but the run is a program's; write the program's own arguments after it"));
  if (arguments.threads)
    throw UserError(str("--simulate runs the ranks of a config as threads; ", arguments.program[0],
                        " is a program, each of whose ranks is a process: use --nproc ", arguments.nproc));
}

ReplayTask task_of(const RunRecord& run, const ReplayArguments& arguments) {
  ReplayTask task;
  if (!arguments.from_start) task.checkpoints = run.checkpoints_before(arguments.step);
  task.step = arguments.step;
  task.evaluate = run.values(arguments.step).count("val_loss") > 0;
  return task;
}

int replay_program(const ReplayArguments& arguments, Replayed& r) {
  ProgramReplay asked;
  asked.command = program_command(arguments.program, {}, arguments.self);
  asked.run = std::filesystem::weakly_canonical(r.run.folder());
  asked.task = task_of(r.run, arguments);
  return run_replay(asked, arguments.nproc, r.result);
}

int replay_config(const ReplayArguments& arguments, Replayed& r) {
  r.now = parse_config(config_text(r.then.config), r.then.where, arguments.overrides);
  refuse_stored_plugin(r.now, r.then.where, r.run.folder(), arguments.overrides,
                       str("trainrun replay --step ", arguments.step, " ", r.run.folder()));
  validate(r.now, arguments.nproc);
  const bool processes = !arguments.threads && arguments.nproc > 1;
  if (!processes) in_place_device(r.now, arguments.nproc);
  return run_replay(ConfigReplay{r.now, task_of(r.run, arguments)},
                    {arguments.nproc, processes, arguments.self}, r.result);
}

// Names in table order: the usual ones, then others that both sides have.
std::vector<std::string> names_of(const ReplayResult::Values& recorded, const ReplayResult::Values& made) {
  std::vector<std::string> out = {"loss", "grad_norm", "lr", "val_loss", "state_hash", "certificate"};
  const auto usual = out;
  for (const auto& [name, value] : made)
    if (recorded.count(name) && std::find(usual.begin(), usual.end(), name) == usual.end())
      out.push_back(name);
  return out;
}

// The first difference from the record before the step; "" if there is none.
std::string first_difference_text(const Replayed& r) {
  for (const auto& [step, made] : r.result.on_the_way) {
    if (!r.run.lines().count(step)) continue;
    const auto recorded = r.run.values(step);
    for (const auto& name : names_of(recorded, made)) {
      const auto was = recorded.find(name), is = made.find(name);
      if (was != recorded.end() && is != made.end() && was->second != is->second)
        return str("step ", step, ": ", name, " ", was->second, " recorded, ", is->second, " replayed");
    }
  }
  return "";
}

// Prints the table; returns the names that differ.
std::vector<std::string> show_table(const Replayed& r, const ReplayResult::Values& recorded,
                                    std::ostream& out) {
  const auto& made = r.result.values;
  std::vector<Row> rows = {{"quantity", "recorded", "replayed", ""}};
  std::vector<std::string> different;
  for (const std::string& name : names_of(recorded, made)) {
    const auto was = recorded.find(name), is = made.find(name);
    const bool has = was != recorded.end(), came = is != made.end();
    if (!has && !came) continue;
    const bool equal = has && came && was->second == is->second;
    if (has && !equal) different.push_back(name);
    rows.push_back({name, has ? was->second : "-", came ? is->second : "-",
                    !has    ? "not recorded"
                    : equal ? "equal"
                            : "differs"});
  }
  print(out, rows);
  return different;
}

// Names values of the step without a record, and steps that have one.
void tell_gaps(const Replayed& r, const ReplayResult::Values& recorded, std::ostream& out) {
  auto with_line = r.run.steps_with();
  auto of_key = [&](const char* key, int64_t value) {
    return r.then.program ? str(" (", in_options(key)) : str(" (", key, " ", value);
  };
  if (!std::binary_search(with_line.begin(), with_line.end(), r.step))
    out << "metrics.jsonl has no line of step " << r.step << of_key("log.every", r.then.config.log.every)
        << "; it has " << steps_text(with_line, r.step) << "): what is compared is of the checkpoint "
        << r.run.checkpoint(r.step)->path << "\n";
  if (!recorded.count("state_hash")) {
    auto with_hash = r.run.steps_with("state_hash"), saved = r.run.checkpoint_steps();
    with_hash.insert(with_hash.end(), saved.begin(), saved.end());
    std::sort(with_hash.begin(), with_hash.end());
    with_hash.erase(std::unique(with_hash.begin(), with_hash.end()), with_hash.end());
    out << "the state of step " << r.step << " was not hashed"
        << of_key("log.hash_every", r.then.config.log.hash_every)
        << "); steps that have a hash: " << steps_text(with_hash, r.step) << "\n";
  }
  if (!r.then.data.empty() && r.then.data != r.result.data)
    out << "the data is not what it was: its fingerprint is " << r.result.data << ", the run's "
        << r.then.data << "\n";
}

// The reason, as far as known.
void tell_reasons(const Replayed& r, const ReplayResult::Values& recorded, std::ostream& out) {
  const auto certificate = recorded.find("certificate");
  const bool known = certificate != recorded.end();
  const auto changed = r.then.program ? std::vector<std::string>{} : changed_keys(r.then.config, r.now);
  if (known && certificate->second != r.result.values.at("certificate"))
    out << "bits are not promised equal, since the certificates differ; " << why_other_bits(r) << "\n";
  else if (!changed.empty())
    out << "the config is not the run's: " << join(changed, "; ") << "\n";
  else if (known)
    out << "the certificates are equal, which promises equal bits"
        << (r.then.program
                ? " of equal data and learning rates: those, or the program's arguments, are not what "
                  "they were, or "
                : ": ")
        << "the record was changed, or one of the two computed wrong; replay again, here and elsewhere, to "
           "see "
           "which\n";
}
}  // namespace

int replay(const ReplayArguments& arguments, std::ostream& out) {
  const RunRecord run(arguments.run);
  check_range(run, arguments.step);
  Replayed r{run, run.then(arguments.step), arguments.step, {}, {}};
  check_step(run, r.then, arguments);
  check_program(run, r.then, arguments);
  const int code = r.then.program ? replay_program(arguments, r) : replay_config(arguments, r);
  if (code != kExitOk) return code;

  const auto recorded = run.values(r.step);
  out << "step " << r.step << " of " << run.folder()
      << (r.then.program ? str(", program ", arguments.program[0]) : str(", config of ", r.then.where))
      << "\n";
  std::vector<std::string> different = show_table(r, recorded, out);
  tell_gaps(r, recorded, out);
  const std::string first = first_difference_text(r);
  if (different.empty() && first.empty()) {
    out << "equal: what is recorded of step " << r.step << " came out again, bit for bit\n";
    return kExitOk;
  }
  if (!different.empty()) out << "differs: " << join(different, ", ") << "\n";
  if (!first.empty()) out << "the first difference is at " << first << "\n";
  tell_reasons(r, recorded, out);
  return kExitDiffers;
}

}  // namespace lockstep::launcher::cli
