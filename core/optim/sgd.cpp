// SGD as nodes: one `sgd` per parameter.
#include "core/optim/sgd.h"

#include "core/base/error.h"

namespace lockstep {

Sgd::Sgd(Scope at, SgdOptions options, Here line) : Optimizer(at, line_of(line)), options_(options) {
  check_option("sgd", line_, "momentum", options.momentum, options.momentum >= 0 && options.momentum < 1,
               "at least 0 and less than 1");
  check_option("sgd", line_, "weight_decay", options.weight_decay, options.weight_decay >= 0, "at least 0");
  check_option("sgd", line_, "clip", options.clip, options.clip >= 0, "at least 0; 0 means no clipping");
  auto parameters = state_->parameters();
  if (parameters.empty())
    throw UserError(str("[sgd] ", line_.text(),
                        ": the state has no parameters; construct the optimizer after the model"));
  state_->add_optimizer(path_, line_, [path = path_, lr = options.lr](int64_t step) {
    return State::Scalars{{path + ".lr", lr.at(step)}};
  });
  for (const Parameter& parameter : parameters) at.moment(parameter, "momentum", line);
}

std::map<std::string, double> Sgd::scalars(int64_t step) const {
  return {{path_ + ".lr", options_.lr.at(step)}};
}

void Sgd::update(const Gradients& gradients, Here at) {
  auto [lr, scale] = begin(gradients, options_.clip, at);
  for (size_t i = 0; i < gradients.values.size(); ++i) {
    const Parameter& parameter = gradients.parameters[i];
    Tensor g = gradients.values[i];
    Attrs attrs{{"momentum", options_.momentum},
                {"weight_decay", parameter.shape().size() < 2 ? 0.0 : options_.weight_decay}};
    auto made =
        apply(ops::sgd, {parameter(g), g, moment(parameter, "momentum", g, at), lr, scale}, attrs, at);
    replace(parameter, made[0], at);
    replace(parameter, "momentum", made[1], at);
  }
}

}  // namespace lockstep
