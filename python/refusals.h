// The last overload of a constructor: arguments that no other takes, answered with which one, its value, and
// what is taken.
#pragma once

#include "python/binding.h"

namespace lockstep::python {

// A parameter as Python has it.
struct TakenArgument {
  const char* name;
  bool needed, by_keyword;
  const char* what;  // "a number"
  bool (*fits)(nb::handle value);
};
using Signature = std::vector<TakenArgument>;

// UserError for arguments that fit none of the signatures.
[[noreturn]] void refuse_arguments(const std::string& name, const std::vector<Signature>& signatures,
                                   nb::args in_order, nb::kwargs by_name);

// False where it does not convert. A UserError of the conversion is thrown: it says more.
template <class T>
bool converts(nb::handle value) {
  if constexpr (std::is_same_v<T, Schedule>)  // nanobind drops what its constructor says of a number
    if (PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr()))
      return Schedule(nb::cast<double>(value)), true;
  try {
    (void)nb::cast<T>(value);
    return true;
  } catch (const std::bad_cast&) { return false; }
}
template <class T>
TakenArgument taken(const char* name, bool needed, bool by_keyword, const char* what) {
  return {name, needed, by_keyword, what, &converts<T>};
}

// An argument that only the second of nanobind's passes takes, in which others may convert theirs.
struct LastTry {};

template <class T, class... Base>
void refuse_others(nb::class_<T, Base...>& of, const std::string& name, std::vector<Signature> signatures) {
  of.def(
      "__init__",
      [name, signatures = std::move(signatures)](T*, nb::args in_order, LastTry, nb::kwargs by_name) {
        refuse_arguments(name, signatures, in_order, by_name);
      },
      nb::arg("args"), nb::arg("last_try").none() = nb::none(), nb::arg("kwargs"),
      nb::sig("def __init__(self, *args, **kwargs) -> None"));
}

}  // namespace lockstep::python

template <>
struct nanobind::detail::type_caster<lockstep::python::LastTry> {
  NB_TYPE_CASTER(lockstep::python::LastTry, const_name("None"))
  bool from_python(handle, uint8_t flags, cleanup_list*) noexcept {
    return (flags & static_cast<uint8_t>(cast_flags::convert)) != 0;
  }
  static handle from_cpp(const lockstep::python::LastTry&, rv_policy, cleanup_list*) noexcept {
    return none().release();
  }
};
