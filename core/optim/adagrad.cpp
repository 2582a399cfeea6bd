// Adagrad's rule as tensor arithmetic.
#include "core/optim/adagrad.h"

namespace lockstep {

namespace {
void check(const AdagradOptions& options, const OptionChecks& checks) {
  checks.above_0("eps", options.eps), checks.at_least_0("weight_decay", options.weight_decay);
}
std::vector<Tensor> adagrad(const AdagradOptions& options, const RuleInput& of) {
  const double decay = of.decay_of(options.weight_decay);
  const Tensor g = decay == 0 ? of.clipped() : of.clipped() + of.p * decay;
  const Tensor s = of.moments[0] + g * g;
  return {of.p - of.scalar("lr") * (g / (sqrt(s) + options.eps)), s};
}
void by_rows(const AdagradOptions& options, RuleGroup& group) {
  if (options.weight_decay == 0)
    group.rows = group.step;
  else
    group.all_rows = "the weight decay of adagrad changes every row of a table in each step";
}
}  // namespace

Adagrad::Adagrad(Scope at, AdagradOptions options, std::vector<AdagradOptions> groups, Here line)
    : RuleOptimizer(at,
                    rule_of("adagrad", {"sum"}, std::move(options), std::move(groups), line, check, adagrad,
                            only_lr, by_rows),
                    line) {}

RuleGroup adagrad_group(const AdagradOptions& options, const OptionChecks& checks) {
  check(options, checks), checks.clip(options.clip);
  return rule_group(options, like_parameter({"sum"}), adagrad);
}

}  // namespace lockstep
