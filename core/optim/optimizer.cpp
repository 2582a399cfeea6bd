// Code that all optimizers share: norm, clipping, moments, outputs.
#include "core/optim/optimizer.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/nn/assign.h"
#include "core/nn/metric.h"
#include "core/optim/clip.h"

namespace lockstep {

void check_option(std::string_view kind, const SourceLine& at, std::string_view name, double value, bool ok,
                  std::string_view range) {
  if (!ok)
    throw UserError(
        str("[", kind, "] ", at.text(), ": ", name, " is ", number_text(value), "; it must be ", range));
}

Optimizer::Optimizer(const Scope& at, const SourceLine& line)
    : state_(&at.state()), path_(at.path()), line_(line) {
  if (path_.empty())
    throw UserError(
        str("[optimizer] ", line.text(), ": an optimizer needs a path of its own; pass state / \"optim\""));
}

void Optimizer::follow(const Plateau&) {
  throw UserError(
      str("[", path_, "] ", line_.text(),
          ": this optimizer follows no plateau; multiply its rate by Plateau::factor in its update"));
}

Optimizer::Rates Optimizer::begin(const Gradients& gradients, double clip, Here at) const {
  LS_CHECK(gradients.parameters.size() == gradients.values.size(), gradients.parameters.size(),
           " parameters, ", gradients.values.size(), " gradients");
  Tensor norm = global_norm(gradients, at);
  const std::string told = path_ == "optim" ? "grad_norm" : path_ + ".grad_norm";
  const Graph& graph = norm.builder()->graph;
  if (graph.find_output(told) != kNoValue && graph.find_input(path_ + ".lr") != kNoValue)
    throw UserError(str("[", path_, "] ", line_of(at).text(),
                        ": this optimizer is updated twice in one step; add the losses, a + b, and update "
                        "once, or make an optimizer for each part of the parameters"));
  metric(told, norm, at);
  return {scalar(norm, path_ + ".lr"),
          clip > 0 ? clip_scale(norm, clip, at) : full(norm, {}, 1.0, DType::f32, at)};
}

void Optimizer::tell_unreached(const std::set<std::string>& unreached, std::set<std::string>& told,
                               Here at) const {
  constexpr size_t kMost = 12;
  std::vector<std::string> names;
  for (const std::string& fqn : unreached)
    if (told.insert(fqn).second) names.push_back(fqn);
  if (names.empty() || state_->mesh().rank != 0) return;
  const size_t all = names.size();
  names.resize(std::min(all, kMost));
  const bool one = all == 1;
  logs::warn(
      str("[", path_, "] ", line_of(at).text(), ": the loss does not reach ", join(names, ", "),
          all > kMost ? str(", and ", all - kMost, " more") : std::string(), ": ",
          one ? "it has no gradient, and stays as it is" : "they have no gradient, and stay as they are",
          " (no decay, no moments); read ", one ? "it" : "them", " in what the loss is made of, or freeze ",
          one ? "it" : "them"));
}

Tensor Optimizer::moment(const Parameter& parameter, std::string_view name, const Tensor& beside,
                         Here at) const {
  Parameter found = state_->find_spec(moment_fqn(parameter, name));
  if (!found)
    throw UserError(str("[", path_, "] ", line_of(at).text(), ": the state has no \"",
                        moment_fqn(parameter, name), "\": \"", parameter.fqn(), "\" (",
                        parameter.spec().at.text(), ") was recorded after the optimizer (", line_.text(),
                        "); construct the optimizer after the model"));
  return found(beside);
}

void Optimizer::replace(const Parameter& parameter, const Tensor& value, Here at) const {
  if (value.builder()->graph.find_output(parameter.fqn()) != kNoValue)
    throw UserError(str("[", path_, "] ", line_of(at).text(), ": \"", parameter.fqn(),
                        "\" is updated twice in one step; pass each parameter to one update"));
  assign(parameter, value, at);
}

void Optimizer::replace(const Parameter& parameter, std::string_view name, const Tensor& moment,
                        Here at) const {
  Parameter found = state_->find_spec(moment_fqn(parameter, name));
  replace(found, moment, at);
}

}  // namespace lockstep
