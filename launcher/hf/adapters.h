// Exports only the adapters of a run (train.lora), in PEFT's format.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/format/safetensors.h"
#include "core/base/json.h"
#include "core/nn/state.h"
#include "launcher/config/config.h"
#include "launcher/hf/family.h"
#include "launcher/hf/weights.h"

namespace lockstep::launcher::hf {

// Reads a whole tensor of the checkpoint.
using ReadTensor = std::function<Array(const std::string& fqn)>;

// A tensor to write, and a function that gives its bytes when needed.
struct Outgoing {
  checkpoint::SafeTensor header;
  std::function<std::vector<std::byte>()> bytes;
};
void write_tensors(const std::string& path, const std::vector<Outgoing>& tensors);

// PEFT's form of a run's adapters: the matrices under base_model.model.MODULE.lora_A and lora_B, all tensors
// of fully trained modules (train.lora.also), and adapter_config.json.
struct AdapterFiles {
  std::vector<Outgoing> tensors;
  Json config;
};
// UserError if a trained weight has no module in Hugging Face's model. `state`: of the config's model,
// recorded.
AdapterFiles adapter_files(const HfFamily& family, const RunConfig& config, const State& state, DType dtype,
                           const std::string& base, const ReadTensor& read);

}  // namespace lockstep::launcher::hf
