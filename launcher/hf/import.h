// Imports Hugging Face's weights as a run: its config, and a checkpoint of step 0.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "core/nn/state.h"
#include "launcher/config/config.h"
#include "launcher/hf/weights.h"

namespace lockstep::launcher::hf {

struct ImportRequest {
  std::string path;                 // a folder, or a safetensors file or index next to a config.json
  std::vector<Override> overrides;  // overrides of the run's config, including its name
  std::vector<std::string> accept;  // keys of config.json without a rule, declared harmless
  Choices choices;
};
// Writes runs/NAME: ckpt/step-0 with the weights and a fresh optimizer, config.json, and in hf/ the original
// config.json and tokenizer files. Prints to `out` differences in training and the next command. UserError
// when anything does not match the family's table, and when the run already has a checkpoint; nothing is
// written then.
void import_run(const ImportRequest& request, std::ostream& out);

// train.init_from: fills the allocated weights of a config's model from `path`: a run, its best folder, a
// step folder, or tensor files. Tensor files are read by the family's rules if their folder has a config.json
// of Hugging Face, else by FQN. Collective. UserError as load_weights and InitialWeights, and for a
// config.json that describes another model than the config.
void load_initial(const std::string& path, const RunConfig& config, State& state);

}  // namespace lockstep::launcher::hf
