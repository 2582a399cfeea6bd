// AdamW as nodes: one `adamw` per parameter.
#include "core/optim/adamw.h"

#include <cmath>

#include "core/base/error.h"

namespace lockstep {

namespace {
State::Scalars scalars_of(const std::string& path, const AdamWOptions& options, int64_t step) {
  auto bias = [&](double beta) { return 1.0 - std::pow(beta, static_cast<double>(step)); };
  return {{path + ".lr", options.lr.at(step)},
          {path + ".bias1", bias(options.betas[0])},
          {path + ".bias2", bias(options.betas[1])}};
}
}  // namespace

AdamW::AdamW(Scope at, AdamWOptions options, Here line) : Optimizer(at, line_of(line)), options_(options) {
  for (double beta : options.betas)
    check_option("adamw", line_, "a beta", beta, beta >= 0 && beta < 1, "at least 0 and less than 1");
  check_option("adamw", line_, "eps", options.eps, options.eps > 0, "above 0");
  check_option("adamw", line_, "weight_decay", options.weight_decay, options.weight_decay >= 0, "at least 0");
  check_option("adamw", line_, "clip", options.clip, options.clip >= 0, "at least 0; 0 means no clipping");
  auto parameters = state_->parameters();
  if (parameters.empty())
    throw UserError(str("[adamw] ", line_.text(),
                        ": the state has no parameters; construct the optimizer after the model"));
  state_->add_optimizer(path_, line_,
                        [path = path_, options](int64_t step) { return scalars_of(path, options, step); });
  for (const Parameter& parameter : parameters) {
    at.moment(parameter, "exp_avg", line);
    at.moment(parameter, "exp_avg_sq", line);
  }
}

std::map<std::string, double> AdamW::scalars(int64_t step) const { return scalars_of(path_, options_, step); }

void AdamW::update(const Gradients& gradients, Here at) {
  auto [lr, scale] = begin(gradients, options_.clip, at);
  Tensor bias1 = scalar(lr, path_ + ".bias1"), bias2 = scalar(lr, path_ + ".bias2");
  for (size_t i = 0; i < gradients.values.size(); ++i) {
    const Parameter& parameter = gradients.parameters[i];
    Tensor g = gradients.values[i];
    Attrs attrs{{"beta1", options_.betas[0]},
                {"beta2", options_.betas[1]},
                {"eps", options_.eps},
                {"weight_decay", parameter.shape().size() < 2 ? 0.0 : options_.weight_decay}};
    auto made = apply(ops::adamw,
                      {parameter(g), g, moment(parameter, "exp_avg", g, at),
                       moment(parameter, "exp_avg_sq", g, at), lr, bias1, bias2, scale},
                      attrs, at);
    replace(parameter, made[0], at);
    replace(parameter, "exp_avg", made[1], at);
    replace(parameter, "exp_avg_sq", made[2], at);
  }
}

}  // namespace lockstep
