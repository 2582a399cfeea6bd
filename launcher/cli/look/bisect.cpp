// trainrun bisect: finds the first step in which two runs differ, from their records and checkpoints.
#include <algorithm>
#include <ostream>
#include <set>

#include "checkpoint/checkpoint.h"
#include "core/base/error.h"
#include "launcher/cli/ckpt/commands.h"
#include "launcher/cli/ckpt/paths.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/look/bisect.h"
#include "launcher/config/config.h"

namespace lockstep::launcher::cli {

using namespace checkpoint;

namespace {
// Columns of times, or of the ranks: equal runs differ in them.
bool is_of_the_clock(const std::string& name) {
  static const std::set<std::string> names = {"slowest_rank", "busy_ms_min", "busy_ms_median", "busy_ms_max",
                                              "step"};
  return names.count(name) || name.ends_with("_ms") || name.ends_with("_per_s");
}
bool decides(const std::string& name) { return !is_of_the_clock(name) && name != "certificate"; }

}  // namespace

std::vector<Difference> differences(const std::map<std::string, std::string>& a,
                                    const std::map<std::string, std::string>& b) {
  std::vector<Difference> out;
  for (const auto& [name, value] : a)
    if (const auto other = b.find(name); decides(name) && other != b.end() && other->second != value)
      out.push_back({name, value, other->second});
  // The loss comes first because readers know it; norms of single parameters, possibly many, come last.
  std::stable_sort(out.begin(), out.end(), [](const Difference& x, const Difference& y) {
    auto place = [](const Difference& one) {
      return one.name == "loss"                        ? 0
             : one.name == "grad_norm"                 ? 1
             : one.name.find('.') == std::string::npos ? 2
                                                       : 3;
    };
    return place(x) < place(y);
  });
  return out;
}

namespace {
// Steps that both have recorded, ascending.
std::vector<int64_t> common_steps(const RunRecord& a, const RunRecord& b) {
  std::set<int64_t> of_a, out;
  for (const auto& [step, row] : a.lines()) of_a.insert(step);
  for (int64_t step : a.checkpoint_steps()) of_a.insert(step);
  for (const auto& [step, row] : b.lines())
    if (of_a.count(step)) out.insert(step);
  for (int64_t step : b.checkpoint_steps())
    if (of_a.count(step)) out.insert(step);
  return {out.begin(), out.end()};
}

struct Found {
  int64_t equal = 0;  // the newest step up to which all common records are equal; 0: none
  int64_t first = 0;  // the first that differs; 0: none
  std::vector<Difference> differences;
};
Found first_differing(const RunRecord& a, const RunRecord& b, const std::vector<int64_t>& steps) {
  Found out;
  for (int64_t step : steps) {
    out.differences = differences(a.values(step), b.values(step));
    if (!out.differences.empty()) {
      out.first = step;
      return out;
    }
    out.equal = step;
  }
  return out;
}

void tell_numbers(const Found& found, std::ostream& out) {
  constexpr size_t kRows = 12;
  std::vector<std::vector<std::string>> rows{{"  of step " + str(found.first), "A", "B"}};
  for (size_t i = 0; i < std::min(kRows, found.differences.size()); ++i) {
    const Difference& one = found.differences[i];
    rows.push_back({"  " + one.name, one.a, one.b});
  }
  print_cells(out, rows);
  if (found.differences.size() > kRows) out << "  ... and " << found.differences.size() - kRows << " more\n";
}

// Compares the configs of the two, if known, and whether their certificates promise equal bits.
void tell_causes(const RunRecord& a, const RunRecord& b, int64_t step, std::ostream& out) {
  const auto of_a = a.then(step), of_b = b.then(step);
  std::vector<std::string> keys;
  if (!of_a.program && !of_b.program)
    for (const ConfigKey& key : config_keys()) {
      if (key.path == "name" || !has_meaning(of_a.config, key)) continue;
      const Json x = get_key(of_a.config, key), y = get_key(of_b.config, key);
      if (x != y) keys.push_back(str(key.path, " ", x.dump(), " and ", y.dump()));
    }
  if (!keys.empty()) out << "configs differ: " << shortened(join(keys, "; "), 1000) << "\n";
  if (!of_a.data.empty() && !of_b.data.empty() && of_a.data != of_b.data)
    out << "data differs: its fingerprints are " << of_a.data << " and " << of_b.data << "\n";
  if (!of_a.library.empty() && !of_b.library.empty() && of_a.library != of_b.library)
    out << "libraries differ: " << of_a.library << " and " << of_b.library << "\n";
  const auto values_a = a.values(step), values_b = b.values(step);
  const auto x = values_a.find("certificate"), y = values_b.find("certificate");
  if (x == values_a.end() || y == values_b.end() || x->second.empty() || y->second.empty()) return;
  if (x->second != y->second)
    out << "certificates differ, " << x->second << " and " << y->second << ": equal bits are not promised\n";
  else
    out << "certificates are equal: of equal data, seeds, learning rates and state, one of the two computed "
           "wrong\n";
}

// The first checkpoint of both that differs, tensor by tensor.
void tell_tensors(const RunRecord& a, const RunRecord& b, std::ostream& out) {
  for (int64_t step : a.checkpoint_steps()) {
    const auto *x = a.checkpoint(step), *y = b.checkpoint(step);
    if (!x || !y || x->state_hash == y->state_hash) continue;
    CkptDiffArguments arguments;
    arguments.a = x->path, arguments.b = y->path;
    out << "\nthe first checkpoint of both that differs, of step " << step << ":\n";
    ckpt_diff(arguments, out);
    return;
  }
  out << "no checkpoint that both have differs\n";
}

void tell_next(const RunRecord& a, const RunRecord& b, const Found& found, std::ostream& out) {
  if (found.first - found.equal > 1)
    out << "nothing that both recorded lies between step " << found.equal << " and step " << found.first
        << "\n";
  out << "trainrun bisect --replay computes the steps before it again; trainrun replay --step " << found.first
      << " " << a.folder() << "   or " << b.folder()
      << "   tells whether the record of one comes out again\n";
}
}  // namespace

int bisect(const BisectArguments& arguments, std::ostream& out) {
  const RunRecord a(arguments.a), b(arguments.b);
  const auto steps = common_steps(a, b);
  if (steps.empty())
    throw UserError(str(a.folder(), " and ", b.folder(),
                        " have recorded no step in common: they have rows up to step ", a.last_step(),
                        " and ", b.last_step(), ", by log.every and checkpoint.every"));
  const Found found = first_differing(a, b, steps);
  out << "A: " << a.folder() << "\nB: " << b.folder() << "\n";
  if (found.first == 0) {
    out << "equal: " << steps.size() << (steps.size() == 1 ? " step" : " steps")
        << " that both recorded, from step " << steps.front() << " to step " << steps.back() << "\n";
    return kExitOk;
  }
  if (found.equal) out << "equal up to step " << found.equal << "; ";
  out << "the first difference is at step " << found.first << "\n";
  tell_numbers(found, out);
  tell_causes(a, b, found.first, out);
  tell_tensors(a, b, out);
  if (!arguments.replay) {
    tell_next(a, b, found, out);
    return kExitDiffers;
  }
  const int code = bisect_by_replay(arguments, a, b, found.first, out);
  return code == kExitOk ? kExitDiffers : code;
}

}  // namespace lockstep::launcher::cli
