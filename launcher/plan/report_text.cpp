// The report as text: sections, each a short table.
#include <algorithm>
#include <cstdio>

#include "core/base/error.h"
#include "launcher/plan/report.h"

namespace lockstep::launcher {

std::string ranks_text(int64_t ranks) { return str(ranks, ranks == 1 ? " rank" : " ranks"); }

namespace {
std::string exact_bytes(int64_t bytes) {
  return str(bytes, " bytes (", bytes_text(static_cast<double>(bytes)), ")");
}
std::string padded(const std::string& text, size_t width) {
  return text + std::string(text.size() < width ? width - text.size() : 1, ' ');
}
std::string row(const std::string& name, const std::string& value) {
  return str("  ", padded(name, 26), value, "\n");
}
std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}
std::string tensor_table(const PlanReport& report) {
  size_t names = 0, types = 0;
  for (const auto& tensors : report.tensors) {
    names = std::max(names, tensors.name.size());
    types = std::max(types, tensors.type.size());
  }
  std::string out, role;
  for (const auto& tensors : report.tensors) {
    if (tensors.role != role) out += str(role = tensors.role, ", per tensor on the fullest rank\n");
    std::string line = str("  ", padded(tensors.name, names + 2), padded(tensors.type, types + 2));
    std::string size = str(tensors.count > 1 ? str(tensors.count, " x ") : "",
                           bytes_text(static_cast<double>(tensors.bytes)));
    out += str(line, padded(size, 18),
               tensors.placements.empty() ? "whole on every rank" : tensors.placements, "\n");
  }
  return out;
}

std::string traffic_table(const PlanReport& report) {
  const auto& rows = report.prediction.traffic;
  if (rows.empty()) return "collectives: none, it is one rank\n";
  const bool copies =
      std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.op == "copies"; });
  std::string out = str(copies ? "collectives and copies" : "collectives",
                        " per step (bytes that the fullest rank sends)\n"),
              dims;
  for (const auto& traffic : rows) {
    if (traffic.dims != dims) out += str("  on ", dims = traffic.dims, "\n");
    std::string line = str(traffic.count, " x, ", bytes_text(static_cast<double>(traffic.bytes)));
    if (report.predicted)
      line = str(padded(line, 22), seconds_text(traffic.seconds), " under way, ",
                 seconds_text(traffic.exposed_s), " exposed");
    out += str("    ", padded(traffic.op, 24), line, "\n");
  }
  return out;
}

std::string prediction_table(const PlanReport& report) {
  const Prediction& p = report.prediction;
  if (!report.predicted) return str("predicted step time: none (", report.no_prediction, ")\n");
  std::string out = str("predicted step time, by the roofline ", p.roofline,
                        p.measured_on.empty() ? "" : str(" (", p.measured_on, ")"), "\n");
  out += row("micro-batches", str(p.micro_batches, " x ", seconds_text(p.body_s)));
  out += row("once a step", seconds_text(p.once_s));
  out += row("exposed communication", seconds_text(p.exposed_s));
  out += row("together", str(seconds_text(p.step_s), ", ", formatted("%.4g", p.units_per_s), " ", p.unit,
                             "/s, ", formatted("%.4g", p.flops_per_s / 1e12), " TFLOP/s per rank"));
  if (p.beyond_node)
    out += "  measured on one node only: how these ranks cross nodes is assumed, not measured\n";
  return out;
}

std::string host_words(const PlanReport& report) {
  std::string out = row("this host has", str(exact_bytes(report.host.bytes), " for ", report.ranks_of_host(),
                                             " (", report.host.source, ")", report.host_ranks_by()));
  const std::string wrong = does_not_fit_host(report.name, report.host_ranks, report.needs, report.host);
  const double all = static_cast<double>(report.needs.exact()) * static_cast<double>(report.host_ranks);
  return out + (wrong.empty() ? ""
                              : str("  THIS HOST CANNOT HOLD IT: ", report.ranks_of_host(),
                                    report.host_ranks == 1 ? " needs " : " need ", bytes_text(all),
                                    report.host_ranks == 1 ? "" : " together",
                                    "; trainrun run would refuse it here\n"));
}

std::string fit_words(const PlanReport& report) {
  if (report.available <= 0) return "";
  if (report.fits()) return "  it fits\n";
  if (!report.nearest) return "  it does not fit, and neither does any mesh of up to 8 times the ranks\n";
  return str("  it does not fit; nearest that does: ", text(*report.nearest), "\n");
}

std::string model_rows(const PlanReport& r) {
  std::string out = "model\n" + row("parameters", str(r.parameters)) +
                    (r.frozen ? row("trained of them", str(r.parameters - r.frozen)) : "") +
                    row("state, once", bytes_text(static_cast<double>(r.state_bytes_once)));
  out += tensor_table(r);
  if (!r.whole_on_tp.empty()) out += str("  ", r.whole_on_tp, "\n");
  return out;
}

std::string memory_rows(const PlanReport& r) {
  std::string out = "memory of the fullest rank\n";
  out += row("state", exact_bytes(r.state)) +
         (r.needs.on_host ? row("of it on the host", exact_bytes(r.needs.on_host)) : "") +
         row("arena", exact_bytes(r.arena)) + row("reduction", exact_bytes(r.reduction));
  out += row("together", exact_bytes(r.state + r.arena + r.reduction));
  if (!r.recomputed.empty()) out += row("recomputed", r.recomputed);
  if (!r.offloaded.empty()) out += row("offloaded", r.offloaded);
  out += "arena and reduction by region\n";
  for (const auto& region : r.regions) out += row(region.name, exact_bytes(region.bytes));
  if (!r.needs.parts.empty()) {
    out += r.on_device ? "memory of the fullest rank's device\n"
                       : "memory of the fullest rank, with its libraries\n";
    out += memory_table(r.needs, r.available) + fit_words(r);
    if (r.host.bytes) out += host_words(r);
    if (!r.missing.empty())
      out += str("  planned without the device (", r.missing,
                 "):\n  kernels and workspaces of attention and convolutions are counted as the CPU's",
                 r.stands_in ? ", those of products by the device's bound" : "", "\n");
  }
  return out;
}

std::string step_rows(const PlanReport& r) {
  std::string out = "step\n";
  out +=
      row("micro-batches", str(r.micro_batches, " of ", r.micro,
                               r.unit == "tokens" ? " sequences, in " : " samples, in ", r.lanes, " lanes")) +
      row(r.unit, str(r.units));
  if (r.together > 1) out += row("together", str(r.together, " micro-batches of a rank at a time"));
  if (r.together == 1)
    out += row("together", "one at a time: see compile.together (trainrun explain compile.together)");
  out += row("contractions", formatted("%.4g", r.flops / 1e9) + " Gflop, all ranks together");
  if (r.buckets)
    out += row("buckets", str(r.buckets, " of about ", bytes_text(static_cast<double>(r.bucket_bytes))));
  if (!r.hosts.empty()) out += row("exchange", r.hosts);
  if (!r.gathers.empty()) out += row("weights gathered", r.gathers);
  if (r.tp_pieces > 1)
    out += row("products on tp",
               str("forward in ", r.tp_pieces, " pieces: one travels while another is computed"));
  if (!r.whole_updates.empty()) out += row("whole updates", r.whole_updates);
  if (!r.recomputations.empty()) out += row("computed again", r.recomputations);
  return out;
}

std::string use_rows(const PlanReport& r) {
  std::string out = "micro-batches per rank, by number of data ranks\n";
  for (const auto& use : r.uses)
    out += row(str(use.ranks),
               str(use.most, " on the fullest, ", formatted("%.0f", 100 * use.used),
                   " % of the slots are used", use.ranks == r.data_ranks ? "  <- this plan" : ""));
  if (r.advised_micro)
    out += str(
        "  advice: at least 4 micro-batches per rank keep ranks busy on other cluster sizes; batch.micro ",
        r.advised_micro,
        " gives that,\n          with DDP and ZeRO 1 nearly as fast as this one with compile.together ",
        (r.micro + r.advised_micro - 1) / r.advised_micro,
        r.one_round ? ",\n          and with fp32 sums of whole gradients on each rank" : "", "\n");
  return out;
}
}  // namespace

std::string plan_text(const PlanReport& r) {
  std::string out = str(plan_screen(r), "\n", model_rows(r), memory_rows(r), step_rows(r), traffic_table(r),
                        use_rows(r), prediction_table(r));
  out += str("numerics certificate", r.missing.empty() ? "" : " of the CPU, since the device is not here",
             " (equal certificates promise equal bits, on ", r.invariant ? "any" : "this",
             " number of data ranks)\n", row("", r.certificate));
  return out;
}

}  // namespace lockstep::launcher
