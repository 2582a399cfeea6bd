// Builds the model of a config, and selects its trained weights.
#include "launcher/trainer/model.h"

namespace lockstep::launcher {

models::Model build_model(const RunConfig& config, State& state) {
  models::Model model = models::build(state.root(), config.model.kind, model_options(config));
  const TrainConfig& train = config.train;
  if (!train.freeze.empty()) state.freeze(train.freeze, {"", 0, "train.freeze"});
  if (train.lora.rank > 0)
    state.lora({train.lora.rank, train.lora.alpha, train.lora.dropout, train.lora.targets, train.lora.also},
               {"", 0, "train.lora"});
  return model;
}

std::vector<Array*> weights_of(State& state) {
  std::vector<Array*> out;
  for (const auto& spec : state.specs())
    if (spec.role == Role::parameter && !spec.adapter) out.push_back(&state.array(spec.fqn));
  return out;
}

}  // namespace lockstep::launcher
