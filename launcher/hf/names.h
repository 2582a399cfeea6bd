// Maps our tensors to the tensor names in Hugging Face's files.
#pragma once

#include <string>
#include <vector>

#include "core/types/shape.h"
#include "launcher/hf/family.h"

namespace lockstep::launcher::hf {

// A tensor of theirs that equals ours, or a part of it.
struct Part {
  std::string theirs;
  Shape shape;  // theirs
  How how = How::as_it_is;
  int part = 0, parts = 1;
};
// Their tensors that make up ours of this shape, in row order. InternalError if the table has no rule for the
// name.
std::vector<Part> parts_of(const HfFamily& family, const std::string& fqn, const Shape& shape);

// A file's name in the table's spelling: renames an older suffix, and adds the prefix if `bare` files lack it
// and `known` does not have the name without it.
std::string spelled(const HfFamily& family, const std::string& name, bool bare,
                    const std::vector<std::string>& known);

}  // namespace lockstep::launcher::hf
