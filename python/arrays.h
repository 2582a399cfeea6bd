// Arrays of NumPy, or of whoever speaks DLPack, as fields of a batch; the user's step function.
#pragma once

#include <nanobind/ndarray.h>

#include "python/binding.h"

namespace lockstep::python {

using HostArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

DType dtype_of(const nb::dlpack::dtype& of);  // UserError for one that no tensor has
Shape shape_of(const HostArray& array);
// Any value as a contiguous array of numbers that tensors have. UserError naming the field, what it is and
// the way out.
HostArray host_array(const std::string& field, nb::handle value);
// UserError naming the field unless the array has the shape, and numbers of the field's kind.
void check_array(const std::string& name, const HostArray& array, const Shape& shape, DType dtype);
// Elements, converted within their kind: int64 to i32, float64 to f32. UserError naming the field for a
// number that the dtype does not hold.
void copy_elements(const std::string& name, const void* from, DType from_dtype, void* to, DType to_dtype,
                   int64_t count);
// The first element of an array of integers that `to`, of integers, does not hold; -1: it holds all.
int64_t first_beyond(const HostArray& array, DType from, DType to);
// This rank's part of a tensor, copied; bf16 as the same numbers in float32.
nb::object numpy_of(const Array& array);
nb::object numpy_of(const void* data, DType dtype, const Shape& shape);
// NumPy's name of a dtype; bf16 is shown by its bits, "uint16".
const char* numpy_name(DType dtype);

using FieldTypes = std::vector<models::Field>;
// {"x": (f32, [20])}
FieldTypes field_types(nb::dict fields);
nb::dict dict_of(const FieldTypes& fields);
std::string words_of(const FieldTypes& fields);  // "x f32[20], label i32[]"
// One array for each field, in order or by name; `where`: in a message.
std::vector<HostArray> arrays_of(const char* where, const FieldTypes& fields, nb::args in_order,
                                 nb::kwargs by_name);

// A Python function of a micro-batch's tensors, in order, that returns the Loss. `called`: what a message
// names it.
compiler::StepFunction step_function(nb::callable function, const char* called = "the step function");

}  // namespace lockstep::python
