// Names that a save gives: what is removed as its own, and what is left as somebody else's.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// What a checkpoint has in its step folder: the manifest and the files of ranks ("rank-3.safetensors",
// "rank-3.12.safetensors"), by their names.
bool is_checkpoint_file(std::string_view name);

// "step-5" of a folder that was set aside while its successor took the name: "step-5.old", and
// "step-5.old.2" where somebody else's file kept the first. Any other name as it is.
std::string without_old(const std::string& name);

// step-N, and those that are set aside, written or removed (".tmp").
bool is_step_folder(const std::string& name);

}  // namespace lockstep
