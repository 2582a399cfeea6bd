// trainrun ckpt diff: prints the first difference of two checkpoints, then a table of all.
#include <cstdio>
#include <ostream>

#include "checkpoint/tools/compare.h"
#include "core/base/error.h"
#include "launcher/cli/ckpt/commands.h"
#include "launcher/cli/ckpt/paths.h"
#include "launcher/cli/commands.h"

namespace lockstep::launcher::cli {

using namespace checkpoint;

namespace {
constexpr size_t kRows = 20;  // of a table, without --all

// The step folders to compare. Of two runs, or folders of checkpoints, that have steps in common: the first
// step whose state hashes differ, else the newest common one. Else the newest of each.
struct Chosen {
  std::string a, b, how;
};
Chosen chosen(const std::string& a, const std::string& b) {
  if (names_a_step(a) || names_a_step(b)) return {a, b, ""};
  std::vector<int64_t> same;
  Chosen newest{a, b, ""};
  const auto of_b = checkpoints_of(b);
  for (const auto& one : checkpoints_of(a))
    for (const auto& other : of_b) {
      if (one.step != other.step || !one.problem.empty() || !other.problem.empty()) continue;
      newest = {one.path, other.path, ""};
      if (one.state_hash == other.state_hash) {
        same.push_back(one.step);
        continue;
      }
      newest.how = same.empty()
                       ? str("step ", one.step, " is the first that both have")
                       : str("step ", one.step, " is the first that differs; the same state hash at ",
                             same.size() == 1 ? "step " : "steps ",
                             join(
                                 [&] {
                                   std::vector<std::string> words;
                                   for (int64_t step : same) words.push_back(str(step));
                                   return words;
                                 }(),
                                 ", "));
      return newest;
    }
  return newest;
}

std::string short_text(double value) {
  char out[32];
  std::snprintf(out, sizeof out, "%.3g", value);
  return out;
}
std::string cut(const std::string& text) { return text.empty() ? "-" : shortened(text, 60); }

template <class Rows, class Row>
void table(std::ostream& out, std::vector<std::string> head, const Rows& rows, bool all, Row row) {
  if (rows.empty()) return;
  std::vector<std::vector<std::string>> cells{std::move(head)};
  for (const auto& one : rows)
    if (all || cells.size() <= kRows) cells.push_back(row(one));
  out << "\n";
  print_cells(out, cells);
  if (cells.size() <= rows.size())
    out << "  ... and " << rows.size() + 1 - cells.size() << " more; --all prints them\n";
}

void print_first(const CheckpointDifference& found, const HeldStep& a, const HeldStep& b, std::ostream& out) {
  const std::string step = a.manifest.step == b.manifest.step
                               ? str(a.manifest.step)
                               : str(a.manifest.step, " and ", b.manifest.step);
  if (!found.tensors.empty()) {
    const TensorDifference& first = found.tensors[0];
    out << "first: step " << step << ", " << first.fqn << " " << str(first.first) << ": " << first.a
        << " and " << first.b << "\n";
  } else {
    const TypeDifference& first = found.types[0];
    out << "first: step " << step << ", " << first.fqn << ": " << (first.a.empty() ? "not in A" : first.a)
        << " and " << (first.b.empty() ? "not in B" : first.b) << "\n";
  }
}
}  // namespace

int ckpt_diff(const CkptDiffArguments& arguments, std::ostream& out) {
  const Chosen pair = chosen(arguments.a, arguments.b);
  const HeldStep a = hold_sound_step(pair.a), b = hold_sound_step(pair.b);
  const CheckpointDifference found =
      compare_checkpoints(a.path, a.manifest, *a.files, b.path, b.manifest, *b.files, arguments.tolerance);
  out << "A: " << a.path << "\nB: " << b.path << "\n";
  if (!pair.how.empty()) out << pair.how << "\n";
  if (found.equal()) {
    out << "equal: " << found.compared << (found.compared == 1 ? " tensor" : " tensors");
    if (arguments.tolerance > 0 && a.manifest.state_hash != b.manifest.state_hash)
      out << ", within " << number_text(arguments.tolerance) << "\n";
    else
      out << ", state hash " << a.manifest.state_hash << "\n";
  } else {
    out << "different: " << found.tensors.size() << " of " << found.compared << " tensors";
    if (!found.types.empty()) out << "; " << found.types.size() << " are not in both alike";
    out << "\n";
    print_first(found, a, b, out);
  }
  table(out, {"tensor", "differing", "of", "largest", "relative"}, found.tensors, arguments.all,
        [](const TensorDifference& one) -> std::vector<std::string> {
          return {one.fqn, str(one.differing), str(numel(one.shape)), short_text(one.largest),
                  short_text(one.largest_relative)};
        });
  table(out, {"tensor", "A", "B"}, found.types, arguments.all,
        [](const TypeDifference& one) -> std::vector<std::string> {
          return {one.fqn, cut(one.a), cut(one.b)};
        });
  table(out, {"beside the tensors", "A", "B"}, found.facts, arguments.all,
        [](const FactDifference& one) -> std::vector<std::string> {
          return {one.name, cut(one.a), cut(one.b)};
        });
  return found.equal() ? kExitOk : kExitDiffers;
}

}  // namespace lockstep::launcher::cli
