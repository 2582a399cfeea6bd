// Workload: the functions shared by all workloads.
#include "launcher/loop/workload.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "launcher/memory/host.h"

namespace lockstep::launcher {

std::map<std::string, double> Workload::evaluate(compiler::Step& evaluation, int64_t i,
                                                 std::function<bool()> give_up) {
  compiler::StepInput input = evaluation_input(i);
  input.give_up = std::move(give_up);
  auto out = evaluation.run(input).metrics;
  if (perplexity()) out["perplexity"] = std::exp(out.at("loss"));
  return out;
}

std::string Workload::hash_state() { return state_hash(std::as_const(state()).arrays(), mesh()); }

// The rate of the optimizer at "optim", else of the first one that has a rate.
std::optional<double> Workload::rate(int64_t i) {
  const auto scalars = state().scalars(i);
  auto found = scalars.find("optim.lr");
  if (found == scalars.end())
    found = std::find_if(scalars.begin(), scalars.end(),
                         [](const auto& scalar) { return scalar.first.ends_with(".lr"); });
  if (found == scalars.end()) return std::nullopt;
  return found->second * state().factor_of(found->first.substr(0, found->first.rfind('.')));
}

std::string Workload::shown(const compiler::StepResult& step) {
  std::vector<std::string> out;
  for (const auto& [name, value] : step.metrics) {
    if (name == "loss" || name == "tokens" || name.starts_with("grad_norm")) continue;
    char number[32];
    std::snprintf(number, sizeof number, "%.4g", value);
    out.push_back(str(name, " ", number));
  }
  return join(out, "  ");
}

int64_t Workload::memory_in_use() const {
  if (target().device().addressable()) return resident_bytes();
  const DeviceMemory memory = target().device().memory_info();
  return memory.total - memory.free;
}

}  // namespace lockstep::launcher
