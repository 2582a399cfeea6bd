// Rows of optimizers.
#include "core/optim/kinds.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/optim/adafactor.h"
#include "core/optim/adagrad.h"
#include "core/optim/adamw.h"
#include "core/optim/lion.h"
#include "core/optim/muon.h"
#include "core/optim/rmsprop.h"
#include "core/optim/rowwise_adagrad.h"
#include "core/optim/sgd.h"
#include "core/optim/sparse_adam.h"

namespace lockstep {

namespace {
using Choice = OptimizerChoice;
using Made = std::unique_ptr<Optimizer>;
// The options of an optimizer, and those of its groups: the same but for what is their own.
template <class Kind, class Options>
Made grouped(Scope at, const Choice& c, const Options& options) {
  std::vector<Options> groups;
  for (const Choice::Group& group : c.groups) {
    groups.push_back(options);
    groups.back().lr = group.lr;
    groups.back().weight_decay = group.weight_decay;
    groups.back().parameters = group.parameters;
  }
  return std::make_unique<Kind>(at, options, std::move(groups));
}
Made adamw(Scope at, const Choice& c) {
  return grouped<AdamW>(
      at, c,
      AdamWOptions{
          .lr = c.lr, .betas = c.betas, .eps = c.eps, .weight_decay = c.weight_decay, .clip = c.clip});
}
Made sgd(Scope at, const Choice& c) {
  return grouped<Sgd>(at, c,
                      SgdOptions{.lr = c.lr,
                                 .momentum = c.momentum,
                                 .weight_decay = c.weight_decay,
                                 .clip = c.clip,
                                 .nesterov = c.nesterov});
}
Made lion(Scope at, const Choice& c) {
  return grouped<Lion>(
      at, c, LionOptions{.lr = c.lr, .betas = c.betas, .weight_decay = c.weight_decay, .clip = c.clip});
}
Made rmsprop(Scope at, const Choice& c) {
  return grouped<Rmsprop>(at, c,
                          RmspropOptions{.lr = c.lr,
                                         .alpha = c.alpha,
                                         .eps = c.eps,
                                         .momentum = c.momentum,
                                         .weight_decay = c.weight_decay,
                                         .clip = c.clip});
}
Made adagrad(Scope at, const Choice& c) {
  return grouped<Adagrad>(
      at, c, AdagradOptions{.lr = c.lr, .eps = c.eps, .weight_decay = c.weight_decay, .clip = c.clip});
}
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
Made muon(Scope at, const Choice& c) {
  return std::make_unique<Muon>(
      at,
      MuonOptions{.lr = c.muon_lr,
                  .weight_decay = c.weight_decay,
                  .momentum = c.muon_momentum,
                  .nesterov = c.muon_nesterov,
                  .iterations = c.muon_iterations,
                  .rate = c.muon_rate == "original" ? MuonRate::original : MuonRate::match_rms_adamw,
                  .clip = c.clip},
      AdamWOptions{.lr = c.lr,
                   .betas = c.betas,
                   .eps = c.eps,
                   .weight_decay = c.weight_decay,
                   .parameters = left_to_adamw(at.state(), c.muon_adamw)});
}
Made adafactor(Scope at, const Choice& c) {
  return grouped<Adafactor>(at, c,
                            AdafactorOptions{.lr = c.lr,
                                             .beta2_decay = c.beta2_decay,
                                             .eps2 = c.eps2,
                                             .d = c.d,
                                             .weight_decay = c.weight_decay,
                                             .clip = c.clip});
}
Made sparse_adam(Scope at, const Choice& c) {
  return std::make_unique<SparseAdam>(
      at, SparseAdamOptions{.lr = c.lr, .betas = c.betas, .eps = c.eps, .clip = c.clip},
      AdamWOptions{.lr = c.lr, .betas = c.betas, .eps = c.eps, .weight_decay = c.weight_decay});
}
Made rowwise_adagrad(Scope at, const Choice& c) {
  return std::make_unique<RowwiseAdagrad>(
      at, AdagradOptions{.lr = c.lr, .eps = c.eps, .weight_decay = c.weight_decay, .clip = c.clip});
}
}  // namespace

std::span<const OptimizerKind> optimizer_kinds() {
  static const std::vector<OptimizerKind> rows{
      {"adamw", {"betas", "eps", "groups"}, adamw},
      {"sgd", {"momentum", "nesterov", "groups"}, sgd},
      {"lion", {"betas", "groups"}, lion},
      {"rmsprop", {"alpha", "eps", "momentum", "groups"}, rmsprop},
      {"adagrad", {"eps", "groups"}, adagrad},
      {"sparse_adam", {"betas", "eps"}, sparse_adam},
      {"rowwise_adagrad", {"eps"}, rowwise_adagrad},
      {"muon",
       {"betas", "eps", "muon.lr", "muon.momentum", "muon.nesterov", "muon.iterations", "muon.rate",
        "muon.adamw"},
       muon},
      {"adafactor", {"adafactor.beta2_decay", "adafactor.eps2", "adafactor.d", "groups"}, adafactor}};
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
