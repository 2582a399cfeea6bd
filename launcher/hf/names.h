// Names of tensors: what Hugging Face's file calls the parts of a tensor of ours.
#pragma once

#include <string>
#include <vector>

#include "core/types/shape.h"
#include "launcher/hf/family.h"

namespace lockstep::launcher::hf {

// A tensor of theirs that is ours, or a share of it.
struct Part {
  std::string theirs;
  Shape shape;  // theirs
  How how = How::as_it_is;
  int part = 0, parts = 1;
};
// The tensors that make up ours, of this shape, in the order of their rows. InternalError where the table has
// no rule for the name.
std::vector<Part> parts_of(const HfFamily& family, const std::string& fqn, const Shape& shape);

// A name in a file as the table spells it: an older end renamed, and the prefix put before it where `bare`
// files lack it and `known` does not have the name without one.
std::string spelled(const HfFamily& family, const std::string& name, bool bare,
                    const std::vector<std::string>& known);

}  // namespace lockstep::launcher::hf
