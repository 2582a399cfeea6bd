// Row-wise Adagrad's rule as arithmetic on rows.
#include "core/optim/rowwise_adagrad.h"

#include "core/base/error.h"

namespace lockstep {

namespace {
std::vector<RuleGroup::Moment> one_per_row(const Parameter& table) {
  return {{"sum", {table.shape()[0], 1}}};
}
std::vector<Tensor> rowwise(const AdagradOptions& options, const RuleInput& of) {
  const Tensor g = of.clipped(), s = of.moments[0] + mean(g * g, {1}, true);
  return {of.p - of.scalar("lr") * (g / (sqrt(s) + options.eps)), s};
}
}  // namespace

RowwiseAdagrad::RowwiseAdagrad(Scope at, AdagradOptions options, Here line)
    : RuleOptimizer(
          at,
          [&] {
            Rule out{.kind = "rowwise_adagrad", .clip = options.clip};
            RuleGroup others = adagrad_group(options, OptionChecks("rowwise_adagrad", line));
            options.parameters = sparse_tables(at.state(), options.parameters, "rowwise_adagrad", line);
            out.groups.push_back(rule_group(options, one_per_row, rowwise));
            out.groups[0].rows = out.groups[0].step;
            others.parameters.clear();
            out.groups.push_back(std::move(others));
            out.rest = 1;
            return out;
          }(),
          line) {}

}  // namespace lockstep
