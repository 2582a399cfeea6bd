// RuleOptimizer: the base of optimizers that are a rule. A rule computes a new parameter and new moments from
// the old ones, the gradient and host scalars.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <set>

#include "core/nn/update_cohorts.h"
#include "core/optim/optimizer.h"
#include "core/optim/plateau.h"

namespace lockstep {

// The input of a rule for one parameter.
struct RuleInput {
  const Parameter& parameter;
  Tensor p, g;                                            // g is unclipped: multiply by `scale`
  std::vector<Tensor> moments;                            // f32, or f64 as p
  bool rounded;                                           // moments are kept in bf16
  Tensor scale;                                           // f32 []
  std::function<Tensor(const std::string& name)> scalar;  // of the group, f32 []
  Here at;
  Tensor clipped() const;                      // g times scale
  double decay_of(double weight_decay) const;  // 0 for tensors of fewer than two dims
};

// Checks the ranges of options; errors are those of check_option.
class OptionChecks {
 public:
  OptionChecks(std::string_view kind, Here line) : kind_(kind), at_(line_of(line)) {}
  void betas(const std::array<double, 2>& betas) const;      // each at least 0 and less than 1
  void fraction(std::string_view name, double value) const;  // at least 0 and less than 1
  void at_least_0(std::string_view name, double value) const;
  void above_0(std::string_view name, double value) const;
  void clip(double value) const;
  void moments(DType dtype) const;  // f32 or bf16
  void is(std::string_view name, double value, bool ok, std::string_view range) const;

 private:
  std::string kind_;
  SourceLine at_;
};

// Parameters with one rule. Element-wise parts of a rule are computed only for the rows that a rank owns. For
// parts that need a whole tensor (a matrix product, a sum) the inputs are gathered first, and every rank
// computes the same.
struct RuleGroup {
  struct Moment {
    std::string name;
    Shape shape;
  };
  std::vector<Parameter> parameters = {};
  std::function<std::vector<Moment>(const Parameter&)> moments = {};
  // "lr" and others, as a function of the step, which schedules count, and of the update of the group's
  // moments, both counted from 1. In the state they are PATH.NAME; from the second group on PATH.NAME.INDEX.
  std::function<State::Scalars(int64_t step, int64_t update)> scalars = {};
  // The new parameter, then the new moments.
  std::function<std::vector<Tensor>(const RuleInput&)> step = {};
  // For a sparse table: the same for a step's rows of the table, [n, width], and of moments [rows, ...].
  // Without it a sparse table is refused, with `all_rows` as the reason.
  std::function<std::vector<Tensor>(const RuleInput&)> rows = {};
  std::function<std::vector<Moment>(const Parameter&)> row_moments = {};  // empty: as `moments`
  std::string all_rows = {};
  // The dtype of moments. bf16: moments of dense f32 parameters are kept in bf16, rounded at random.
  DType kept = DType::f32;
  // Whether `step` is element-wise, over moments of the parameter's shape, and depends on the parameter's
  // shape only through decay_of. With rounding it is then one `update` node per parameter. Parameters of a
  // group with decay share its body, and so do those without.
  bool by_elements = false;
  bool rounds(const Parameter& parameter) const {
    return kept == DType::bf16 && parameter.dtype() == DType::f32 && !parameter.spec().sparse;
  }
  std::vector<Moment> moments_of(const Parameter& parameter) const {
    return parameter.spec().sparse && row_moments ? row_moments(parameter) : moments(parameter);
  }
};

template <class Options>
State::Scalars only_lr(const Options& options, int64_t step, int64_t /*update*/) {
  return {{"lr", options.lr.at(step)}};
}
// Moments of a parameter's own shape.
std::function<std::vector<RuleGroup::Moment>(const Parameter&)> like_parameter(
    std::vector<std::string> names);
// Makes a group from options with the fields lr and parameters.
template <class Options>
RuleGroup rule_group(const Options& options,
                     std::function<std::vector<RuleGroup::Moment>(const Parameter&)> moments,
                     std::vector<Tensor> (*step)(const Options&, const RuleInput&),
                     State::Scalars (*scalars)(const Options&, int64_t step,
                                               int64_t update) = only_lr<Options>) {
  RuleGroup out{options.parameters, std::move(moments),
                [options, scalars](int64_t step, int64_t update) { return scalars(options, step, update); },
                [options, step](const RuleInput& of) { return step(options, of); }};
  if constexpr (requires { options.moments; }) out.kept = options.moments;
  return out;
}

// The sparse tables of an optimizer for them: the given ones, or all of the state. Throws UserError if one is
// dense or there is none.
std::vector<Parameter> sparse_tables(const State& state, std::vector<Parameter> given, std::string_view kind,
                                     Here line);

class RuleOptimizer : public Optimizer {
 public:
  void update(const Gradients& gradients, Here at = Here::current()) override;
  std::map<std::string, double> scalars(int64_t step) const override;
  // Multiplies every rate of every group by the plateau's factor from now on.
  void follow(const Plateau& plateau) override;

 protected:
  struct Rule {
    std::string kind;  // "lion", for messages
    double clip = 0;
    std::vector<RuleGroup> groups = {};
    std::optional<size_t> rest = {};  // the group of all trained parameters in no other group
  };
  // Records moments for the parameters of the groups only. Throws UserError for a parameter in two groups, no
  // parameters, or a path that has an optimizer.
  RuleOptimizer(Scope at, Rule rule, Here line);

  // Makes an element-wise rule from options with the fields lr, clip and parameters: `options` for the rest,
  // then `groups`.
  template <class Options>
  static Rule rule_of(std::string kind, std::vector<std::string> moments, Options options,
                      std::vector<Options> groups, Here line,
                      void (*check)(const Options&, const OptionChecks&),
                      std::vector<Tensor> (*step)(const Options&, const RuleInput&),
                      State::Scalars (*scalars)(const Options&, int64_t step,
                                                int64_t update) = only_lr<Options>,
                      void (*by_rows)(const Options&, RuleGroup&) = nullptr) {
    groups.insert(groups.begin(), std::move(options));
    const OptionChecks checks(kind, line);
    Rule out{.kind = std::move(kind), .clip = groups[0].clip};
    for (const Options& group : groups) {
      check(group, checks), checks.clip(group.clip);
      out.groups.push_back(rule_group(group, like_parameter(moments), step, scalars));
      out.groups.back().by_elements = true;
      if (by_rows) by_rows(group, out.groups.back());
    }
    if (groups[0].parameters.empty()) out.rest = 0;
    return out;
  }

 private:
  using Cohorts = std::map<size_t, UpdateCohorts>;  // by group
  // The rule of a group with the rounding of its moments. The inputs of its node are the parameter, moments,
  // the gradient, the scale and the salt, and the group's `scalars`.
  struct RoundedStep {
    std::shared_ptr<const Graph> body;
    std::vector<std::string> scalars;
  };
  // The rounded steps of this update, by group and by whether the parameter decays.
  using RoundedSteps = std::map<std::pair<size_t, bool>, RoundedStep>;

  // `ids`: the row ids for a sparse table, else empty.
  void step(const Parameter& parameter, const Tensor& g, const Tensor& ids, const Tensor& scale,
            const Cohorts& cohorts, RoundedSteps& rounded, Here at) const;
  Cohorts cohorts_of(const std::vector<Parameter>& parameters) const;
  Parameter first_moment(const Parameter& parameter) const;  // empty if there is none
  std::string cohort_of(const Parameter& parameter, const std::string& name, size_t group,
                        const Cohorts& cohorts) const;
  std::vector<Tensor> rounded_step(const RuleInput& input, size_t group, RoundedSteps& rounded) const;
  // Runs the rule on moments converted to f32 and rounds the new ones.
  static std::vector<Tensor> with_rounding(const RuleGroup& group, RuleInput input, Tensor salt);
  RoundedStep trace_rounded(const RuleGroup& group, const RuleInput& input) const;
  void check_elements(const Graph& body) const;  // throws UserError for a node that is not element-wise
  void record_moments(const Scope& at) const;
  std::string salt_name() const { return path_ + ".rounding"; }
  Rule rule_;
  std::optional<Plateau> plateau_;
  std::map<std::string, size_t> group_of_;  // by FQN
  std::set<std::string> told_;              // unreached parameters that were reported
};

}  // namespace lockstep
