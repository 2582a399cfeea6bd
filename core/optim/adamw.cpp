// AdamW as nodes: one `adamw` per parameter.
#include "core/optim/adamw.h"

#include <cmath>

#include "core/ops/op.h"

namespace lockstep {

namespace {
State::Scalars rates(const AdamWOptions& options, int64_t step, int64_t update) {
  auto bias = [&](double beta) { return 1.0 - std::pow(beta, static_cast<double>(update)); };
  return {{"lr", options.lr.at(step)}, {"bias1", bias(options.betas[0])}, {"bias2", bias(options.betas[1])}};
}
void check(const AdamWOptions& options, const OptionChecks& checks) {
  checks.betas(options.betas), checks.above_0("eps", options.eps);
  checks.at_least_0("weight_decay", options.weight_decay), checks.moments(options.moments);
}
std::vector<Tensor> adamw(const AdamWOptions& options, const RuleInput& of) {
  const Attrs attrs{{"beta1", options.betas[0]},
                    {"beta2", options.betas[1]},
                    {"eps", options.eps},
                    {"weight_decay", of.decay_of(options.weight_decay)}};
  std::vector<Tensor> in{
      of.p,    of.g, of.moments[0], of.moments[1], of.scalar("lr"), of.scalar("bias1"), of.scalar("bias2"),
      of.scale};
  if (!of.rounded) return apply(ops::adamw, in, attrs, of.at);
  const SourceLine here = line_of(of.at);
  const AtLine line(here);
  return op_row(ops::adamw).expand({in, attrs, of.p.builder()});
}
}  // namespace

AdamW::AdamW(Scope at, AdamWOptions options, std::vector<AdamWOptions> groups, Here line)
    : RuleOptimizer(at,
                    rule_of("adamw", {"exp_avg", "exp_avg_sq"}, std::move(options), std::move(groups), line,
                            check, adamw, rates),
                    line) {}

RuleGroup adamw_group(const AdamWOptions& options, const OptionChecks& checks) {
  check(options, checks);
  RuleGroup group = rule_group(options, like_parameter({"exp_avg", "exp_avg_sq"}), adamw, rates);
  group.by_elements = true;
  return group;
}

}  // namespace lockstep
