// Numbers in nodes: how an attribute carries one for a tensor of a dtype, and what is said where the dtype
// does not hold it.
#pragma once

#include <string>
#include <string_view>

#include "core/ir/graph.h"
#include "core/types/number.h"

namespace lockstep {

// The attribute of a number that fits the dtype: int64 for integers and bool (u64's by their bits), which is
// exact, and a double for floats.
Attr attr_of(const Number& number, DType dtype);
// The number that an attribute of a tensor of this dtype carries. AttrError where it is absent or no number.
Number number_of(const Attrs& attrs, std::string_view name, DType dtype);
// "300 beside u8[4]: u8 holds 0 to 255; convert the tensor ...": of a number that does not fit. Without a
// tensor it was to be made in this dtype.
std::string not_held(const Number& number, DType dtype, const std::string& tensor = {});

}  // namespace lockstep
