// Shared parts of the binding: the user's Python line, and conversions in addition to nanobind's.
#pragma once

#include <signal.h>

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <variant>

#include "core/ops/caller_line.h"
#include "lockstep.h"

namespace lockstep::python {

namespace nb = nanobind;

// The innermost Python line outside the package, which nodes and messages name.
SourceLine python_line();
struct CallingLine : CallerLine {
  CallingLine() : CallerLine(python_line()) {}
};

// While an object lives, Ctrl-C does not interrupt this thread, which computes (see SignalsApart); afterwards
// raise_interrupt() raises a signal that came in the meantime.
class Computing {
 public:
  Computing();
  ~Computing();
  Computing(const Computing&) = delete;

 private:
  sigset_t before_{};
};
inline void raise_interrupt() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// A list of parameters; each keeps the Python object alive that owns its state.
inline nb::list held_parameters(const std::vector<Parameter>& parameters, nb::handle owner) {
  nb::list out;
  for (const Parameter& parameter : parameters) {
    nb::object made = nb::cast(parameter);
    nb::keep_alive_obj(made, owner);
    out.append(made);
  }
  return out;
}

// One number or several, as PyTorch takes dims, sizes and shapes.
struct Ints {
  std::vector<int64_t> values;
};

// A string as an enum value: "reflect".
template <class E>
struct WordCaster {
  explicit WordCaster(std::vector<std::pair<const char*, E>> known) : words(std::move(known)) {}
  using Value = E;
  template <class>
  using Cast = E;
  template <class>
  static constexpr bool can_cast() {
    return true;
  }
  bool from_python(nb::handle from, uint8_t, nb::detail::cleanup_list*) noexcept {
    if (!PyUnicode_Check(from.ptr())) return false;
    for (const auto& [word, of] : words)
      if (PyUnicode_CompareWithASCIIString(from.ptr(), word) == 0) return value = of, true;
    return false;
  }
  static nb::handle word_of(const std::vector<std::pair<const char*, E>>& known, E value) {
    for (const auto& [word, of] : known)
      if (of == value) return PyUnicode_FromString(word);
    return {};
  }
  explicit operator E() { return value; }
  std::vector<std::pair<const char*, E>> words;
  E value{};
};

// A rate from Python: a Schedule or a number, which becomes a Schedule in the call, so that its error names
// the owner.
struct Rate {
  std::variant<double, Schedule> given;
  Schedule of(const char* owner) const;  // UserError naming the owner and the user's line
};

// While an object lives, functions that create tensors may omit `beside`: the tensor belongs to the step that
// this thread traces.
class TracedStep {
 public:
  explicit TracedStep(const std::vector<Tensor>& beside);
  ~TracedStep();
  TracedStep(const TracedStep&) = delete;
  static const Tensor* innermost();  // null: none is traced

 private:
  bool any_;
};

// A function of the package's Python code, such as lockstep.calls.answer.
nb::object of_package(const char* module, const char* function);
void throw_if_ours(const nb::python_error& error);  // turns a Python UserError into one of C++
// Calls that function. Its UserError becomes one of C++, so that ranks can agree on it.
template <class... Arguments>
nb::object asked(const char* module, const char* function, const Arguments&... arguments) {
  try {
    return of_package(module, function)(arguments...);
  } catch (const nb::python_error& error) {
    throw_if_ours(error);
    throw;
  }
}
// "Linear", or "an array of float32[4,8]": a value in a message.
std::string shown(nb::handle value);

Tensor item(Tensor x, nb::handle key);  // x[key]

void bind_errors(nb::module_& m);
nb::class_<Tensor> bind_values(nb::module_& m);
void bind_loss(nb::module_& m);
void bind_options(nb::module_& m);
void bind_functions_a(nb::module_& m, nb::class_<Tensor>& tensor);
void bind_functions_b(nb::module_& m, nb::class_<Tensor>& tensor);
void bind_functions_c(nb::module_& m, nb::class_<Tensor>& tensor);
void bind_functions_d(nb::module_& m, nb::class_<Tensor>& tensor);
void bind_layers(nb::module_& m);
void bind_convolutions(nb::module_& m);
void bind_optimizer(nb::module_& m);  // the base class
void bind_optimizers(nb::module_& m);
void bind_models(nb::module_& m);
void bind_session(nb::module_& m);
void bind_steps(nb::module_& m);
void bind_checkpoints(nb::module_& m);
void bind_data(nb::module_& m);
void bind_forwards(nb::module_& m);
void answer_calls(nb::module_& m);  // call last, when everything is bound

}  // namespace lockstep::python

// A list of tensors; a tensor alone would be taken apart for its rows.
template <>
struct nanobind::detail::type_caster<std::vector<lockstep::Tensor>>
    : list_caster<std::vector<lockstep::Tensor>, lockstep::Tensor> {
  bool from_python(handle from, uint8_t flags, cleanup_list* cleanup) noexcept {
    return !isinstance<lockstep::Tensor>(from) && list_caster::from_python(from, flags, cleanup);
  }
};
template <>
struct nanobind::detail::type_caster<lockstep::python::Ints> {
  NB_TYPE_CASTER(lockstep::python::Ints, const_name("int | Sequence[int]"))
  bool from_python(handle from, uint8_t flags, cleanup_list* cleanup) noexcept {
    if (isinstance<lockstep::Tensor>(from)) return false;  // it would be iterated over
    make_caster<int64_t> one;
    if (one.from_python(from, flags, cleanup)) return value.values = {one.value}, true;
    make_caster<std::vector<int64_t>> several;
    if (!several.from_python(from, flags, cleanup)) return false;
    value.values = std::move(several.value);
    return true;
  }
  static handle from_cpp(const lockstep::python::Ints& ints, rv_policy policy,
                         cleanup_list* cleanup) noexcept {
    return make_caster<std::vector<int64_t>>::from_cpp(ints.values, policy, cleanup);
  }
};
template <>
struct nanobind::detail::type_caster<lockstep::python::Rate> {
  NB_TYPE_CASTER(lockstep::python::Rate, const_name("float | ") + make_caster<lockstep::Schedule>::Name)
  bool from_python(handle from, uint8_t flags, cleanup_list* cleanup) noexcept {
    if (isinstance<lockstep::Schedule>(from)) return value.given = *inst_ptr<lockstep::Schedule>(from), true;
    make_caster<double> number;
    if (PyBool_Check(from.ptr()) || !number.from_python(from, flags, cleanup)) return false;
    return value.given = number.value, true;
  }
};

// An int of any size, else a float. NumPy's scalars are one or the other.
template <>
struct nanobind::detail::type_caster<lockstep::Number> {
  NB_TYPE_CASTER(lockstep::Number, const_name("float"))
  bool from_python(handle from, uint8_t flags, cleanup_list*) noexcept {
    const bool converts = (flags & static_cast<uint8_t>(cast_flags::convert)) != 0;
    if (PyFloat_Check(from.ptr())) return value = PyFloat_AsDouble(from.ptr()), true;
    if (PyLong_Check(from.ptr())) return integer(from.ptr());
    if (!converts) return false;
    if (PyIndex_Check(from.ptr())) {
      PyObject* index = PyNumber_Index(from.ptr());
      if (index != nullptr) {
        const bool taken = integer(index);
        Py_DECREF(index);
        return taken;
      }
      PyErr_Clear();
    }
    const double real = PyFloat_AsDouble(from.ptr());
    if (PyErr_Occurred() != nullptr) return PyErr_Clear(), false;
    value = real;
    return true;
  }
  static handle from_cpp(const lockstep::Number& number, rv_policy, cleanup_list*) noexcept {
    if (!number.is_integer()) return PyFloat_FromDouble(number.real());
    return number.real() < 0 ? PyLong_FromLongLong(number.bits())
                             : PyLong_FromUnsignedLongLong(static_cast<uint64_t>(number.bits()));
  }

 private:
  bool integer(PyObject* from) noexcept {
    int beyond = 0;
    if (const int64_t whole = PyLong_AsLongLongAndOverflow(from, &beyond); beyond == 0)
      return value = whole, true;
    if (beyond > 0) {
      const uint64_t word = PyLong_AsUnsignedLongLong(from);
      if (PyErr_Occurred() == nullptr) return value = word, true;
      PyErr_Clear();
    }
    const double real = PyLong_AsDouble(from);
    if (PyErr_Occurred() != nullptr) return PyErr_Clear(), false;  // beyond every dtype
    value = lockstep::Number::beyond(real);
    return true;
  }
};
