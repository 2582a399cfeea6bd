// Rewords messages about config keys to a program's options.
#pragma once

#include <string>

namespace lockstep {

// Replaces config keys in a sentence by option names: "train.steps" is "steps".
std::string in_options(std::string text);

// UserError if `folder`, named `what` by the program, cannot be a run's folder: "" and "/" would be the root
// of the file system, "~" needs a shell, and "gs://b" is an unsupported store.
void refuse_no_folder(const std::string& what, const std::string& folder);

}  // namespace lockstep
