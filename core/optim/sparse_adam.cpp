// Lazy Adam's rule as arithmetic on rows.
#include "core/optim/sparse_adam.h"

#include <cmath>

#include "core/base/error.h"

namespace lockstep {

namespace {
State::Scalars rates(const SparseAdamOptions& options, int64_t step, int64_t update) {
  const auto t = static_cast<double>(update);
  const double lr = options.lr.at(step);
  return {{"lr", lr},
          {"rate", std::sqrt(1 - std::pow(options.betas[1], t)) / (1 - std::pow(options.betas[0], t))}};
}
void check(const SparseAdamOptions& options, const OptionChecks& checks) {
  checks.betas(options.betas), checks.above_0("eps", options.eps), checks.clip(options.clip);
}
std::vector<Tensor> sparse_adam(const SparseAdamOptions& options, const RuleInput& of) {
  const Tensor g = of.clipped();
  const Tensor m = of.moments[0] + (g - of.moments[0]) * (1 - options.betas[0]);
  const Tensor v = of.moments[1] + (g * g - of.moments[1]) * (1 - options.betas[1]);
  return {of.p - of.scalar("lr") * of.scalar("rate") * (m / (sqrt(v) + options.eps)), m, v};
}
}  // namespace

SparseAdam::SparseAdam(Scope at, SparseAdamOptions options, AdamWOptions others, Here line)
    : RuleOptimizer(
          at,
          [&] {
            const OptionChecks checks("sparse_adam", line);
            check(options, checks);
            options.parameters = sparse_tables(at.state(), options.parameters, "sparse_adam", line);
            Rule out{.kind = "sparse_adam", .clip = options.clip};
            out.groups.push_back(
                rule_group(options, like_parameter({"exp_avg", "exp_avg_sq"}), sparse_adam, rates));
            out.groups[0].rows = out.groups[0].step;
            out.groups.push_back(adamw_group(others, OptionChecks("sparse_adam, adamw", line)));
            out.rest = 1;
            return out;
          }(),
          line) {}

}  // namespace lockstep
