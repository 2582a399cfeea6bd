// Groups, moments and scalars of optimizers by element.
#include "core/optim/rule.h"

#include "core/base/error.h"
#include "core/ops/precision.h"

namespace lockstep {

namespace {
std::string scalar_name(const std::string& path, const std::string& name, size_t group) {
  return group == 0 ? path + "." + name : str(path, ".", name, ".", group);
}
State::Scalars named(const std::string& path, size_t groups,
                     const std::function<State::Scalars(size_t, int64_t)>& scalars, int64_t step) {
  State::Scalars out;
  for (size_t g = 0; g < groups; ++g)
    for (const auto& [name, value] : scalars(g, step)) out[scalar_name(path, name, g)] = value;
  return out;
}
}  // namespace

Tensor RuleInput::clipped() const { return g * scale; }
double RuleInput::decay_of(double weight_decay) const {
  return parameter.shape().size() < 2 ? 0.0 : weight_decay;
}

void OptionChecks::betas(const std::array<double, 2>& betas) const {
  for (double beta : betas) fraction("a beta", beta);
}
void OptionChecks::fraction(std::string_view name, double value) const {
  check_option(kind_, at_, name, value, value >= 0 && value < 1, "at least 0 and less than 1");
}
void OptionChecks::at_least_0(std::string_view name, double value) const {
  check_option(kind_, at_, name, value, value >= 0, "at least 0");
}
void OptionChecks::above_0(std::string_view name, double value) const {
  check_option(kind_, at_, name, value, value > 0, "above 0");
}
void OptionChecks::clip(double value) const {
  check_option(kind_, at_, "clip", value, value >= 0, "at least 0; 0 means no clipping");
}

RuleOptimizer::RuleOptimizer(Scope at, Rule rule, Here line)
    : Optimizer(at, line_of(line)), rule_(std::move(rule)) {
  auto fail = [&](const std::string& what) {
    throw UserError(str("[", rule_.kind, "] ", line_.text(), ": ", what));
  };
  for (size_t g = 0; g < rule_.groups.size(); ++g)
    for (const Parameter& parameter : rule_.groups[g])
      if (!group_of_.emplace(parameter.fqn(), g).second)
        fail(str("\"", parameter.fqn(), "\" is in two groups; pass each parameter once"));
  all_trained_ = rule_.groups.at(0).empty();
  if (all_trained_)
    for (const Parameter& parameter : state_->parameters())
      if (group_of_.emplace(parameter.fqn(), 0).second) rule_.groups[0].push_back(parameter);
  if (group_of_.empty()) fail("the state has no parameters; construct the optimizer after the model");
  state_->add_optimizer(path_, line_,
                        [path = path_, groups = rule_.groups.size(), scalars = rule_.scalars](int64_t step) {
                          return named(path, groups, scalars, step);
                        });
  for (const auto& group : rule_.groups)
    for (const Parameter& parameter : group)
      for (const std::string& name : rule_.moments) at.moment(parameter, name, line);
}

std::map<std::string, double> RuleOptimizer::scalars(int64_t step) const {
  return named(path_, rule_.groups.size(), rule_.scalars, step);
}

void RuleOptimizer::update(const Gradients& gradients, Here at) {
  const Tensor scale = begin(gradients, rule_.clip, at).scale;
  const Precision whole(scale, DType::f32);  // a policy is for the model
  for (size_t group = 0; group < rule_.groups.size(); ++group)
    for (const auto& [name, value] : rule_.scalars(group, 1))
      lockstep::scalar(scale, scalar_name(path_, name, group));
  for (size_t i = 0; i < gradients.values.size(); ++i) {
    const Parameter& parameter = gradients.parameters[i];
    const Tensor& g = gradients.values[i];
    const auto found = group_of_.find(parameter.fqn());
    if (found == group_of_.end() && all_trained_) moment(parameter, rule_.moments.at(0), g, at);  // refuses
    if (found == group_of_.end())
      throw UserError(str("[", rule_.kind, "] ", line_of(at).text(), ": \"", parameter.fqn(),
                          "\" is in no group of this optimizer (", line_.text(), ")"));
    const size_t group = found->second;
    RuleInput input{parameter,
                    parameter(g),
                    g,
                    {},
                    scale,
                    [&](const std::string& name) {
                      return lockstep::scalar(g, scalar_name(path_, name, group)); },
                    at};
    for (const std::string& name : rule_.moments) input.moments.push_back(moment(parameter, name, g, at));
    const std::vector<Tensor> made = rule_.step(group, input);
    LS_CHECK(made.size() == rule_.moments.size() + 1, rule_.kind, " makes ", made.size(), " tensors");
    replace(parameter, made[0], at);
    for (size_t m = 0; m < rule_.moments.size(); ++m) replace(parameter, rule_.moments[m], made[m + 1], at);
  }
}

}  // namespace lockstep
