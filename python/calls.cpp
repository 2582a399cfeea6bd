// Handles calls that no overload takes: lockstep/calls.py accepts PyTorch's spelling, or explains the error.
#include <unordered_map>

#include "python/binding.h"

namespace lockstep::python {

namespace {
struct Called {
  vectorcallfunc own;  // of nanobind
  std::string name;    // in messages; for a constructor and a layer's call the name of the class
};
std::unordered_map<PyObject*, Called>& known() {
  static auto* functions = new std::unordered_map<PyObject*, Called>;  // for the life of the process
  return *functions;
}

// nanobind calls functions, methods and constructors through this pointer, the first member after Python's
// object header. A module for one Python version gets its offset from the type; the stable ABI does not
// expose it.
vectorcallfunc& pointer_of(PyObject* function) {
  constexpr size_t offset = sizeof(PyVarObject);
#ifndef Py_LIMITED_API
  const Py_ssize_t told = Py_TYPE(function)->tp_vectorcall_offset;
  LS_CHECK(static_cast<size_t>(told) == offset, told);
#endif
  return *reinterpret_cast<vectorcallfunc*>(reinterpret_cast<char*>(function) + offset);
}

// Whether the current error is nanobind's error for arguments that do not convert; if so, clears it.
bool arguments_do_not_convert() {
  if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_RuntimeError)) return false;
  nb::python_error error;
  bool ours = false;
  if (nb::object text = nb::steal(PyObject_Str(error.value().ptr())); text.is_valid()) {
    Py_ssize_t length = 0;
    const char* utf8 = PyUnicode_AsUTF8AndSize(text.ptr(), &length);  // null: not nanobind's text
    const std::string said = utf8 ? std::string(utf8, static_cast<size_t>(length)) : "";
    ours = (error.type().is(PyExc_TypeError) &&
            said.find("(): incompatible function arguments. The following") != std::string::npos) ||
           (error.type().is(PyExc_RuntimeError) && said == "std::bad_cast");
  }
  PyErr_Clear();
  if (!ours) error.restore();
  return ours;
}

// Drops the traceback, whose frames are the package's and not the user's.
void leave_out_frames() {
  nb::python_error error;
  PyException_SetTraceback(error.value().ptr(), Py_None);
  error.restore();
}

// The number of positional arguments: the upper bits have flags of Python and nanobind.
Py_ssize_t in_order_of(size_t flags) { return static_cast<Py_ssize_t>(flags & 0xffffffff); }

PyObject* answer(PyObject* function, const std::string& name, const char* how, PyObject* const* arguments,
                 size_t flags, PyObject* names) noexcept {
  try {
    const Py_ssize_t in_order = in_order_of(flags);
    nb::list order;
    for (Py_ssize_t i = 0; i < in_order; ++i) order.append(nb::handle(arguments[i]));
    nb::dict by_name;
    for (Py_ssize_t i = 0; names && i < PyTuple_Size(names); ++i)
      by_name[nb::handle(PyTuple_GetItem(names, i))] = nb::handle(arguments[in_order + i]);
    return of_package("calls", how)(nb::handle(function), name, order, by_name).release().ptr();
  } catch (nb::python_error& error) { error.restore(); } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  leave_out_frames();
  return nullptr;
}

PyObject* call(PyObject* function, PyObject* const* arguments, size_t flags, PyObject* names) {
  const Called& called = known().find(function)->second;
  PyObject* out = called.own(function, arguments, flags, names);
  if (out == Py_NotImplemented && in_order_of(flags) == 2) {  // an operator
    Py_DECREF(out);
    return answer(function, called.name, "operand", arguments, flags, names);
  }
  if (out || !PyErr_Occurred() || !arguments_do_not_convert()) return out;
  return answer(function, called.name, "answer", arguments, flags, names);
}

void answer_for(nb::handle function, const std::string& name) {
  const std::string type = nb::cast<std::string>(function.type().attr("__name__"));
  if (type != "nb_func" && type != "nb_method") return;
  vectorcallfunc& pointer = pointer_of(function.ptr());
  if (known().try_emplace(function.ptr(), Called{pointer, name}).second) pointer = call;
}

nb::dict names_of(nb::handle scope) {
  return nb::cast<nb::dict>(nb::module_::import_("builtins").attr("dict")(scope.attr("__dict__")));
}
void answer_for_class(nb::handle type) {
  const std::string of = nb::cast<std::string>(type.attr("__name__"));
  for (auto [key, value] : names_of(type)) {
    const std::string name = nb::cast<std::string>(key);
    if (PyObject_TypeCheck(value.ptr(), &PyProperty_Type))
      answer_for(value.attr("fset"), name);
    else
      answer_for(value, name == "__init__" || name == "__call__" ? of : name);
  }
}
}  // namespace

nb::object of_package(const char* module, const char* function) {
  return nb::module_::import_((std::string("lockstep.") + module).c_str()).attr(function);
}
std::string shown(nb::handle value) { return nb::cast<std::string>(of_package("calls", "shown")(value)); }

void answer_calls(nb::module_& m) {
  for (nb::handle scope : {nb::handle(m), nb::handle(m.attr("init"))})
    for (auto [name, value] : names_of(scope))
      if (PyType_Check(value.ptr()))
        answer_for_class(value);
      else
        answer_for(value, nb::cast<std::string>(name));
  m.def("_line", [] { return python_line().text(); }, "The user's line, as in error messages.");
  m.def(
      "_traced",
      []() -> std::optional<Tensor> {
        const Tensor* traced = TracedStep::innermost();
        return traced ? std::optional(*traced) : std::nullopt;
      },
      "A tensor of the step that is traced on this thread, or None.");
}

}  // namespace lockstep::python
