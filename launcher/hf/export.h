// Exports a run's checkpoint in the format of transformers or PEFT.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

namespace lockstep::launcher::hf {

struct ExportRequest {
  std::string run;                   // runs/NAME, or NAME; runs/NAME/best; a step folder
  std::string folder;                // destination; must not exist or must be empty
  int64_t step = -1;                 // step of the checkpoint; -1: the newest, or the named one
  int64_t max_shard = 5000000000LL;  // bytes of tensors in a file; a larger tensor has a file of its own
  std::string dtype = "f32";         // f32, bf16 or f16: rounded to nearest even
  bool adapter = false;              // only the adapters, for PEFT; else they are merged into the weights
};
// Writes the tensors, an index for several files, config.json, generation_config.json, and the tokenizer files
// from the import of the run, or of the run that it began from; or adapter_model.safetensors and
// adapter_config.json. UserError when adapters are requested and the run has none, for a missing checkpoint, a
// model that transformers lacks, and a folder that is not empty.
void export_run(const ExportRequest& request, std::ostream& out);

}  // namespace lockstep::launcher::hf
