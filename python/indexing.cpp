// x[1, :, None, ..., 2:-1:2] by select, slice and unsqueeze; indices that choose by values are refused.
#include <algorithm>

#include "python/binding.h"

namespace lockstep::python {

namespace {
// `beyond`: a slice's bound may be outside and is clamped.
int64_t index_of(nb::handle index, const char* what, bool beyond) {
  auto refuse = [&](const char* way) {
    throw UserError(str("[index] ", python_line().text(), ": ", what, " is ", shown(index),
                        "; a tensor is indexed by numbers, slices, None and ...; ", way));
  };
  const bool array = nb::hasattr(index, "__len__") || nb::hasattr(index, "dtype");
  nb::object number = PyIndex_Check(index.ptr()) && !PyBool_Check(index.ptr())
                          ? nb::steal(PyNumber_Index(index.ptr()))
                          : nb::object();
  PyErr_Clear();  // an array is not a number
  if (!number.is_valid()) {
    const std::string dtype =
        nb::hasattr(index, "dtype") ? nb::cast<std::string>(nb::str(nb::object(index.attr("dtype")))) : "";
    if (PyBool_Check(index.ptr()) || dtype.find("bool") != std::string::npos)
      refuse(
          "a mask would give a shape that follows from values: choose by where(mask, x, other), masked_fill, "
          "or mean_loss(values, mask)");
    refuse(array ? "choose elements by a tensor of ids with index_select, take or gather; ids that are known "
                   "now are ls.constant(x, [0, 1], ls.i32)"
                 : "choose elements by a tensor of ids with index_select, take or gather");
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow && !beyond) refuse("this one is outside of every tensor");
  return overflow < 0 ? INT64_MIN + 1 : overflow > 0 ? INT64_MAX : value;
}

}  // namespace

Tensor item(Tensor x, nb::handle key) {
  CallingLine line;
  nb::tuple parts = PyTuple_Check(key.ptr()) ? nb::borrow<nb::tuple>(key) : nb::make_tuple(key);
  int named = 0, dots = 0;
  for (nb::handle part : parts) {
    named += !part.is_none() && part.ptr() != Py_Ellipsis;
    dots += part.ptr() == Py_Ellipsis;
  }
  if (dots > 1)
    throw UserError(str("[index] ", python_line().text(), ": ... occurs ", dots, " times; write it once"));
  if (named > x.ndim())
    throw UserError(str("[index] ", python_line().text(), ": ", named, " indices of ", x.text()));
  int dim = 0;
  for (nb::handle part : parts) {
    if (part.is_none()) {
      x = unsqueeze(x, dim++);
    } else if (part.ptr() == Py_Ellipsis) {
      dim = x.ndim();
      bool behind = false;
      for (nb::handle other : parts) {
        if (behind && !other.is_none()) --dim;
        behind = behind || other.ptr() == Py_Ellipsis;
      }
    } else if (PySlice_Check(part.ptr())) {
      nb::object start = part.attr("start"), stop = part.attr("stop"), step = part.attr("step");
      const int64_t from = start.is_none() ? 0 : index_of(start, "the start of a slice", true),
                    to = stop.is_none() ? x.size(dim) : index_of(stop, "the end of a slice", true),
                    by = step.is_none() ? 1 : index_of(step, "the step of a slice", true);
      if (!start.is_none() || !stop.is_none() || !step.is_none())
        x = slice(x, dim, from, to, std::min(by, int64_t{1} << 40));  // beyond any size
      ++dim;
    } else {
      x = select(x, dim, index_of(part, "an index", false));
    }
  }
  return x;
}

}  // namespace lockstep::python
