// Arrays of NumPy, or of whoever speaks DLPack, as fields of a batch; the user's step function.
#pragma once

#include <nanobind/ndarray.h>

#include <memory>

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
// Which rows elements are of, for messages: so many elements each; 0: of no rows.
struct Rows {
  int64_t size = 0, first = 0;
};
// Elements, converted within their kind: int64 to i32, float64 to f32. UserError naming the field for a
// number that the dtype does not hold; of an integer exactly, with its row.
void copy_elements(const std::string& name, const void* from, DType from_dtype, void* to, DType to_dtype,
                   int64_t count, Rows rows = {});
// A hash of its bytes: of all up to 1 GiB, else of 64 KiB at 16384 places evenly apart, which the text says
// then. An array of a file would be read from the disk whole; one in memory is hashed at about 5 GB/s.
std::string fingerprint_of(const HostArray& array);
// The first number of an array of int64 or float64 that 32 bits of its kind do not hold; -1: they hold all.
int64_t first_beyond(const HostArray& array);
// UserError as of copy_elements, which copies nothing.
void check_elements(const std::string& name, const HostArray& array, DType dtype);
// This rank's part of a tensor, copied; bf16 as the same numbers in float32.
nb::object numpy_of(const Array& array);
nb::object numpy_of(const void* data, DType dtype, const Shape& shape);
// NumPy's name of a dtype; bf16 is shown by its bits, "uint16".
const char* numpy_name(DType dtype);

int64_t checked_done(int64_t done, const char* of);  // UserError below 0

using FieldTypes = std::vector<models::Field>;
// {"x": (f32, [20])}
FieldTypes field_types(nb::dict fields);
nb::dict dict_of(const FieldTypes& fields);
std::string words_of(const FieldTypes& fields);  // "x f32[20], label i32[]"
// One array for each field, in order or by name; `where`: in a message.
std::vector<HostArray> arrays_of(const char* where, const FieldTypes& fields, nb::args in_order,
                                 nb::kwargs by_name);

// Calls a function of the user's with a tensor per field. A parameter of a field's name takes that field, in
// whatever order they stand; a function that names none takes them in order. UserError where some of its
// parameters are named as fields that stand elsewhere, and others are not. `called`: what a message names it.
nb::object call_with_fields(const nb::callable& function, const std::vector<std::string>& fields,
                            const std::vector<Tensor>& batch, const char* called);
std::vector<std::string> names_of(const FieldTypes& fields);
// UserError on all ranks where one of them gives a step other arrays than the others. Collective.
void compare_batch(Group& world, const FieldTypes& fields, const std::vector<HostArray>& arrays);
// Warns why a step's update was not made; false where nothing is to be told: of a step that makes none, and
// in fp16, whose loss scale looks for such steps. Collective.
bool tell_not_applied(compiler::Step& step, const compiler::StepInput& input,
                      const compiler::StepResult& result, const State& state);
// A Python function as C++ copies it and lets it go: without the GIL, on any thread.
std::shared_ptr<nb::callable> held(nb::callable function);
// A Python function of a micro-batch's tensors that returns the Loss.
compiler::StepFunction step_function(nb::callable function, const FieldTypes& fields,
                                     const char* called = "the step function");

}  // namespace lockstep::python
