// A model on disk in Hugging Face's format: config.json, tensors, and accompanying files.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/json.h"

namespace lockstep::launcher::hf {

struct HfFolder {
  std::string folder;   // the folder of config.json and the tokenizer
  std::string tensors;  // the path for TensorFiles: the folder, a file or an index (transformers_weights)
  std::string config_path;
  Json config;
};
// `path`: a folder, or a safetensors file or index in one. nullopt when the folder has no config.json, or one
// without a model_type, which is not Hugging Face's. UserError when it is not valid JSON, when it is a link
// out of the folder, and for a folder with PEFT adapters, which are part of its model.
std::optional<HfFolder> open_folder(const std::string& path);

// Reads a config.json of Hugging Face. UserError naming `path` for invalid JSON, a duplicate key, or an
// exceeded limit of depth, members or bytes.
Json config_json(std::string_view text, const std::string& path);

// Names of accompanying files that a run stores and an export restores.
std::span<const std::string_view> carried_files();
// Copies those of them that exist in `from` to `to`, replacing files there. UserError naming the file that
// failed, and for one that is a link out of its folder (linked_away). For others: modes follow the umask.
enum class CarriedFor { owner, others };
void carry_files(const std::string& from, const std::string& to, CarriedFor whom = CarriedFor::owner);

// The folder of a run with the config.json and files of its import.
inline std::string carried_in(const std::string& run) { return run + "/hf"; }

}  // namespace lockstep::launcher::hf
