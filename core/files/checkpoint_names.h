// Recognises the file and folder names that a save creates, so that cleanup never removes foreign files.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// Whether a checkpoint stores a file of this name in its step folder: the manifest, or a rank's file
// ("rank-3.safetensors", "rank-3.12.safetensors").
bool is_checkpoint_file(std::string_view name);

// Returns "step-5" for the name of a folder that was set aside while its successor took its name:
// "step-5.old", or "step-5.old.2" if a foreign file had the first name. Returns any other name unchanged.
std::string without_old(const std::string& name);

// Whether the name is step-N, or that of a step folder that is set aside (".old") or being written or removed
// (".tmp").
bool is_step_folder(const std::string& name);

}  // namespace lockstep
