// trainrun report: renders a run's folder as one HTML page.
#include "launcher/cli/look/report.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <ostream>

#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/files/shared_file.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/look/run_events.h"
#include "launcher/cli/look/run_record.h"
#include "launcher/cli/plan/planned_run.h"
#include "launcher/config/run_names.h"
#include "launcher/config/stored.h"
#include "launcher/supervise/folders/run.h"

namespace lockstep::launcher::cli {

namespace {
using Points = std::vector<std::pair<double, double>>;

class Gathered {
 public:
  Gathered(const std::string& word, bool budgets) : record_(word), attempts_(attempts_of(record_.folder())) {
    if (record_.lines().empty())
      throw UserError(str("report: ", record_.folder(),
                          "/metrics.jsonl has no rows yet; a run writes one at its first step, and every "
                          "log.every steps, as train() does; a loop of one's own writes none"));
    then_ = record_.then(record_.last_step());
    plan(budgets);
  }
  const std::string& folder() const { return record_.folder(); }

  Page page() const {
    const RunConfig& config = then_.config;
    Page out;
    out.title = then_.program ? std::filesystem::path(record_.folder()).filename().string() : config.name;
    out.below =
        then_.program
            ? str("a program of its own", then_.mesh.empty() ? "" : str(", mesh ", then_.mesh))
            : str(config.model.kind, plan_ ? str(", ", grouped(plan_->parameters), " parameters") : "",
                  then_.mesh.empty() ? plan_ ? str(", mesh ", text(plan_->mesh)) : ""
                                     : str(", mesh ", then_.mesh),
                  ", ", config.train.precision, ", device ", config.train.device);
    out.facts = facts();
    out.sections.push_back(training());
    out.sections.push_back(step_section(measured(), plan_.get(), no_plan_));
    out.sections.back().charts = {{"Time of a step",
                                   "ms",
                                   {all("step", "step_ms"), all("slowest rank's own work", "busy_ms_max")},
                                   true}};
    PageChart waits{"Standing still for communication", "ms", {}, true};
    for (const auto& name : exposed_names())
      waits.series.push_back(all(name.substr(8, name.size() - 11), name));
    if (!waits.series.empty()) out.sections.back().charts.push_back(waits);
    if (const auto names = traces(); !names.empty())
      out.sections.back().text += str(" ", join(names, ", "), " in the run's folder: for ui.perfetto.dev.");
    if (plan_) out.sections.push_back(memory_section(*plan_, no_budgets_));
    out.sections.push_back(promises());
    out.events = attempts_.events;
    if (!then_.program) out.config = config_text(config);
    return out;
  }

 private:
  static std::string grouped(int64_t n) {
    std::string out = str(n);
    for (auto at = static_cast<int64_t>(out.size()) - 3; at > 0; at -= 3) out.insert(at, ",");
    return out;
  }

  void plan(bool budgets) try {
    RunConfig config = then_.config;
    if (then_.program) throw UserError("it is of a program of its own, whose model no config says");
    if (device_choice(config.train.device).kind == "plugin")
      throw UserError("its device is a plugin, which a report does not load");
    if (const std::string closed = unopened_libraries(config); !closed.empty()) throw UserError(closed);
    const PlannedRun planned(config, std::max<int64_t>(1, attempts_.ranks), "");
    plan_ = std::make_unique<PlanReport>(planned.report(0));
    if (budgets) add_budgets(config);
  } catch (const Error& error) {
    no_plan_ = error.what();
    no_plan_ = no_plan_.substr(0, no_plan_.find('\n'));
  }

  void add_budgets(const RunConfig& config) try {
    plan_->budgets = budgets_of(config, std::max<int64_t>(1, attempts_.ranks), "");
  } catch (const Error& error) {
    no_budgets_ = error.what();
    no_budgets_ = no_budgets_.substr(0, no_budgets_.find('\n'));
  }

  Points points(const std::string& name) const {
    Points out;
    for (const auto& [step, row] : record_.lines())
      if (auto found = row.find(name); found != row.end() && found->is_number())
        out.emplace_back(static_cast<double>(step), found->get<double>());
    return out;
  }
  PageSeries all(const std::string& title, const std::string& name) const { return {title, points(name)}; }
  std::vector<std::string> exposed_names() const {
    std::vector<std::string> out;
    for (const auto& [name, value] : record_.lines().rbegin()->second.items())
      if (name.starts_with("exposed_") && name.ends_with("_ms")) out.push_back(name);
    return out;
  }
  std::vector<std::string> traces() const {
    std::vector<std::string> out;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(record_.folder(), none))
      if (const std::string name = entry.path().filename();
          name.starts_with("trace-") && name.ends_with(".json"))
        out.push_back(name);
    std::sort(out.begin(), out.end());
    return out;
  }
  std::string unit() const { return points("tokens_per_s").empty() ? "samples" : "tokens"; }

  PageSection training() const {
    PageSection out{.title = "Training", .text = ""};
    PageChart loss{"Loss", "", {{"training", points("loss"), false, true}}};
    if (const Points validation = points("val_loss"); !validation.empty())
      loss.series.push_back({"validation", validation, true});
    out.charts.push_back(loss);
    auto chart = [&](const std::string& title, const std::string& name, bool smooth, bool zero,
                     const std::string& of = "") {
      if (const Points all = points(name); !all.empty())
        out.charts.push_back({title, of, {{"", all, false, smooth}}, zero});
    };
    chart("Learning rate", "lr", false, true);
    chart("Gradient norm", "grad_norm", true, true);
    if (out.charts.back().title == "Gradient norm") out.charts.back().log = spreads(points("grad_norm"));
    chart("Throughput", unit() + "_per_s", true, true, unit() + "/s");
    for (const auto& [name, value] : record_.lines().rbegin()->second.items())
      if (name.starts_with("val_") && name != "val_loss" && name != "val_perplexity")
        chart("Validation: " + name.substr(4), name, false, false);
    if (const Points norms = whole_norm("weight_norm."); !norms.empty())
      out.charts.push_back({"Norm of all weights", "", {{"", norms}}});
    return out;
  }
  // Whether the maximum is so far from the median that the rest of the plot would be flat.
  static bool spreads(Points all) {
    auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
    std::sort(all.begin(), all.end(), less);
    return all.front().second > 0 && all.back().second > 20 * all[all.size() / 2].second;
  }
  // The square root of the sum of squares of all quantities that begin with `prefix`.
  Points whole_norm(const std::string& prefix) const {
    Points out;
    for (const auto& [step, row] : record_.lines()) {
      double squares = 0;
      for (const auto& [name, value] : row.items())
        if (name.starts_with(prefix) && value.is_number())
          squares += value.get<double>() * value.get<double>();
      if (squares > 0) out.emplace_back(static_cast<double>(step), std::sqrt(squares));
    }
    return out;
  }

  // First row of the newest start that made rows, skipping its first two rows (which load libraries) if it
  // has more.
  double median(const std::string& name) const {
    std::vector<double> values;
    const auto from = static_cast<double>(attempts_.from(record_.last_step()));
    for (const auto& [step, value] : points(name))
      if (step > from) values.push_back(value);
    if (values.size() > 4) values.erase(values.begin(), values.begin() + 2);
    if (values.empty()) return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }
  Measured measured() const {
    Measured out;
    out.step_s = median("step_ms") / 1e3;
    out.busy_s = median("busy_ms_max") / 1e3;
    out.units_per_s = median(unit() + "_per_s");
    for (const auto& name : exposed_names())
      out.exposed_s[name.substr(8, name.size() - 11)] = median(name) / 1e3;
    return out;
  }

  PageSection promises() const {
    PageTable table{"", {{"", ""}}, true};
    const auto values = record_.values(record_.last_step());
    auto add = [&](const char* name, const std::string& value) {
      if (!value.empty()) table.rows.push_back({name, value});
    };
    for (auto [name, key] : {std::pair{"certificate", "certificate"}, {"state hash", "state_hash"}})
      if (auto found = values.find(key); found != values.end()) add(name, found->second);
    add("data fingerprint", then_.data);
    add("library", then_.library);
    return {.title = "What the bits follow from",
            .text = str("Of step ", grouped(record_.last_step()),
                        ". Equal certificates promise equal bits; trainrun replay computes a step again."),
            .tables = {table}};
  }

  std::vector<PageFact> facts() const {
    const RunConfig& config = then_.config;
    const auto& [last, row] = *record_.lines().rbegin();
    auto figure = [](double value) {
      char out[32];
      std::snprintf(out, sizeof out, "%#.4g", value);
      return std::string(out);
    };
    std::vector<PageFact> out;
    out.push_back(
        {"Step", grouped(last), then_.program ? std::string() : str("of ", grouped(config.train.steps))});
    if (const Points loss = points("loss"); !loss.empty())
      out.push_back({"Loss", figure(loss.back().second), str("first ", figure(loss.front().second))});
    if (const Points loss = points("val_loss"); !loss.empty()) {
      const auto best = std::min_element(loss.begin(), loss.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
      out.push_back({"Best validation", figure(best->second), str("at step ", grouped(best->first))});
    }
    const Measured m = measured();
    if (m.units_per_s > 0)
      out.push_back({"Throughput", figure_text(m.units_per_s), str(unit(), "/s, median")});
    if (plan_ && plan_->predicted && plan_->prediction.peak_flops_per_s > 0 && m.step_s > 0)
      out.push_back({"Share of peak",
                     str(figure_text(100 * plan_->prediction.flops_per_s * plan_->prediction.step_s /
                                     m.step_s / plan_->prediction.peak_flops_per_s),
                         " %"),
                     str("of the roofline ", plan_->prediction.roofline)});
    if (attempts_.ranks)
      out.push_back({"Ranks", str(attempts_.ranks),
                     attempts_.attempts == 1 ? "one start" : str(attempts_.attempts, " starts")});
    return out;
  }

  RunRecord record_;
  RunAttempts attempts_;
  RunRecord::Then then_;
  std::unique_ptr<PlanReport> plan_;
  std::string no_plan_, no_budgets_;
};

// Only a page written by this command may be overwritten.
void refuse_foreign_page(const std::string& path, const std::string& run) {
  std::string text, why;
  if (PlainFile there = open_plain(path); !there.fd || there.bytes == 0) return;
  if (!read_plain(path, text, why) || !is_page(text))
    throw UserError(str("report: ", path,
                        " is there, and is no page of this command: it is left as it is; move it away, or "
                        "name another file, as in: trainrun report ",
                        run, " --out OTHER.html"));
}
}  // namespace

int report(const ReportArguments& arguments, std::ostream& out) {
  refuse_no_local_path(arguments.out, "--out");
  const Gathered run(arguments.run, arguments.budgets);
  if (arguments.out.empty()) refuse_linked_run(run.folder());
  const std::string path = arguments.out.empty() ? run.folder() + "/report.html" : arguments.out;
  if (!path.ends_with(".html"))
    throw UserError(str("report: --out is \"", path,
                        "\", which does not end in .html; it names the page "
                        "that is written, as in: trainrun report ",
                        arguments.run, " --out report.html"));
  const std::string html = page_html(run.page());
  refuse_foreign_page(path, arguments.run);
  const std::string why =
      write_shared(path, [&](const Descriptor& file) { return write_fully(file.get(), html); });
  if (!why.empty())
    throw UserError(str("report: \"", path, "\" cannot be written: ", why,
                        "; name a file in a folder that you may write to"));
  out << path << ": " << bytes_text(static_cast<double>(html.size())) << ", needs no network\n";
  return kExitOk;
}

}  // namespace lockstep::launcher::cli
