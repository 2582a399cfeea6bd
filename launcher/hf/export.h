// A checkpoint of a run, written as transformers or PEFT reads it.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

namespace lockstep::launcher::hf {

struct ExportRequest {
  std::string run;                   // runs/NAME, or NAME; runs/NAME/best; a step folder
  std::string folder;                // where it is written; not there yet, or empty
  int64_t step = -1;                 // of the checkpoint; -1: the newest, or the one that is named
  int64_t max_shard = 5000000000LL;  // bytes of tensors in a file; a larger tensor has a file of its own
  std::string dtype = "f32";         // f32, bf16 or f16: rounded to nearest even
  bool adapter = false;              // adapters alone, as PEFT reads them; else they are merged into weights
};
// Writes the tensors, an index where there are several files, config.json, generation_config.json, and the
// tokenizer files that the run, or the one that it began from, was imported with; or adapter_model.safetensors and adapter_config.json.
// UserError for a run without adapters where they are asked for, and for a run without such a checkpoint, a
// model that transformers has not, and a folder with files in it.
void export_run(const ExportRequest& request, std::ostream& out);

}  // namespace lockstep::launcher::hf
