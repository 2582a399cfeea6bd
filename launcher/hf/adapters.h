// Adapters of a run (train.lora) alone, as PEFT reads them.
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

// A tensor that is written, and what gives its bytes when it is its turn.
struct Outgoing {
  checkpoint::SafeTensor header;
  std::function<std::vector<std::byte>()> bytes;
};
void write_tensors(const std::string& path, const std::vector<Outgoing>& tensors);

// What PEFT reads of a run with adapters: the matrices under base_model.model.MODULE.lora_A and lora_B, and,
// of modules that are trained as a whole (train.lora.also), all that they hold; and adapter_config.json.
struct AdapterFiles {
  std::vector<Outgoing> tensors;
  Json config;
};
// UserError where a weight is trained that is no module of theirs. `state`: of the config's model, recorded.
AdapterFiles adapter_files(const HfFamily& family, const RunConfig& config, const State& state, DType dtype,
                           const std::string& base, const ReadTensor& read);

}  // namespace lockstep::launcher::hf
