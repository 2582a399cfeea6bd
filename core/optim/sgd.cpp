// SGD as nodes: one `sgd` per parameter, or Nesterov's rule as arithmetic.
#include "core/optim/sgd.h"

namespace lockstep {

namespace {
void check(const SgdOptions& options, const OptionChecks& checks) {
  checks.fraction("momentum", options.momentum);
  checks.at_least_0("weight_decay", options.weight_decay);
  if (options.nesterov) checks.above_0("momentum (of nesterov)", options.momentum);
}
std::vector<Tensor> sgd(const SgdOptions& options, const RuleInput& of) {
  const double decay = of.decay_of(options.weight_decay);
  if (!options.nesterov)
    return apply(ops::sgd, {of.p, of.g, of.moments[0], of.scalar("lr"), of.scale},
                 {{"momentum", options.momentum}, {"weight_decay", decay}}, of.at);
  const Tensor g = decay == 0 ? of.clipped() : of.clipped() + of.p * decay;
  const Tensor m = of.moments[0] * options.momentum + g;
  return {of.p - of.scalar("lr") * (g + m * options.momentum), m};
}
void by_rows(const SgdOptions& options, RuleGroup& group) {
  if (options.momentum == 0 && options.weight_decay == 0) {
    group.rows = [](const RuleInput& of) { return std::vector{of.p - of.scalar("lr") * of.clipped()}; };
    group.row_moments = [](const Parameter&) { return std::vector<RuleGroup::Moment>(); };
  } else {
    group.all_rows = options.momentum != 0
                         ? "the momentum of sgd moves every row of a table in each step"
                         : "the weight decay of sgd changes every row of a table in each step";
  }
}
}  // namespace

Sgd::Sgd(Scope at, SgdOptions options, std::vector<SgdOptions> groups, Here line)
    : RuleOptimizer(at,
                    rule_of("sgd", {"momentum"}, std::move(options), std::move(groups), line, check, sgd,
                            only_lr, by_rows),
                    line) {}

}  // namespace lockstep
