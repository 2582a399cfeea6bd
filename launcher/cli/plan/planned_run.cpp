// PlannedRun: determines device, roofline and hosts, then plans.
#include "launcher/cli/plan/planned_run.h"

#include <filesystem>
#include <future>

#include "compiler/program/check/verify.h"
#include "core/base/error.h"
#include "launcher/data/files.h"
#include "launcher/machine/host_rates.h"

namespace lockstep::launcher::cli {

std::string data_in_words(const DataConfig& config) {
  std::vector<std::string> paths = config.paths;
  for (const auto& source : config.sources)
    paths.insert(paths.end(), source.paths.begin(), source.paths.end());
  if (paths.empty()) return "none named yet: data.paths is empty";
  try {
    const std::vector<std::string> files = data::find_files(paths, "").files;
    if (files.empty()) return str("not there: ", join(paths, ", "), " holds no file");
    constexpr size_t kAsked = 10000;  // each size costs a call
    double bytes = 0;
    std::error_code unknown;
    if (files.size() <= kAsked)
      for (const auto& file : files) bytes += static_cast<double>(std::filesystem::file_size(file, unknown));
    return str("there: ", files.size(), files.size() == 1 ? " file" : " files",
               bytes > 0 ? str(" of ", bytes_text(bytes)) : "", ", read as ", config.kind);
  } catch (const UserError& error) { return str("not there: ", error.what()); }
}

PlannedRun::PlannedRun(RunConfig config, int64_t nproc, const std::string& roofline)
    : config_(std::move(config)), found_(found_target(config_.train.device, nproc)) {
  const std::string word = roofline_word(roofline, config_.train.device, found_);
  known_ = !word.empty();
  if (known_) roofline_ = roofline.empty() ? roofline_here(word) : roofline_named(word);
  if (!config_.mesh.ranks_per_node && nproc > roofline_.ranks_per_node &&
      nproc % roofline_.ranks_per_node == 0) {
    config_.mesh.ranks_per_node = roofline_.ranks_per_node;
    hosts_assumed_ = true;
  }
  run_ = std::make_unique<PaperRun>(config_, nproc, found_.target,
                                    roofline.empty() ? nullptr : this->roofline());
}

std::string PlannedRun::no_roofline() const { return launcher::no_roofline(found_); }

int64_t PlannedRun::evaluated() const {
  return config_.data.validation > 0 ? config_.train.eval_batches * config_.batch.global : 0;
}
MemoryNeeds PlannedRun::needs(const LibraryBounds& bounds, int64_t memory) const {
  MemoryNeeds out = device_needs(config_, run_->state, run_->trainer, run_->step, evaluated(), bounds);
  if (memory == 0 && found_.target.device().addressable() &&
      device_choice(config_.train.device).kind != "cuda")
    add_snapshot(out, config_, run_->state);
  return out;
}

PlanReport PlannedRun::report(int64_t memory) const {
  const int64_t nproc = run_->words.size();
  PlanReport report = make_report(config_, *run_, roofline(), no_roofline());
  report.data = data_in_words(config_.data);
  const LibraryBounds bounds = library_bounds(config_, found_.target);
  add_memory(report, config_, found_, needs(bounds, memory), memory);
  report.host_by = hosts_assumed_
                       ? str("the roofline ", roofline_.name, "; mesh.ranks_per_node says otherwise")
                       : "mesh.ranks_per_node";
  // What does not fit a known device that is not here is answered as what does not fit one that is.
  if (report.on_device && !report.available && report.needs.total() > report.capacity)
    report.available = report.capacity;
  if (!report.fits())
    report.nearest = nearest_config(config_, nproc, found_.target, evaluated(), bounds, report.available);
  return report;
}

PlanBudget PlannedRun::budget() const {
  const compiler::Recompute& again = run_->step.plan.recompute;
  const compiler::ProgramBlock& body = run_->step.program.blocks[compiler::kBodyBlock];
  return {config_.compile.memory_budget,
          needs(library_bounds(config_, found_.target), 0).total(),
          run_->step.held.arena,
          known_ ? predict(config_, run_->words, run_->step, roofline_).step_s : 0,
          again.values,
          again.extra_flops,
          false,
          false,
          static_cast<int64_t>(body.away.size()),
          body.away_bytes()};
}
std::vector<PlanBudget> budgets_of(RunConfig config, int64_t nproc, const std::string& roofline) {
  const FoundTarget found = found_target(config.train.device, nproc);  // opened once, for all threads
  const bool asked = config.compile.offload_activations;
  struct Hosted {
    bool activations = false, moments = false;
  };
  const auto begin = [&](const std::string& word, Hosted hosted) {
    RunConfig one = config;
    one.compile.memory_budget = word, one.optim.offload = hosted.moments;
    one.compile.offload_activations = hosted.activations && word != "none" && word != "full";
    return std::async(std::launch::async, [one = std::move(one), nproc, roofline, &found] {
      found.target.device().enter();
      return PlannedRun(one, nproc, roofline).budget();
    });
  };
  const auto planned = [&](const std::vector<std::string>& words, Hosted hosted) {
    std::vector<std::future<PlanBudget>> begun;
    for (const std::string& word : words) begun.push_back(begin(word, hosted));
    std::vector<PlanBudget> all;
    for (auto& one : begun) all.push_back(one.get());
    return all;
  };
  const Hosted as_asked{asked, config.optim.offload};
  std::future<PlanBudget> away;
  if (!config.optim.offload) away = begin("none", {false, true});
  std::vector<PlanBudget> out =
      plan_budgets([&](const std::vector<std::string>& words) { return planned(words, as_asked); });
  if (!asked && out.size() > 2) {
    std::vector<std::string> between;
    for (size_t i = 1; i + 1 < out.size(); ++i) between.push_back(out[i].word);
    const std::vector<PlanBudget> copied = planned(between, {true, config.optim.offload});
    for (size_t i = 0; i < copied.size(); ++i)
      if (copied[i].step_s < out[i + 1].step_s) {
        out.push_back(copied[i]);
        out.back().copies = true;
      }
  }
  if (!away.valid()) return out;
  try {
    PlanBudget offloaded = away.get();
    offloaded.offload = true;
    if (offloaded.bytes < out[0].bytes) out.push_back(std::move(offloaded));
  } catch (const UserError&) {}  // moments cannot be on the host
  return out;
}

compiler::StepProgram PlannedRun::program_of(int64_t rank) const {
  if (rank >= run_->words.size())
    throw UserError(str("--rank is ", rank, ", and the ranks of this plan are 0 to ", run_->words.size() - 1,
                        "; give one of them, or a larger --nproc"));
  compiler::StepProgram program = launcher::program_of(run_->step, run_->words, rank);
  verify(program);
  return program;
}

}  // namespace lockstep::launcher::cli
