// Numbers in attributes: conversion to and from an attribute of a dtype, and the error if the dtype cannot
// represent the number.
#pragma once

#include <string>
#include <string_view>

#include "core/ir/graph.h"
#include "core/types/number.h"

namespace lockstep {

// The attribute of a number that fits the dtype: int64 for integers and bool (u64's by their bits), which is
// exact, and a double for floats.
Attr attr_of(const Number& number, DType dtype);
// The number in an attribute for a tensor of this dtype. Throws AttrError if it is absent or not a number.
Number number_of(const Attrs& attrs, std::string_view name, DType dtype);
// The error for a number that does not fit: "300 with u8[4]: u8 holds 0 to 255; convert the tensor ...".
// Without a tensor the number itself was to have this dtype.
std::string not_held(const Number& number, DType dtype, const std::string& tensor = {});

}  // namespace lockstep
