// Counts updates of the tensors that depend on a scalar in the traced step.
#include "compiler/compile/counted_scalars.h"

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
    Counted one{name, without_cohort(name), 0};
    // The prefix of the optimizer that owns the scalar: "optim." for "optim.bias1" and "optim.bias1.2".
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
    const std::vector<std::string> moments(found.begin(), found.end());
    const auto known = std::find_if(cohorts_.begin(), cohorts_.end(),
                                    [&](const Cohort& cohort) { return cohort.moments == moments; });
    one.cohort = static_cast<size_t>(known - cohorts_.begin());
    if (known == cohorts_.end()) cohorts_.push_back({moments, {}});
    scalars_.push_back(std::move(one));
  }
}

std::vector<int64_t> CountedScalars::updates_of(const Cohort& one) const {
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

std::string CountedScalars::read(int64_t step, State::Scalars& out) const {
  std::vector<std::vector<int64_t>> updates;
  for (const Cohort& cohort : cohorts_) updates.push_back(updates_of(cohort));
  const State::Scalars plain = state_.scalars(step);
  std::map<int64_t, State::Scalars> others;  // by number of earlier updates, if it differs from the step's
  const auto value = [&](const Counted& one, int64_t before) {
    if (before + 1 == step) return plain.at(one.written);
    auto [found, fresh] = others.try_emplace(before);
    if (fresh) found->second = state_.scalars(step, before + 1);
    return found->second.at(one.written);
  };
  out = plain;
  for (const Counted& one : scalars_) {
    if (!plain.count(one.written)) continue;  // the step refuses a missing scalar
    const std::vector<int64_t>& its = updates[one.cohort];
    out[one.name] = its.empty() ? plain.at(one.written) : value(one, its[0]);
    for (size_t i = 1; i < its.size(); ++i)
      if (value(one, its[i]) != out[one.name])
        return str("\"", one.name, "\" is of tensors that have had ", its[0], " and ", its[i], " updates");
  }
  return "";
}

bool CountedScalars::alike() const {
  const auto same = [&](const Cohort& cohort) { return updates_of(cohort).size() < 2; };
  if (std::all_of(cohorts_.begin(), cohorts_.end(), same)) return true;  // regardless of the scalars
  State::Scalars unused;
  return read(1, unused).empty();
}

State::Scalars CountedScalars::at(int64_t step) const {
  State::Scalars out;
  if (const std::string words = read(step, out); !words.empty())
    throw UserError(str("[step] step ", step, ": ", words,
                        ", by another step or before the run was resumed; ",
                        "compile the step again, after what updated them: it then counts each separately"));
  return out;
}

}  // namespace lockstep::compiler
