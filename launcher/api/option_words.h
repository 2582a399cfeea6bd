// What is said of a config's keys, in the words of a program's options.
#pragma once

#include <string>

namespace lockstep {

// A sentence about keys of a config, about options: "train.steps" is "steps".
std::string in_options(std::string text);

// UserError where `folder`, which the program names as `what`, is none to write a run into: "" and "/" would
// be the root of the file system, "~" is a shell's word, "gs://b" a store of another kind.
void refuse_no_folder(const std::string& what, const std::string& folder);

}  // namespace lockstep
