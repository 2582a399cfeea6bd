// The prelude: vector types and ls_* functions as text. Each translation unit gets the ones that it uses.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>

#include "core/types/dtype.h"

namespace lockstep::compiler::cpu {

struct PreludePart {
  std::string_view name;  // "ls_exp": the functions (overloads) that this text defines
  std::string_view text;
};
// Ordered so that every part follows the parts that it uses.
std::span<const PreludePart> prelude_parts();
std::span<const PreludePart> math_parts();
std::string_view prelude_types();  // typedefs and macros that every unit needs

// Types and the parts named in `source`, with all that they use.
std::string prelude_for(std::string_view source);

// Names of a dtype in generated text: the vector in a register ("vf"; bf16 and f16 compute in f32), the
// element in memory ("u16"), and the element of the register ("float").
std::string_view register_type(DType dtype);
std::string_view memory_type(DType dtype);
std::string_view lane_type(DType dtype);

}  // namespace lockstep::compiler::cpu
