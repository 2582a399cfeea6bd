// Fit: compares the stored and the wanted tensors by name, and reports all differences at once.
#pragma once

#include <string>
#include <vector>

#include "core/mesh/array.h"

namespace lockstep::checkpoint {

struct NamedType {
  std::string fqn;
  DType dtype = DType::f32;
  Shape shape;
  std::string other = {};  // for a file: the name of a dtype that Lockstep lacks (SafeTensor::other)
};
std::string type_text(const NamedType& type);  // "f32[2,3]", "I8[4]"
std::vector<NamedType> types_of(const std::vector<Array*>& arrays);

// "" when they agree; else the text of a UserError: a line for each of the first twelve missing, extra and
// mis-shaped tensors with both types and the nearest known name. `stored_where` and `wanted_where` name the
// two sides ("init.safetensors", "the model"). With `widening`, a stored float may be narrower; for a wider
// one, the text says how to convert it.
std::string misfit_text(const std::vector<NamedType>& stored, const std::string& stored_where,
                        const std::vector<NamedType>& wanted, const std::string& wanted_where, bool widening);

// True when every value of `from` is exactly a value of `to`, both floats, and they differ: bf16 or f16 to
// f32 or f64, f32 to f64.
bool widens(DType from, DType to);

}  // namespace lockstep::checkpoint
