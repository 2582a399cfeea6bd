// A run of Hugging Face's weights: its config, and a checkpoint of step 0.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "core/nn/state.h"
#include "launcher/config/config.h"
#include "launcher/hf/weights.h"

namespace lockstep::launcher::hf {

struct ImportRequest {
  std::string path;                 // a folder, or a safetensors file or an index beside a config.json
  std::vector<Override> overrides;  // of the run's config; one of them is its name
  std::vector<std::string> accept;  // keys of config.json that no rule knows and that change nothing
  Choices choices;
};
// Writes runs/NAME: ckpt/step-0 with weights and an optimizer that has not begun, config.json, and in hf/ the
// config.json and tokenizer files as they were. Says on `out` what training does otherwise, and what to type
// next. UserError where anything is not as the table of the family says, and where the run has a checkpoint
// already; nothing is written then.
void import_run(const ImportRequest& request, std::ostream& out);

// train.init_from: fills the weights of a config's model, which are allocated, from what `path` names: a run,
// its best folder, a step folder, or tensors by the rules where their folder has a config.json of Hugging
// Face, else by FQN. Collective. UserError as load_weights and InitialWeights, and for a config.json that
// describes another model than the config.
void load_initial(const std::string& path, const RunConfig& config, State& state);

}  // namespace lockstep::launcher::hf
