// A model in Hugging Face's format as it lies on the disk: config.json, tensors, and files that go along.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/json.h"

namespace lockstep::launcher::hf {

struct HfFolder {
  std::string folder;   // where config.json and the tokenizer lie
  std::string tensors;  // what TensorFiles opens: the folder, a file or an index (transformers_weights)
  std::string config_path;
  Json config;
};
// `path`: a folder, or a safetensors file or index in one. nullopt where the folder has no config.json, or
// one without a model_type, which is not Hugging Face's. UserError when it cannot be read as JSON, when it is
// a link out of the folder, and for a folder with adapters of PEFT, which its model computes with.
std::optional<HfFolder> open_folder(const std::string& path);

// A config.json of Hugging Face. UserError naming `path` for what is no JSON, has a key twice, or passes a
// bound of depth, members or bytes.
Json config_json(std::string_view text, const std::string& path);

// Names of files that a run keeps beside the weights, and that an export puts back.
std::span<const std::string_view> carried_files();
// Copies those of them that are in `from`, replacing what `to` has. UserError naming the file that failed,
// and for one that is a link out of its folder (linked_away). For others: modes follow the umask.
enum class CarriedFor { owner, others };
void carry_files(const std::string& from, const std::string& to, CarriedFor whom = CarriedFor::owner);

// Where a run keeps the config.json and the files of what it was imported from.
inline std::string carried_in(const std::string& run) { return run + "/hf"; }

}  // namespace lockstep::launcher::hf
