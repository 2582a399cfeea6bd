// Weights by the rules of a family: from files of Hugging Face into arrays of ours, and back.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/tensor_files.h"
#include "launcher/hf/names.h"

namespace lockstep::launcher::hf {

// What is done with tensors that do not fit; patterns of their names, as glob_match has them.
struct Choices {
  std::vector<std::string> draw;   // missing ones that keep the values which the model was drawn with
  std::vector<std::string> leave;  // extra ones that are left out
};

// Fills the arrays, which are the parameters of a model of ours, of any layout. Collective. Returns what was
// not read as it is, one line each. UserError listing every missing, extra and mis-shaped tensor by their
// names, a tied tensor that is not the one it is tied to, or the first value that is NaN or infinite.
// Narrower floats are widened exactly.
std::vector<std::string> load_weights(const HfFamily& family, const std::string& path,
                                      const std::vector<Array*>& arrays, const LiveMesh& mesh,
                                      const Choices& choices = {});

// The bytes of a part of ours, as they are stored: rounded to `dtype` (to nearest even). `whole` is ours, of
// a mesh of one rank.
std::vector<std::byte> part_of(const Array& whole, const Part& part, DType dtype);

}  // namespace lockstep::launcher::hf
