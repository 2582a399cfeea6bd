// The report's first screen: eight lines.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/text.h"
#include "launcher/plan/report.h"

namespace lockstep::launcher {

namespace {
std::string line(const std::string& name, const std::string& value) {
  return str("  ", name, std::string(10 - name.size(), ' '), value, "\n");
}
std::string size(int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }
std::string at_most(const MemoryNeeds& needs) { return needs.total() > needs.exact() ? "at most " : ""; }

// Three figures and a prefix: "40.5k", "1.21M", "0.109"; before a unit "108 G".
std::string figure(double value, const char* space = "") {
  static constexpr std::string_view prefixes[] = {"", "k", "M", "G", "T", "P"};
  size_t prefix = 0;
  for (; value >= 999.5 && prefix + 1 < std::size(prefixes); value /= 1e3) ++prefix;
  const int digits = value <= 0 ? 0 : std::max(0, 2 - static_cast<int>(std::floor(std::log10(value))));
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return str(text, space, prefixes[prefix]);
}
std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, share > 0 && share < 0.0095 ? "%.1f %%" : "%.0f %%", 100 * share);
  return text;
}
// Thousands apart: 842,496.
std::string grouped(int64_t n) {
  std::string out = str(n);
  for (auto at = static_cast<int64_t>(out.size()) - 3; at > 0; at -= 3) out.insert(at, ",");
  return out;
}

// Chooses the known memory: the device's, this host's, or that of the roofline's device.
std::string fits_line(const PlanReport& r) {
  if (r.available > 0 && !r.fits()) {
    const std::string no =
        str("no: the device has ", size(r.available),
            r.available == r.capacity ? str(" (roofline ", r.prediction.roofline, ")") : "",
            r.sought ? "; " : "");
    if (!r.sought) return no;
    if (!r.nearest) return no + "nor does a smaller batch.micro, on up to 8 times the ranks";
    return str(no, "nearest that does: ", text(*r.nearest));
  }
  const std::string without = r.missing.empty() ? "" : "; planned without the device";
  if (r.available > 0)
    return str("yes: the device has ", size(r.available), ", ",
               percent(static_cast<double>(r.needs.total()) / static_cast<double>(r.available)),
               " of it is needed", without);
  if (r.host.bytes) {
    const auto ranks = static_cast<double>(r.host_ranks);
    const bool fits = does_not_fit_host(r.name, r.host_ranks, r.needs, r.host).empty();
    const double all = static_cast<double>(fits ? r.needs.total() : r.needs.exact()) * ranks;
    const std::string need =
        str(r.ranks_of_host(), r.host_ranks == 1 ? " takes " : " take ", fits ? at_most(r.needs) : "",
            bytes_text(all), " of its ", size(r.host.bytes), r.host_ranks_by());
    if (fits) return str("yes, on this host: ", need);
    return str("not on this host: ", need, "; trainrun run would refuse it here");
  }
  if (r.capacity)
    return str(r.needs.total() <= r.capacity ? "yes" : "no", ", on a device of ", size(r.capacity),
               " (roofline ", r.prediction.roofline, ")", without, "; --memory says another size");
  return "not known: --memory BYTES says what a rank's device has";
}

std::string memory_line(const PlanReport& r) {
  const std::vector<MemoryPart> parts = r.needs.largest_first();
  std::vector<std::string> most;
  for (size_t i = 0; i < std::min<size_t>(3, parts.size()); ++i)
    most.push_back(str(parts[i].name, parts[i].bound ? " at most " : " ", size(parts[i].bytes)));
  return str(at_most(r.needs), size(r.needs.total()), " a rank: ", join(most, ", "),
             parts.size() > 3 ? ", ..." : "");
}

std::string limit_line(const PlanReport& r) {
  const TimeShares& shares = r.prediction.shares;
  std::vector<std::pair<double, std::string>> all{{shares.arithmetic, "arithmetic"},
                                                  {shares.memory, "memory traffic"},
                                                  {shares.launches, "launches"},
                                                  {shares.exposed, "exposed communication"}};
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> words;
  for (const auto& [seconds, name] : all)
    if (seconds > 0) words.push_back(str(name, " ", percent(seconds / r.prediction.step_s)));
  std::string out = join(words, ", ");
  for (const auto& use : r.uses)
    if (use.ranks == r.data_ranks && use.used < 1 && r.idle.empty())
      out += str("; ", percent(1 - use.used), " of the micro-batch slots idle");
  return out;
}
}  // namespace

std::string plan_screen(const PlanReport& r) {
  const Prediction& p = r.prediction;
  std::string out = str(
      r.name, " on ", ranks_text(r.ranks), ", mesh ", text(r.mesh), "; ", grouped(r.parameters),
      " parameters", r.frozen ? str(", ", grouped(r.parameters - r.frozen), " of them trained") : "", "\n");
  if (!r.idle.empty()) out += line("idle", r.idle);
  out += line("fits", r.needs.parts.empty() ? "not asked" : fits_line(r));
  if (!r.needs.parts.empty()) out += line("memory", memory_line(r));
  if (r.predicted) {
    out += line("step", str(seconds_text(p.step_s), " predicted by the roofline ", p.roofline,
                            p.beyond_node ? "; links across nodes are assumed, not measured" : ""));
    out += line(
        "speed",
        str(figure(p.units_per_s), " ", p.unit, "/s, ", figure(p.flops_per_s, " "), "FLOP/s per rank",
            p.peak_flops_per_s > 0 ? str(": ", percent(p.flops_per_s / p.peak_flops_per_s), " of its peak")
                                   : ""));
    out += line("time", str(p.micro_batches, " x ", seconds_text(p.body_s), " for micro-batches, ",
                            seconds_text(p.once_s), " once a step, ", seconds_text(p.exposed_s),
                            " of exposed communication"));
    out += line("limits", limit_line(r));
  } else {
    out += line("step", str("not predicted: ", r.no_prediction));
    out += line("batch", str(grouped(r.units), " ", r.unit, " in ", r.micro_batches, " micro-batches, ",
                             p.micro_batches, " on the fullest rank"));
  }
  if (!r.data.empty()) out += line("data", r.data);
  return out +
         line("more",
              "--long: tensors, memory by region, collectives; --json; --program; show --graph: a picture");
}

}  // namespace lockstep::launcher
