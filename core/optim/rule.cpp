// Groups, moments and scalars of optimizers by rule.
#include "core/optim/rule.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/ops/op.h"
#include "core/ops/precision.h"
#include "core/optim/rounded_moments.h"
#include "core/optim/unreached.h"
#include "core/table/updates.h"

namespace lockstep {

namespace {
std::string scalar_name(const std::string& path, const std::string& name, size_t group) {
  return group == 0 ? path + "." + name : str(path, ".", name, ".", group);
}
State::Scalars named(const std::string& path, const std::vector<RuleGroup>& groups, int64_t step,
                     int64_t update) {
  State::Scalars out;
  for (size_t g = 0; g < groups.size(); ++g)
    for (const auto& [name, value] : groups[g].scalars(step, update)) out[scalar_name(path, name, g)] = value;
  return out;
}
// The gradients of the weights that the loss reaches; all of them if it reaches none.
Gradients reached_of(const Gradients& all, const std::set<std::string>& none) {
  Gradients out;
  for (size_t i = 0; i < all.values.size(); ++i) {
    if (none.count(all.parameters[i].fqn())) continue;
    out.parameters.push_back(all.parameters[i]), out.values.push_back(all.values[i]);
    out.ids.push_back(all.is_sparse(i) ? all.ids[i] : Tensor());
  }
  return out.values.empty() ? all : out;
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
void OptionChecks::is(std::string_view name, double value, bool ok, std::string_view range) const {
  check_option(kind_, at_, name, value, ok, range);
}
void OptionChecks::clip(double value) const {
  check_option(kind_, at_, "clip", value, value >= 0, "at least 0; 0 means no clipping");
}
void OptionChecks::moments(DType dtype) const {
  if (dtype != DType::f32 && dtype != DType::bf16)
    throw UserError(str("[", kind_, "] ", at_.text(), ": moments is ", name(dtype), "; choose f32 or bf16"));
}

std::function<std::vector<RuleGroup::Moment>(const Parameter&)> like_parameter(
    std::vector<std::string> names) {
  return [names = std::move(names)](const Parameter& parameter) {
    std::vector<RuleGroup::Moment> out;
    for (const std::string& name : names) out.push_back({name, parameter.shape()});
    return out;
  };
}

// Assigns each parameter to its group; those in no group join `rest`. Then it registers the scalars and
// records the moments.
RuleOptimizer::RuleOptimizer(Scope at, Rule rule, Here line)
    : Optimizer(at, line_of(line)), rule_(std::move(rule)) {
  auto fail = [&](const std::string& what) {
    throw UserError(str("[", rule_.kind, "] ", line_.text(), ": ", what));
  };
  for (size_t g = 1; g < rule_.groups.size(); ++g)
    if (rule_.groups[g].parameters.empty() && rule_.rest != g)
      fail(str("group ", g, " of ", rule_.groups.size() - 1,
               " has no parameters; give it those that its options are for, or leave it out"));
  for (size_t g = 0; g < rule_.groups.size(); ++g)
    for (const Parameter& parameter : rule_.groups[g].parameters)
      if (!group_of_.emplace(parameter.fqn(), g).second)
        fail(str("\"", parameter.fqn(), "\" is in two groups; pass each parameter once"));
  if (rule_.rest)
    for (const Parameter& parameter : state_->parameters())
      if (group_of_.emplace(parameter.fqn(), *rule_.rest).second)
        rule_.groups[*rule_.rest].parameters.push_back(parameter);
  if (group_of_.empty()) fail("the state has no parameters; construct the optimizer after the model");
  const bool rounds = std::any_of(rule_.groups.begin(), rule_.groups.end(),
                                  [](const RuleGroup& group) { return group.kept == DType::bf16; });
  const std::string salt = rounds ? salt_name() : "";
  state_->add_optimizer(path_, line_,
                        [path = path_, groups = rule_.groups, salt](int64_t step, int64_t update) {
                          State::Scalars out = named(path, groups, step, update);
                          if (!salt.empty()) out[salt] = rounding_salt(step);
                          return out;
                        });
  record_moments(at);
}

void RuleOptimizer::record_moments(const Scope& at) const {
  for (const RuleGroup& group : rule_.groups)
    for (const Parameter& parameter : group.parameters) {
      const bool sparse = parameter.spec().sparse;
      if (sparse && !group.rows)
        throw UserError(
            str("[", rule_.kind, "] ", line_.text(), ": \"", parameter.fqn(), "\" (",
                parameter.spec().at.text(), ") is sparse, and ",
                group.all_rows.empty() ? rule_.kind + " updates every row of a table in each step"
                                       : group.all_rows,
                "; take sparse_adam, rowwise_adagrad, adagrad without weight decay or sgd without "
                "momentum and weight decay, or make the table dense"));
      for (const auto& [name, shape] : group.moments_of(parameter)) {
        Spec spec{str(at.path(), ".", parameter.fqn(), ".", name),
                  group.rounds(parameter) ? DType::bf16 : parameter.dtype(),
                  shape,
                  init::zeros(),
                  Role::moment,
                  false,
                  parameter.fqn(),
                  line_};
        spec.sparse = sparse;
        state_->record(std::move(spec));
      }
    }
}

std::vector<Parameter> sparse_tables(const State& state, std::vector<Parameter> given, std::string_view kind,
                                     Here line) {
  const std::string here = str("[", kind, "] ", line_of(line).text(), ": ");
  for (const Parameter& parameter : given)
    if (!parameter.spec().sparse)
      throw UserError(str(here, "\"", parameter.fqn(), "\" is dense, and ", kind,
                          " updates sparse tables; record it as one, or leave it out"));
  if (given.empty())
    for (const Parameter& parameter : state.parameters())
      if (parameter.spec().sparse) given.push_back(parameter);
  if (given.empty())
    throw UserError(str(here,
                        "the state has no sparse table; make one sparse, and construct the optimizer "
                        "after the model, or take an optimizer of dense tensors"));
  return given;
}

std::map<std::string, double> RuleOptimizer::scalars(int64_t step) const {
  return named(path_, rule_.groups, step, step);
}

void RuleOptimizer::follow(const Plateau& plateau) {
  plateau_ = plateau;
  state_->follow(path_, plateau.factor_name());
}

// Appends the metric and the clipping factor first, then the step of each parameter that the loss reaches.
// All scalars are read once in front, so that their order does not depend on the parameters.
void RuleOptimizer::update(const Gradients& given, Here at) {
  const std::set<std::string> none = unreached(given);
  const Gradients gradients = reached_of(given, none);
  tell_unreached(none, told_, at);
  const Tensor scale = begin(gradients, rule_.clip, at).scale;
  const Precision f32(scale, DType::f32);  // a policy is for the model
  for (const auto& [name, value] : named(path_, rule_.groups, 1, 1)) lockstep::scalar(scale, name);
  const Cohorts cohorts = cohorts_of(gradients.parameters);
  RoundedSteps rounded;
  for (size_t i = 0; i < gradients.values.size(); ++i)
    if (!none.count(gradients.parameters[i].fqn()))
      step(gradients.parameters[i], gradients.values[i], gradients.is_sparse(i) ? gradients.ids[i] : Tensor(),
           scale, cohorts, rounded, at);
}

// Parameters without a moment have no update count.
RuleOptimizer::Cohorts RuleOptimizer::cohorts_of(const std::vector<Parameter>& parameters) const {
  Cohorts out;
  for (const Parameter& parameter : parameters)
    if (const Parameter first = first_moment(parameter))
      out[group_of_.at(parameter.fqn())].add(first, *state_);
  return out;
}
Parameter RuleOptimizer::first_moment(const Parameter& parameter) const {
  const auto found = group_of_.find(parameter.fqn());
  if (found == group_of_.end()) return {};
  const auto moments = rule_.groups[found->second].moments_of(parameter);
  return moments.empty() ? Parameter() : state_->find_spec(moment_fqn(parameter, moments[0].name));
}
// The suffix of a scalar's name; "" if the parameter shares the scalar with the others.
std::string RuleOptimizer::cohort_of(const Parameter& parameter, const std::string& name, size_t group,
                                     const Cohorts& cohorts) const {
  const Parameter first = first_moment(parameter);
  const auto found = cohorts.find(group);
  if (!first || found == cohorts.end()) return "";
  const auto of = [&](int64_t updates) { return rule_.groups[group].scalars(1, updates + 1).at(name); };
  const int64_t mine = found->second.updates(first), most = found->second.most();
  return mine == most || of(mine) == of(most) ? "" : found->second.suffix(first);
}

void RuleOptimizer::step(const Parameter& parameter, const Tensor& g, const Tensor& ids, const Tensor& scale,
                         const Cohorts& cohorts, RoundedSteps& rounded, Here at) const {
  const auto found = group_of_.find(parameter.fqn());
  if (found == group_of_.end() && rule_.rest)
    moment(parameter, rule_.groups[*rule_.rest].moments(parameter).at(0).name, g, at);  // refuses
  if (found == group_of_.end())
    throw UserError(str("[", rule_.kind, "] ", line_of(at).text(), ": \"", parameter.fqn(),
                        "\" is in no group of this optimizer (", line_.text(), ")"));
  const size_t index = found->second;
  const RuleGroup& group = rule_.groups[index];
  if (parameter.spec().sparse != ids.defined())
    throw UserError(
        str("[", rule_.kind, "] ", line_of(at).text(), ": \"", parameter.fqn(), "\" is ",
            ids.defined() ? "dense, and its gradient has ids" : "sparse, and its gradient has no ids",
            "; pass parameters, values and ids as grad() gives them"));
  auto rows_of = [&](const Tensor& whole) { return ids.defined() ? take(whole, ids, at) : whole; };
  auto with_rows = [&](const Tensor& whole, const Tensor& made) {
    return ids.defined() ? apply1(ops::put_rows, {whole, ids, made}, {}, at) : made;
  };
  RuleInput input{parameter, rows_of(parameter(g)), g, {}, group.rounds(parameter), scale, {}, at};
  input.scalar = [&](const std::string& name) {
    const std::string cohort = cohort_of(parameter, name, index, cohorts);
    const Tensor value = lockstep::scalar(g, scalar_name(path_, name, index) + cohort);
    return plateau_ && name == "lr" ? value * plateau_->factor(g) : value;
  };
  const auto moments = group.moments_of(parameter);
  for (const auto& one : moments) input.moments.push_back(rows_of(moment(parameter, one.name, g, at)));
  std::vector<Tensor> made;
  if (input.rounded && group.by_elements && input.p.ndim() > 0)
    made = rounded_step(input, index, rounded);
  else if (input.rounded)
    made = with_rounding(group, input, lockstep::scalar(g, salt_name()));
  else
    made = (ids.defined() ? group.rows : group.step)(input);
  LS_CHECK(made.size() == moments.size() + 1, rule_.kind, " makes ", made.size(), " tensors");
  replace(parameter, with_rows(parameter(g), made[0]), at);
  for (size_t m = 0; m < moments.size(); ++m)
    replace(parameter, moments[m].name, with_rows(moment(parameter, moments[m].name, g, at), made[m + 1]),
            at);
}

std::vector<Tensor> RuleOptimizer::with_rounding(const RuleGroup& group, RuleInput input, Tensor salt) {
  for (Tensor& moment : input.moments) moment = convert(moment, DType::f32, input.at);
  std::vector<Tensor> made = group.step(input);
  for (size_t m = 1; m < made.size(); ++m) made[m] = round_at_random(made[m], input.g, salt, input.at);
  return made;
}

std::vector<Tensor> RuleOptimizer::rounded_step(const RuleInput& input, size_t group,
                                                RoundedSteps& rounded) const {
  auto [found, fresh] = rounded.try_emplace({group, input.decay_of(1) != 0});
  if (fresh) found->second = trace_rounded(rule_.groups[group], input);
  std::vector<Tensor> in{input.p};
  in.insert(in.end(), input.moments.begin(), input.moments.end());
  in.insert(in.end(), {input.g, input.scale, lockstep::scalar(input.g, salt_name())});
  for (const std::string& name : found->second.scalars) in.push_back(input.scalar(name));
  std::vector<int64_t> replaces(input.moments.size() + 1);
  std::iota(replaces.begin(), replaces.end(), 0);
  return apply_update(in, replaces, found->second.body, source_line(*input.g.builder(), input.at));
}

RuleOptimizer::RoundedStep RuleOptimizer::trace_rounded(const RuleGroup& group,
                                                        const RuleInput& input) const {
  RoundedStep out;
  auto builder = std::make_shared<Builder>();
  Graph& body = builder->graph;
  auto tensor = [&](const std::string& name, DType dtype) {
    return Tensor(builder, body.add_input(InputKind::value, name, dtype, {kUpdateElements}));
  };
  auto scalar = [&](const std::string& name) {
    return Tensor(builder, body.add_input(InputKind::scalar, name, DType::f32, {}));
  };
  RuleInput element = input;
  element.p = tensor("parameter", DType::f32);
  element.moments.clear();
  for (size_t m = 0; m < input.moments.size(); ++m)
    element.moments.push_back(tensor(str("moment", m), DType::bf16));
  element.g = tensor("gradient", DType::f32);
  element.scale = scalar("scale");
  const Tensor salt = scalar("salt");
  element.scalar = [&](const std::string& name) {
    const std::string own = "of_group." + name;
    if (const ValueId known = body.find_input(own); known != kNoValue) return Tensor(builder, known);
    out.scalars.push_back(name);
    return scalar(own);
  };
  const std::vector<Tensor> made = with_rounding(group, element, salt);
  for (size_t o = 0; o < made.size(); ++o) body.add_output(OutputKind::value, str("out", o), made[o].id());
  check_elements(body);
  out.body = std::make_shared<const Graph>(body);
  return out;
}

void RuleOptimizer::check_elements(const Graph& body) const {
  for (const Node& node : body.nodes) {
    const bool of_scalar = !node.inputs.empty() && body[node.inputs[0]].shape.empty();
    if (op_row(node.op).kind == OpKind::pointwise || node.op == ops::full ||
        (node.op == ops::broadcast && of_scalar))
      continue;
    throw UserError(str("[", rule_.kind, "] ", line_.text(), ": the rule is said to be by_elements, and its ",
                        node.op, " is not element by element; leave RuleGroup::by_elements false"));
  }
}

}  // namespace lockstep
