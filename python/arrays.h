// Arrays of NumPy, or of any library with DLPack, as fields of a batch; the user's step function.
#pragma once

#include <nanobind/ndarray.h>

#include <memory>

#include "python/binding.h"

namespace lockstep::python {

using HostArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

DType dtype_of(const nb::dlpack::dtype& of);  // throws UserError for one that no tensor has
Shape shape_of(const HostArray& array);
// Converts any value to a contiguous array of a dtype that tensors have. Throws UserError, naming the field,
// the value and the way out.
HostArray host_array(const std::string& field, nb::handle value);
// Throws UserError, naming the field, unless the array has the shape and a dtype of the field's kind.
void check_array(const std::string& name, const HostArray& array, const Shape& shape, DType dtype);
// For messages: the number of elements per row and the first row; size 0: there are no rows.
struct Rows {
  int64_t size = 0, first = 0;
};
// Copies elements and converts them within their kind: int64 to i32, float64 to f32. Throws UserError, naming
// the field and the row, for a number that the dtype cannot represent (integers: exactly).
void copy_elements(const std::string& name, const void* from, DType from_dtype, void* to, DType to_dtype,
                   int64_t count, Rows rows = {});
// A hash of the array's bytes: of all up to 1 GiB, else of 64 KiB at each of 16384 equidistant positions, as
// the text then states. The limit avoids reading a whole mapped file from disk; memory is hashed at about 5
// GB/s.
std::string fingerprint_of(const HostArray& array);
// The index of the first number of an int64 or float64 array that 32 bits of its kind cannot represent; -1:
// none.
int64_t first_beyond(const HostArray& array);
// Throws the UserErrors of copy_elements without copying.
void check_elements(const std::string& name, const HostArray& array, DType dtype);
// A copy of this rank's part of a tensor; bf16 as the same numbers in float32.
nb::object numpy_of(const Array& array);
nb::object numpy_of(const void* data, DType dtype, const Shape& shape);
// NumPy's name of a dtype; bf16 by its bits: "uint16".
const char* numpy_name(DType dtype);

int64_t checked_done(int64_t done, const char* of);  // throws UserError below 0

using FieldTypes = std::vector<models::Field>;
// {"x": (f32, [20])}
FieldTypes field_types(nb::dict fields);
nb::dict dict_of(const FieldTypes& fields);
std::string words_of(const FieldTypes& fields);  // "x f32[20], label i32[]"
// One array for each field, in order or by name; `where` is used in messages.
std::vector<HostArray> arrays_of(const char* where, const FieldTypes& fields, nb::args in_order,
                                 nb::kwargs by_name);

// Calls a user's function with a tensor per field. Parameters that have names of fields take those fields, in
// any order; a function without such names takes the fields in order. Throws UserError if a field's parameter
// is in another position while not all fields have a parameter of their name. `called` is the function's name
// in messages.
nb::object call_with_fields(const nb::callable& function, const std::vector<std::string>& fields,
                            const std::vector<Tensor>& batch, const char* called);
std::vector<std::string> names_of(const FieldTypes& fields);
// Throws UserError on all ranks if one rank passes other arrays to a step than the others. Collective.
void compare_batch(Group& world, const FieldTypes& fields, const std::vector<HostArray>& arrays);
// Warns why a step's update was skipped. Returns false, without a warning, for a step that has no update, and
// in fp16, whose loss scale causes such steps. Collective.
bool tell_not_applied(compiler::Step& step, const compiler::StepInput& input,
                      const compiler::StepResult& result, const State& state);
// A Python function that C++ may copy and release on any thread without the GIL.
std::shared_ptr<nb::callable> held(nb::callable function);
// A Python function of a micro-batch's tensors that returns the Loss.
compiler::StepFunction step_function(nb::callable function, const FieldTypes& fields,
                                     const char* called = "the step function");

}  // namespace lockstep::python
