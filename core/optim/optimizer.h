// Optimizer: the base class of all optimizers. Construct it after the model; it records moments for every
// parameter of the state. Its path (`state / "optim"`) names its moments "optim.FQN.exp_avg", its host
// scalars "optim.lr" and, unless the path is "optim", its metric "PATH.grad_norm".
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/nn/state.h"
#include "core/optim/gradients.h"

namespace lockstep {

class Plateau;

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Appends the update of every parameter in `gradients` that the loss reaches, as outputs that replace the
  // state, and the metric "grad_norm" (before clipping). Called once while a step is traced. Throws UserError
  // if a parameter has no moments (it was recorded after the optimizer) or is updated twice in one step, or
  // if there are no gradients.
  virtual void update(const Gradients& gradients, Here at = Here::current()) = 0;
  // The host scalars of step `step`, counted from 1, if every earlier step was applied; otherwise see
  // State::scalars.
  virtual std::map<std::string, double> scalars(int64_t step) const = 0;
  // Multiplies every rate by the plateau's factor from now on. Throws UserError if the optimizer has no rate
  // of its own.
  virtual void follow(const Plateau& plateau);
  const std::string& path() const { return path_; }

 protected:
  // Throws UserError at the root of the state: an optimizer needs a path.
  Optimizer(const Scope& at, const SourceLine& line);

  // The first part of every update: the metric, and the scalars lr and scale (1 without clipping), both f32
  // [].
  struct Rates {
    Tensor lr, scale;
  };
  Rates begin(const Gradients& gradients, double clip, Here at) const;
  // The moment `name` of a parameter, in the graph of its gradient.
  Tensor moment(const Parameter& parameter, std::string_view name, const Tensor& beside, Here at) const;
  void replace(const Parameter& parameter, const Tensor& value, Here at) const;
  void replace(const Parameter& parameter, std::string_view name, const Tensor& moment, Here at) const;
  // Warns, once per parameter, of those that the loss does not reach and that are therefore not updated.
  // `told` collects the names that were reported.
  void tell_unreached(const std::set<std::string>& unreached, std::set<std::string>& told, Here at) const;
  std::string moment_fqn(const Parameter& parameter, std::string_view name) const {
    return path_ + "." + parameter.fqn() + "." + std::string(name);
  }

  State* state_;
  std::string path_;
  SourceLine line_;
};

// UserError "[KIND] LINE: NAME is VALUE; it must be RANGE" unless ok.
void check_option(std::string_view kind, const SourceLine& at, std::string_view name, double value, bool ok,
                  std::string_view range);

}  // namespace lockstep
