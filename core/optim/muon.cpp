// Muon's rule as tensor arithmetic.
#include "core/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/error.h"

namespace lockstep {

namespace {
// The Newton-Schulz iteration on a matrix with at most as many rows as columns: a quintic polynomial of x x^T
// pushes the singular values towards 1.
Tensor orthogonal(Tensor x, const MuonOptions& options) {
  const auto [a, b, c] = options.coefficients;
  x = x / maximum(sqrt(sum(x * x, {0, 1})), full(x, {}, options.eps, x.dtype()));
  for (int64_t i = 0; i < options.iterations; ++i) {
    const Tensor s = matmul(x, transpose(x, 0, 1));
    x = x * a + matmul(s * b + matmul(s, s) * c, x);
  }
  return x;
}
double ratio(const MuonOptions& options, const Shape& matrix) {
  const auto a = static_cast<double>(matrix[0]), b = static_cast<double>(matrix[1]);
  return options.rate == MuonRate::original ? std::sqrt(std::max(1.0, a / b))
                                            : 0.2 * std::sqrt(std::max(a, b));
}
std::vector<Tensor> muon(const MuonOptions& options, const RuleInput& of) {
  const double keep = options.momentum;
  const Tensor g = of.clipped() * (1 - keep), m = of.moments[0] * keep + g;
  Tensor u = options.nesterov ? m * keep + g : m;
  const Shape shape = of.parameter.shape(), matrix{shape[0], numel(shape) / shape[0]};
  const bool tall = matrix[0] > matrix[1];
  u = reshape(u, matrix);
  u = orthogonal(tall ? transpose(u, 0, 1) : u, options);
  u = reshape(tall ? transpose(u, 0, 1) : u, shape);
  const Tensor lr = of.scalar("lr");
  return {of.p * (1.0 - lr * options.weight_decay) - lr * ratio(options, matrix) * u, m};
}
void check(const MuonOptions& options, const OptionChecks& checks) {
  checks.fraction("momentum", options.momentum), checks.above_0("eps", options.eps);
  checks.at_least_0("weight_decay", options.weight_decay), checks.clip(options.clip);
  checks.above_0("iterations", static_cast<double>(options.iterations));
}

std::vector<Parameter> matrices(const State& state, const AdamWOptions& others) {
  std::set<std::string> left_out;
  for (const Parameter& parameter : others.parameters) left_out.insert(parameter.fqn());
  std::vector<Parameter> out;
  for (const Parameter& parameter : state.parameters())
    if (parameter.shape().size() == 2 && !left_out.count(parameter.fqn())) out.push_back(parameter);
  return out;
}
}  // namespace

Muon::Muon(Scope at, MuonOptions options, AdamWOptions others, Here line)
    : RuleOptimizer(
          at,
          [&] {
            const OptionChecks checks("muon", line);
            check(options, checks);
            if (options.parameters.empty()) options.parameters = matrices(at.state(), others);
            const std::string here = str("[muon] ", line_of(line).text(), ": ");
            if (options.parameters.empty())
              throw UserError(str(here,
                                  "no parameter is left that is trained and has two dims; construct it "
                                  "after the model, or take AdamW, which needs no matrices"));
            for (const Parameter& parameter : options.parameters)
              if (parameter.shape().size() < 2)
                throw UserError(str(here, "\"", parameter.fqn(), "\" is ",
                                    shape_text(parameter.dtype(), parameter.shape()),
                                    ", and Muon makes matrices orthogonal; leave it to AdamW"));
            Rule out{.kind = "muon", .clip = options.clip};
            out.groups.push_back(rule_group(options, like_parameter({"momentum_buffer"}), muon));
            out.groups.push_back(adamw_group(others, OptionChecks("muon, adamw", line)));
            out.rest = 1;
            return out;
          }(),
          line) {}

}  // namespace lockstep
