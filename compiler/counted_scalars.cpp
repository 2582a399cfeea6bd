// Counts by what follows from a scalar in the traced step.
#include "compiler/counted_scalars.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/nn/update_cohorts.h"

namespace lockstep::compiler {

std::map<std::string, std::vector<std::string>> tensors_of_scalars(const Graph& traced) {
  std::map<std::string, std::vector<std::string>> out;
  for (const auto& input : traced.inputs) {
    if (input.kind != InputKind::scalar || input.name.starts_with("rng.")) continue;
    const PerValue<bool> follows = depends_on(traced, {input.value});
    auto& tensors = out[input.name];
    for (const auto& output : traced.outputs)
      if (output.kind == OutputKind::state && follows[output.value]) tensors.push_back(output.name);
  }
  return out;
}

CountedScalars::CountedScalars(const StepPlan& plan, State& state) : state_(state) {
  std::map<std::string, std::vector<std::string>> moments_of;  // of a parameter
  for (const Spec& spec : state.specs())
    if (spec.role == Role::moment) moments_of[spec.of].push_back(spec.fqn);
  for (const auto& [name, tensors] : plan.of_scalars) {
    Counted one{name, without_cohort(name), {}, {}};
    // Those of the optimizer whose scalar it is: "optim." of "optim.bias1" and of "optim.bias1.2".
    std::string path = one.written.substr(0, one.written.rfind('.') + 1);
    const auto belongs = [&](const std::string& fqn) {
      return fqn.starts_with(path) && state.find_spec(fqn).spec().role == Role::moment;
    };
    if (!path.empty() && one.written.find_first_not_of("0123456789", path.size()) == std::string::npos)
      path = path.substr(0, path.rfind('.', path.size() - 2) + 1);
    std::set<std::string> found;
    for (const std::string& fqn : tensors) {
      if (!state.find_spec(fqn)) continue;
      if (belongs(fqn)) found.insert(fqn);
      for (const std::string& moment : moments_of[fqn])
        if (belongs(moment)) found.insert(moment);
    }
    one.moments.assign(found.begin(), found.end());
    scalars_.push_back(std::move(one));
  }
}

std::vector<int64_t> CountedScalars::updates_of(const Counted& one) const {
  if (!state_.allocated()) return {};
  if (one.arrays.empty())
    for (const std::string& fqn : one.moments) one.arrays.push_back(state_.find(fqn));
  std::vector<int64_t> out;
  for (const Array* array : one.arrays)
    if (out.empty() || array->updates != out.back()) out.push_back(array->updates);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::string CountedScalars::unlike(int64_t step) const {
  const auto value = [&](const Counted& one, int64_t updates) {
    const State::Scalars all = state_.scalars(step, updates + 1);
    const auto found = all.find(one.written);
    return found == all.end() ? 0 : found->second;
  };
  for (const Counted& one : scalars_) {
    const auto updates = updates_of(one);
    for (size_t i = 1; i < updates.size(); ++i)
      if (value(one, updates[i]) != value(one, updates[0]))
        return str("\"", one.name, "\" is of tensors that have had ", updates[0], " and ", updates[i],
                   " updates");
  }
  return "";
}

State::Scalars CountedScalars::at(int64_t step) const {
  const State::Scalars plain = state_.scalars(step);
  State::Scalars out = plain;
  if (const std::string words = unlike(step); !words.empty())
    throw UserError(str("[step] step ", step, ": ", words,
                        ", by another step or before the run was resumed; ",
                        "compile the step again, behind what updated them: it counts each by itself then"));
  std::map<int64_t, State::Scalars> by_update;
  for (const Counted& one : scalars_) {
    const auto updates = updates_of(one);
    if (!plain.count(one.written)) continue;  // the step refuses what nobody gives
    if (updates.empty()) {
      out[one.name] = plain.at(one.written);
      continue;
    }
    auto [found, fresh] = by_update.try_emplace(updates[0] + 1);
    if (fresh) found->second = updates[0] + 1 == step ? plain : state_.scalars(step, updates[0] + 1);
    out[one.name] = found->second.at(one.written);
  }
  return out;
}

}  // namespace lockstep::compiler
