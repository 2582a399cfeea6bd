// bisect --replay: recomputes both runs up to the step at which they diverge.
#include <algorithm>
#include <memory>
#include <ostream>
#include <utility>

#include "checkpoint/tools/compare.h"
#include "core/base/error.h"
#include "core/files/temporary_folder.h"
#include "launcher/cli/ckpt/paths.h"
#include "launcher/cli/look/bisect.h"
#include "launcher/cli/look/tape_difference.h"
#include "launcher/config/stored.h"
#include "launcher/worker/replay.h"

namespace lockstep::launcher::cli {

namespace {
constexpr int64_t kStepsBack = 3;  // a cause shows in the loss within this many steps

// One run, and the results of a replay up to some step.
class Side {
 public:
  Side(const BisectArguments& arguments, const RunRecord& run) : arguments_(arguments), run_(run) {}

  // The step whose state it starts from; 0: the initial one.
  int64_t start(int64_t step) const {
    int64_t out = 0;
    for (int64_t saved : run_.checkpoint_steps())
      if (saved < step) out = saved;
    return out;
  }
  int replay(int64_t step, KeepOfReplay keep = {}) {
    const auto then = run_.then(step);
    if (then.program)
      throw UserError(
          str("bisect --replay: ", run_.folder(),
              " is a run of a program of its own, whose model no config tells; leave --replay out, and "
              "compare trainrun replay --step ",
              step, " RUN ./program of both"));
    RunConfig config = parse_config(config_text(then.config), then.where);
    refuse_stored_plugin(config, then.where, run_.folder(), {},
                         str("trainrun replay --step ", step, " ", run_.folder()));
    validate(config, arguments_.nproc);
    const bool processes = arguments_.nproc > 1;
    if (!processes) in_place_device(config, 1);
    result_ = {};
    ReplayTask task;
    task.checkpoints = run_.checkpoints_before(step), task.step = step;
    task.keep = std::move(keep);
    return run_replay(ConfigReplay{config, task}, {arguments_.nproc, processes, arguments_.self}, result_);
  }
  const ReplayResult& result() const { return result_; }
  // The results of each step, including the last.
  std::map<int64_t, ReplayResult::Values> steps(int64_t last) const {
    auto out = result_.on_the_way;
    out[last] = result_.values;
    return out;
  }

 private:
  const BisectArguments& arguments_;
  const RunRecord& run_;
  ReplayResult result_;
};

struct Parted {
  int64_t step = 0;  // 0: nowhere
  std::vector<Difference> differences;
};
Parted parted(const Side& a, const Side& b, int64_t last) {
  const auto of_b = b.steps(last);
  for (const auto& [step, values] : a.steps(last))
    if (const auto other = of_b.find(step); other != of_b.end())
      if (auto found = differences(values, other->second); !found.empty()) return {step, std::move(found)};
  return {};
}

using Hashes = std::vector<std::pair<std::string, std::string>>;  // of a state's tensors

// The first tensor in which two states differ, and how many do.
struct StateDifference {
  std::string fqn;  // "": they are the same
  bool in_both = true;
  int64_t differing = 0, tensors = 0;
};
StateDifference first_tensor(const Hashes& a, const Hashes& b) {
  const std::map<std::string, std::string> of_b(b.begin(), b.end());
  StateDifference out;
  out.tensors = static_cast<int64_t>(a.size());
  for (const auto& [fqn, hash] : a) {
    const auto other = of_b.find(fqn);
    if (other != of_b.end() && other->second == hash) continue;
    ++out.differing;
    if (out.fqn.empty()) out.fqn = fqn, out.in_both = other != of_b.end();
  }
  return out;
}

// Recomputes both sides' steps, with outputs in separate folders.
class Together {
 public:
  Together(Side& a, Side& b, int64_t step) : a_(a), b_(b), step_(step) {}
  int replay(const KeepOfReplay& keep) {
    folder_a_ = std::make_unique<TemporaryFolder>("bisect");
    folder_b_ = std::make_unique<TemporaryFolder>("bisect");
    KeepOfReplay of_a = keep, of_b = keep;
    of_a.folder = a(), of_b.folder = b();
    const int code = a_.replay(step_, of_a);
    return code == kExitOk ? b_.replay(step_, of_b) : code;
  }
  const std::string& a() const { return folder_a_->path(); }
  const std::string& b() const { return folder_b_->path(); }

 private:
  Side &a_, &b_;
  int64_t step_;
  std::unique_ptr<TemporaryFolder> folder_a_, folder_b_;
};

// "after step 21 the states differ, first in token.weight [0,3]: 0.5 and 0.25 (1 of 84 tensors)".
int tell_states(const StateDifference& found, int64_t after, bool before, Together& both, std::ostream& out) {
  out << (after == 0 ? std::string("the initial weights") : str("after step ", after, " the states"))
      << " differ, first in " << found.fqn;
  if (found.in_both) {
    KeepOfReplay keep;
    keep.tensor = found.fqn, keep.before = before;
    if (const int code = both.replay(keep); code != kExitOk) return code;
    const HeldStep a = hold_sound_step(both.a()), b = hold_sound_step(both.b());
    const auto all =
        checkpoint::compare_checkpoints(a.path, a.manifest, *a.files, b.path, b.manifest, *b.files);
    if (!all.tensors.empty())
      out << " " << str(all.tensors[0].first) << ": " << all.tensors[0].a << " and " << all.tensors[0].b;
    if (!all.types.empty()) out << ": " << all.types[0].a << " and " << all.types[0].b;
  } else {
    out << ", which B does not have";
  }
  out << " (" << found.differing << " of " << found.tensors << " tensors)\n";
  return kExitOk;
}

// The first batch field or op of the step that differs; the states before it are equal.
int tell_op(int64_t step, Together& both, std::ostream& out) {
  const TapeDifference found = first_difference(read_tape(both.a()), read_tape(both.b()));
  using Kind = TapeDifference::Kind;
  if (found.kind == Kind::none) {
    out << "op by op its micro-batches compute the same in both, " << found.compared
        << " values: what parts is made of them, by sums over micro-batches and ranks, by the update, or by "
           "kernels "
           "of several ops\n";
    return kExitOk;
  }
  if (found.kind == Kind::graph) {
    auto named = [](const compiler::TapedValue& one) {
      return one.words.empty() ? std::string("nothing more") : str(one.words, ", ", one.made);
    };
    out << "the steps are not the same graph: behind " << found.compared << " equal values A computes "
        << named(found.a) << "\n  and B " << named(found.b) << "\n";
    return kExitOk;
  }
  KeepOfReplay keep;
  keep.micro_batch = found.a.micro_batch, keep.place = found.a.place;
  if (const int code = both.replay(keep); code != kExitOk) return code;
  const std::string element = element_words(found.a, read_taped_value(both.a()), read_taped_value(both.b()));
  out << "in micro-batch " << found.a.micro_batch << " of step " << step << " ";
  if (found.kind == Kind::batch)
    out << found.a.words << " of the batch is not the same, first at " << element << "\n";
  else
    out << found.a.words << " is the first op that gives something else of the same, "
        << shape_text(found.a.dtype, found.a.shape) << " first at " << element << "\n";
  return kExitOk;
}

// The step itself, if the states before it are equal.
void tell_step(int64_t step, const Parted& at, const Side& a, const Side& b, std::ostream& out) {
  out << "before step " << step << " the states are the same, tensor by tensor; the step itself differs";
  auto has = [&](const char* name) {
    return std::any_of(at.differences.begin(), at.differences.end(),
                       [&](const Difference& one) { return one.name == name; });
  };
  if (step == at.step && a.result().data != b.result().data)
    out << ": its samples, of data with the fingerprints " << a.result().data << " and " << b.result().data;
  else if (step == at.step && has("lr") && !has("loss"))
    out << ": its learning rate";
  out << "\n";
}

// Finds the first differing value of the step or, if the states before it already differ, of the step that
// made them.
int look_into(const Parted& at, Side& a, Side& b, std::ostream& out) {
  const int64_t start = std::max(a.start(at.step), b.start(at.step));
  for (int64_t step = at.step; step > start && at.step - step < kStepsBack; --step) {
    Together both(a, b, step);
    if (const int code = both.replay({}); code != kExitOk) return code;
    const auto before = first_tensor(a.result().before, b.result().before);
    const auto after = first_tensor(a.result().tensors, b.result().tensors);
    if (!before.fqn.empty()) {
      if (const int code = tell_states(before, step - 1, true, both, out); code != kExitOk) return code;
      continue;
    }
    tell_step(step, at, a, b, out);
    if (const int code = tell_op(step, both, out); code != kExitOk) return code;
    return after.fqn.empty() || step < at.step ? kExitOk : tell_states(after, step, false, both, out);
  }
  return kExitOk;
}
}  // namespace

int bisect_by_replay(const BisectArguments& arguments, const RunRecord& a, const RunRecord& b, int64_t first,
                     std::ostream& out) {
  Side of_a(arguments, a), of_b(arguments, b);
  auto both = [&](int64_t step) {
    const int code = of_a.replay(step);
    return code == kExitOk ? of_b.replay(step) : code;
  };
  if (const int code = both(first); code != kExitOk) return code;
  const Parted at = parted(of_a, of_b, first);
  auto from = [](const Side& side) {
    return side.result().from.empty() ? std::string("the initial weights") : side.result().from;
  };
  out << "\nreplayed from " << from(of_a) << " and from " << from(of_b) << " to step " << first << "\n";
  if (at.step == 0) {
    out << "here both give the same results, so one of them computed differently where it ran; trainrun "
           "replay shows which record is not reproduced\n";
    return kExitOk;
  }
  out << "step " << at.step << " is the first that comes out otherwise\n";
  std::vector<std::vector<std::string>> rows{{"  of step " + str(at.step), "A", "B"}};
  for (const Difference& one : at.differences) rows.push_back({"  " + one.name, one.a, one.b});
  print_cells(out, rows);
  return look_into(at, of_a, of_b, out);
}

}  // namespace lockstep::launcher::cli
