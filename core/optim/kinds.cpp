// Rows of optimizers.
#include "core/optim/kinds.h"

#include "core/base/error.h"
#include "core/optim/adagrad.h"
#include "core/optim/adamw.h"
#include "core/optim/lion.h"
#include "core/optim/rmsprop.h"
#include "core/optim/sgd.h"

namespace lockstep {

namespace {
using Choice = OptimizerChoice;
using Made = std::unique_ptr<Optimizer>;
Made adamw(Scope at, const Choice& c) {
  return std::make_unique<AdamW>(
      at, AdamWOptions{
              .lr = c.lr, .betas = c.betas, .eps = c.eps, .weight_decay = c.weight_decay, .clip = c.clip});
}
Made sgd(Scope at, const Choice& c) {
  return std::make_unique<Sgd>(at, SgdOptions{.lr = c.lr,
                                              .momentum = c.momentum,
                                              .weight_decay = c.weight_decay,
                                              .clip = c.clip,
                                              .nesterov = c.nesterov});
}
Made lion(Scope at, const Choice& c) {
  return std::make_unique<Lion>(
      at, LionOptions{.lr = c.lr, .betas = c.betas, .weight_decay = c.weight_decay, .clip = c.clip});
}
Made rmsprop(Scope at, const Choice& c) {
  return std::make_unique<Rmsprop>(at, RmspropOptions{.lr = c.lr,
                                                      .alpha = c.alpha,
                                                      .eps = c.eps,
                                                      .momentum = c.momentum,
                                                      .weight_decay = c.weight_decay,
                                                      .clip = c.clip});
}
Made adagrad(Scope at, const Choice& c) {
  return std::make_unique<Adagrad>(
      at, AdagradOptions{.lr = c.lr, .eps = c.eps, .weight_decay = c.weight_decay, .clip = c.clip});
}
}  // namespace

std::span<const OptimizerKind> optimizer_kinds() {
  static const std::vector<OptimizerKind> rows{{"adamw", {"betas", "eps"}, adamw},
                                               {"sgd", {"momentum", "nesterov"}, sgd},
                                               {"lion", {"betas"}, lion},
                                               {"rmsprop", {"alpha", "eps", "momentum"}, rmsprop},
                                               {"adagrad", {"eps"}, adagrad}};
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
