// Builds the rows of the optimizers from the list in all.h.
#include "core/optim/kinds.h"

#include <algorithm>
#include <type_traits>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/optim/all.h"

namespace lockstep {

namespace {
using Choice = OptimizerChoice;
using Made = std::unique_ptr<Optimizer>;
using Fields = std::vector<std::string_view>;

// Fills the options of an optimizer from a config: each member from the field of the same name. `fields`
// receives the names of the fields that this kind reads besides lr, clip and weight_decay.
template <class Options>
Options options_of(const Choice& c, Fields& fields) {
  Options out{.lr = c.lr, .clip = c.clip};
  const auto take = [&](std::string_view field, auto& member, const auto& value) {
    member = value, fields.push_back(field);
  };
  if constexpr (requires { out.weight_decay; }) out.weight_decay = c.weight_decay;
  if constexpr (requires { out.betas; }) take("betas", out.betas, c.betas);
  if constexpr (requires { out.eps; }) take("eps", out.eps, c.eps);
  if constexpr (requires { out.moments; }) take("moments", out.moments, c.moments);
  if constexpr (requires { out.alpha; }) take("alpha", out.alpha, c.alpha);
  if constexpr (requires { out.momentum; }) take("momentum", out.momentum, c.momentum);
  if constexpr (requires { out.nesterov; }) take("nesterov", out.nesterov, c.nesterov);
  if constexpr (requires { out.beta2_decay; }) take("adafactor.beta2_decay", out.beta2_decay, c.beta2_decay);
  if constexpr (requires { out.eps2; }) take("adafactor.eps2", out.eps2, c.eps2);
  if constexpr (requires { out.d; }) take("adafactor.d", out.d, c.d);
  return out;
}

// Constructs an optimizer: with groups of parameters, whose options differ only where the config says so;
// with AdamW for parameters that it does not update; or only with its options.
template <class Kind, class Options>
struct Making {
  static constexpr bool grouped = std::is_constructible_v<Kind, Scope, Options, std::vector<Options>>;
  static Fields reads() {
    Fields out;
    options_of<Options>({}, out);
    if (grouped) out.push_back("groups");
    return out;
  }
  static Made make(Scope at, const Choice& c) {
    Fields unused;
    const auto options = options_of<Options>(c, unused);
    if constexpr (grouped) {
      std::vector<Options> groups;
      for (const Choice::Group& group : c.groups) {
        groups.push_back(options);
        groups.back().lr = group.lr;
        groups.back().weight_decay = group.weight_decay;
        groups.back().parameters = group.parameters;
      }
      return std::make_unique<Kind>(at, options, std::move(groups));
    } else if constexpr (std::is_constructible_v<Kind, Scope, Options, AdamWOptions>) {
      return std::make_unique<Kind>(at, options, options_of<AdamWOptions>(c, unused));
    } else {
      return std::make_unique<Kind>(at, options);
    }
  }
};

std::vector<Parameter> left_to_adamw(const State& state, const std::vector<std::string>& globs) {
  std::vector<Parameter> out;
  const std::vector<std::string> usual = no_hidden_matrices();
  std::vector<bool> names_one(globs.size());
  for (const Parameter& parameter : state.parameters()) {
    bool any = false;
    for (size_t g = 0; g < globs.size(); ++g)
      if (glob_match(globs[g], parameter.fqn())) any = names_one[g] = true;
    if (any) out.push_back(parameter);
  }
  for (size_t g = 0; g < globs.size(); ++g)
    if (!names_one[g] && std::find(usual.begin(), usual.end(), globs[g]) == usual.end())
      throw UserError(str("optim.muon.adamw names \"", globs[g],
                          "\", which matches no parameter that is trained; "
                          "trainrun plan lists them"));
  return out;
}
// Muon's matrices have separate keys; AdamW updates the other parameters.
template <>
struct Making<Muon, MuonOptions> {
  static Fields reads() {
    return {"betas",           "eps",       "moments",   "muon.lr", "muon.momentum", "muon.nesterov",
            "muon.iterations", "muon.rate", "muon.adamw"};
  }
  static Made make(Scope at, const Choice& c) {
    Fields unused;
    auto others = options_of<AdamWOptions>(c, unused);
    others.parameters = left_to_adamw(at.state(), c.muon_adamw);
    return std::make_unique<Muon>(
        at,
        MuonOptions{.lr = c.muon_lr,
                    .weight_decay = c.weight_decay,
                    .momentum = c.muon_momentum,
                    .nesterov = c.muon_nesterov,
                    .iterations = c.muon_iterations,
                    .rate = c.muon_rate == "original" ? MuonRate::original : MuonRate::match_rms_adamw,
                    .clip = c.clip},
        std::move(others));
  }
};
}  // namespace

std::span<const OptimizerKind> optimizer_kinds() {
#define LOCKSTEP_OPTIMIZER_ROW(name, kind, options) \
  {#name, Making<kind, options>::reads(), Making<kind, options>::make},
  static const std::vector<OptimizerKind> rows{LOCKSTEP_OPTIMIZERS(LOCKSTEP_OPTIMIZER_ROW)};
#undef LOCKSTEP_OPTIMIZER_ROW
  return rows;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> out;
  for (const OptimizerKind& kind : optimizer_kinds()) out.emplace_back(kind.name);
  return out;
}

const OptimizerKind& optimizer_kind(std::string_view name) {
  for (const OptimizerKind& kind : optimizer_kinds())
    if (kind.name == name) return kind;
  throw UserError(str("no optimizer is named \"", name, "\"; there are ", join(optimizer_names(), ", ")));
}

}  // namespace lockstep
