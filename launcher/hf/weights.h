// Converts weights by a family's rules: from Hugging Face's files into our arrays, and back.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/tensor_files.h"
#include "launcher/hf/names.h"

namespace lockstep::launcher::hf {

// Handling of tensors that do not match; name patterns for glob_match.
struct Choices {
  std::vector<std::string> draw;   // missing ones that keep the model's initial values
  std::vector<std::string> leave;  // extra ones that are skipped
};

// Fills the arrays, which are the parameters of one of our models, in any layout. Collective. Returns
// deviations from the files, one line each. UserError listing every missing, extra and mis-shaped tensor by
// their names, a tied tensor that is not the one it is tied to, or the first value that is NaN or infinite.
// Narrower floats are widened exactly.
std::vector<std::string> load_weights(const HfFamily& family, const std::string& path,
                                      const std::vector<Array*>& arrays, const LiveMesh& mesh,
                                      const Choices& choices = {});

// The stored bytes of a part of our tensor, rounded to `dtype` (nearest even). `whole` is our tensor on a
// mesh of one rank.
std::vector<std::byte> part_of(const Array& whole, const Part& part, DType dtype);

}  // namespace lockstep::launcher::hf
