// bisect --replay: both runs are computed again, up to the step in which they part.
#include <algorithm>
#include <ostream>

#include "core/base/error.h"
#include "launcher/cli/bisect.h"
#include "launcher/cli/ckpt_paths.h"
#include "launcher/config/stored.h"
#include "launcher/worker/replay.h"

namespace lockstep::launcher::cli {

namespace {
// One run, and what a replay of it up to some step gave.
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
  int replay(int64_t step) {
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
    return run_replay(ConfigReplay{config, task}, {arguments_.nproc, processes, arguments_.self}, result_);
  }
  const ReplayResult& result() const { return result_; }
  // What came out of each step, the last one too.
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

// The first tensor of both in which the states differ, and how many do; "" where they are the same.
std::string first_tensor(const ReplayResult& a, const ReplayResult& b) {
  std::map<std::string, std::string> of_b(b.tensors.begin(), b.tensors.end());
  std::string first;
  int64_t differing = 0;
  for (const auto& [fqn, hash] : a.tensors) {
    const auto other = of_b.find(fqn);
    if (other != of_b.end() && other->second == hash) continue;
    ++differing;
    if (first.empty()) first = other == of_b.end() ? fqn + ", which B does not have" : fqn;
  }
  return first.empty() ? "" : str(first, " (", differing, " of ", a.tensors.size(), " tensors)");
}

// Where the state before the step is the same, the step itself is what differs.
void tell_state_before(const std::string& tensor, int64_t step, const Parted& at, const Side& a,
                       const Side& b, std::ostream& out) {
  if (!tensor.empty()) {
    out << "after step " << step - 1 << " the states differ, first in " << tensor << "\n";
    return;
  }
  out << "before it the states are the same, tensor by tensor; step " << step << " itself differs";
  const bool rate = std::any_of(at.differences.begin(), at.differences.end(),
                                [](const Difference& one) { return one.name == "lr"; });
  if (a.result().data != b.result().data)
    out << ": its samples, of data with the fingerprints " << a.result().data << " and " << b.result().data;
  else if (rate && at.differences.size() == 1)
    out << ": its learning rate";
  else
    out << ": its samples, its model or its arithmetic, as the configs say above";
  out << "\n";
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
    out << "here both come out the same: where one of them ran it computed otherwise; trainrun replay tells "
           "which "
           "record does not come out again\n";
    return kExitOk;
  }
  out << "step " << at.step << " is the first that comes out otherwise\n";
  std::vector<std::vector<std::string>> rows{{"  of step " + str(at.step), "A", "B"}};
  for (const Difference& one : at.differences) rows.push_back({"  " + one.name, one.a, one.b});
  print_cells(out, rows);
  // States are only in a checkpoint or at a replay's last step.
  const int64_t start = std::max(of_a.start(at.step), of_b.start(at.step));
  if (at.step - 1 > start) {
    if (const int code = both(at.step - 1); code != kExitOk) return code;
    tell_state_before(first_tensor(of_a.result(), of_b.result()), at.step, at, of_a, of_b, out);
    if (of_a.result().values.at("state_hash") != of_b.result().values.at("state_hash")) return kExitOk;
  }
  if (const int code = both(at.step); code != kExitOk) return code;
  if (const std::string tensor = first_tensor(of_a.result(), of_b.result()); !tensor.empty())
    out << "after step " << at.step << " the states differ, first in " << tensor << "\n";
  return kExitOk;
}

}  // namespace lockstep::launcher::cli
