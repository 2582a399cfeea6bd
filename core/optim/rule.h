// RuleOptimizer: what optimizers by element share. Each is a rule, from a parameter, its gradient and its
// moments to new ones, and the host scalars that the rule reads.
#pragma once

#include <array>
#include <functional>

#include "core/optim/optimizer.h"

namespace lockstep {

// What a rule sees of one parameter.
struct RuleInput {
  const Parameter& parameter;
  Tensor p, g;  // g as it came: times `scale` it is clipped
  std::vector<Tensor> moments;
  Tensor scale;                                           // f32 []
  std::function<Tensor(const std::string& name)> scalar;  // of the group, f32 []
  Here at;
  Tensor clipped() const;                      // g times scale
  double decay_of(double weight_decay) const;  // 0 for tensors of fewer than two dims
};

// Ranges of options, told as check_option tells them.
class OptionChecks {
 public:
  OptionChecks(std::string_view kind, Here line) : kind_(kind), at_(line_of(line)) {}
  void betas(const std::array<double, 2>& betas) const;      // each at least 0 and less than 1
  void fraction(std::string_view name, double value) const;  // at least 0 and less than 1
  void at_least_0(std::string_view name, double value) const;
  void above_0(std::string_view name, double value) const;
  void clip(double value) const;

 private:
  std::string kind_;
  SourceLine at_;
};

class RuleOptimizer : public Optimizer {
 public:
  void update(const Gradients& gradients, Here at = Here::current()) override;
  std::map<std::string, double> scalars(int64_t step) const override;

 protected:
  struct Rule {
    std::string kind;  // "lion", for messages
    std::vector<std::string> moments = {};
    double clip = 0;
    // Their parameters; an empty first group: all that are trained and in no other.
    std::vector<std::vector<Parameter>> groups = {};
    // Scalars of a group: "lr" and others. In the state they are PATH.NAME, of a group behind the first
    // PATH.NAME.INDEX.
    std::function<State::Scalars(size_t group, int64_t step)> scalars = {};
    // The new parameter, then the new moments.
    std::function<std::vector<Tensor>(size_t group, const RuleInput&)> step = {};
  };
  // Records moments for the parameters of the groups, and for no other. UserError: a parameter in two groups,
  // no parameters, a path that has an optimizer.
  RuleOptimizer(Scope at, Rule rule, Here line);

  // The rule of options with the fields lr, clip and parameters, first those of the rest, then of each group.
  template <class Options>
  static Rule rule_of(std::string kind, std::vector<std::string> moments, Options options,
                      std::vector<Options> groups, Here line,
                      void (*check)(const Options&, const OptionChecks&),
                      std::vector<Tensor> (*step)(const Options&, const RuleInput&),
                      State::Scalars (*scalars)(const Options&, int64_t step) = only_lr<Options>) {
    groups.insert(groups.begin(), std::move(options));
    const OptionChecks checks(kind, line);
    for (const Options& group : groups) check(group, checks), checks.clip(group.clip);
    Rule out{.kind = std::move(kind), .moments = std::move(moments), .clip = groups[0].clip};
    for (const Options& group : groups) out.groups.push_back(group.parameters);
    out.scalars = [groups, scalars](size_t group, int64_t at) { return scalars(groups[group], at); };
    out.step = [groups, step](size_t group, const RuleInput& of) { return step(groups[group], of); };
    return out;
  }
  template <class Options>
  static State::Scalars only_lr(const Options& options, int64_t step) {
    return {{"lr", options.lr.at(step)}};
  }

 private:
  Rule rule_;
  bool all_trained_ = false;                // the first group has whatever is in no other
  std::map<std::string, size_t> group_of_;  // by FQN
};

}  // namespace lockstep
