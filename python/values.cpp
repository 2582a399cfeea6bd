// Binds what models are written with: Tensor and its operators, state and parameters, initial values,
// gradients, schedules, and guards as context managers.
#include "python/binding.h"

namespace lockstep::python {

namespace {
using TensorClass = nb::class_<Tensor>;

nb::tuple shape_tuple(const Shape& shape) { return nb::tuple(nb::cast(shape)); }

// x + y, x + 2 and 2 + x of one operator.
template <class Operator>
void bind_operator(TensorClass& tensor, const std::string& name, Operator of) {
  tensor.def(("__" + name + "__").c_str(),
             [of](const Tensor& a, const Tensor& b) {
               CallingLine line;
               return of(TensorAt(a), b);
             },
             nb::is_operator());
  tensor.def(("__" + name + "__").c_str(),
             [of](const Tensor& a, const Number& b) {
               CallingLine line;
               return of(TensorAt(a), b);
             },
             nb::is_operator());
}
template <class Operator>
void bind_reversed(TensorClass& tensor, const std::string& name, Operator of) {
  tensor.def(("__r" + name + "__").c_str(),
             [of](const Tensor& b, const Number& a) {
               CallingLine line;
               return of(a, TensorAt(b));
             },
             nb::is_operator());
}
// One of two tensors.
template <class Function>
void bind_pair(TensorClass& tensor, const char* name, Function of) {
  tensor.def(
      name,
      [of](const Tensor& a, const Tensor& b) {
        CallingLine line;
        return of(a, b);
      },
      nb::is_operator());
}
template <class Function>
void bind_one(TensorClass& tensor, const char* name, Function of) {
  tensor.def(name, [of](const Tensor& a) {
    CallingLine line;
    return of(a);
  });
}
// x / 255 on integer images would need fractions, so it is refused; / of two tensors is C++'s division.
void refuse_quotient(const Tensor& x) {
  if (is_integer(x.dtype()))
    throw UserError(
        str("[div] ", python_line().text(), ": ", x.text(),
            " and a number have a quotient with a fraction, which ", name(x.dtype()),
            " does not hold; convert the tensor, x.to(f32) / 255, or take the whole number below, x // 255"));
}

void bind_arithmetic(TensorClass& t) {
  bind_operator(t, "add", [](auto a, auto b) { return a + b; });
  bind_operator(t, "sub", [](auto a, auto b) { return a - b; });
  bind_operator(t, "mul", [](auto a, auto b) { return a * b; });
  bind_operator(t, "truediv", [](auto a, auto b) {
    if constexpr (std::is_same_v<decltype(b), Number>) refuse_quotient(a.tensor);
    return a / b;
  });
  bind_operator(t, "mod", [](auto a, auto b) { return a % b; });
  bind_operator(t, "floordiv", [](auto a, auto b) { return floor_divide(a.tensor, b, a.at); });
  bind_operator(t, "and", [](auto a, auto b) { return a & b; });
  bind_operator(t, "or", [](auto a, auto b) { return a | b; });
  bind_operator(t, "xor", [](auto a, auto b) { return a ^ b; });
  bind_operator(t, "lshift", [](auto a, auto b) { return bitwise_left_shift(a.tensor, b, a.at); });
  bind_operator(t, "rshift", [](auto a, auto b) { return bitwise_right_shift(a.tensor, b, a.at); });
  bind_reversed(t, "add", [](auto a, auto b) { return a + b; });
  bind_reversed(t, "sub", [](auto a, auto b) { return a - b; });
  bind_reversed(t, "mul", [](auto a, auto b) { return a * b; });
  bind_reversed(t, "truediv", [](auto a, auto b) {
    refuse_quotient(b.tensor);
    return a / b;
  });
  bind_reversed(t, "mod", [](auto a, auto b) { return a % b; });
  bind_reversed(t, "floordiv", [](auto a, auto b) { return floor_divide(a, b.tensor, b.at); });
  bind_reversed(t, "and", [](auto a, auto b) { return b & a; });
  bind_reversed(t, "or", [](auto a, auto b) { return b | a; });
  bind_reversed(t, "xor", [](auto a, auto b) { return b ^ a; });
  bind_operator(t, "eq", [](auto a, auto b) { return a == b; });
  bind_operator(t, "ne", [](auto a, auto b) { return a != b; });
  bind_operator(t, "lt", [](auto a, auto b) { return a < b; });
  bind_operator(t, "le", [](auto a, auto b) { return a <= b; });
  bind_operator(t, "gt", [](auto a, auto b) { return a > b; });
  bind_operator(t, "ge", [](auto a, auto b) { return a >= b; });
  bind_pair(t, "__matmul__", [](const Tensor& a, const Tensor& b) { return matmul(a, b); });
  bind_pair(t, "__pow__", [](const Tensor& a, const Tensor& b) { return pow(a, b); });
  t.def(
      "__pow__",
      [](const Tensor& a, const Number& b) {
        CallingLine line;
        return pow(a, b);
      },
      nb::is_operator());
  t.def(
      "__rpow__",
      [](const Tensor& b, const Number& a) {
        CallingLine line;
        return pow(a, b);
      },
      nb::is_operator());
  bind_one(t, "__neg__", [](const Tensor& a) { return -TensorAt(a); });
  bind_one(t, "__invert__", [](const Tensor& a) { return bitwise_not(a); });
  bind_one(t, "__abs__", [](const Tensor& a) { return lockstep::abs(a); });
}

TensorClass bind_tensor(nb::module_& m) {
  TensorClass t(m, "Tensor",
                "A handle into the step that is traced: it has a shape and a dtype, but no values. Every "
                "function of the package whose first argument is a tensor x is also a method.");
  t.def_prop_ro("shape", [](const Tensor& x) { return shape_tuple(x.shape()); });
  t.def_prop_ro("ndim", &Tensor::ndim);
  t.def_prop_ro("dtype", &Tensor::dtype);
  t.def("size", &Tensor::size, nb::arg("dim"), "The size of a dim; a negative dim counts from the end.");
  t.def("__repr__", [](const Tensor& x) { return x.defined() ? "Tensor(" + x.text() + ")" : "Tensor()"; });
  t.def("__getitem__", &item, nb::arg("key").none(),
        "Numbers, slices, None and ..., as in NumPy's basic indexing.");
  t.def("__len__", [](const Tensor& x) {
    if (x.ndim() == 0)
      throw nb::type_error(str("a tensor of no dims, ", x.text(), ", has no length").c_str());
    return x.size(0);
  });
  t.def("__hash__", [](nb::handle x) { return reinterpret_cast<intptr_t>(x.ptr()) >> 4; });
  t.def("__bool__", [](const Tensor& x) -> bool {
    throw nb::type_error(str("a tensor, ", x.text(),
                             ", is neither true nor false while a step is traced: its values are "
                             "not known yet; choose with where(condition, a, b)")
                             .c_str());
  });
  t.def(
      "__iter__",
      [](const Tensor& x) {
        CallingLine line;
        if (x.ndim() == 0)
          throw nb::type_error(str("a tensor of no dims, ", x.text(), ", has no rows").c_str());
        return nb::iter(nb::cast(unbind(x, 0)));
      },
      "The elements along dim 0: for row in x, a, b = x.");
  t.def("__init__", [](Tensor*, nb::args, nb::kwargs) {
    throw UserError(
        str("[Tensor] ", python_line().text(),
            ": a Tensor is a handle into a step that is traced, and none is made by hand: a step is "
            "given its batch fields; ls.constant(x, [1, 2]), ls.zeros(x, [4]) and the like make more"));
  });
  t.def(
      "to",
      [](const Tensor& x, DType dtype) {
        CallingLine line;
        return convert(x, dtype);
      },
      nb::arg("dtype").noconvert(), "The same numbers as another dtype: convert().");
  t.def(
      "detach",
      [](const Tensor& x) {
        CallingLine line;
        return stop_gradient(x);
      },
      "The same values as a constant: no gradient flows through it (stop_gradient()).");
  bind_arithmetic(t);
  return t;
}

void bind_inits(nb::module_& m) {
  nb::class_<Init>(m, "Init", "Initial values of a parameter, made by the functions of lockstep.init.");
  nb::class_<LinearInit>(m, "LinearInit", "Initial values of the weight and the bias of a Linear.")
      .def(nb::init<Init, Init>(), nb::arg("weight"), nb::arg("bias").sig("init.zeros()") = Init());
  nb::implicitly_convertible<Init, LinearInit>();
  nb::class_<Schedule>(m, "Schedule",
                       "A rate as a function of the step: a number, or a result of the schedule functions.")
      .def(nb::init<double>(), nb::arg("lr"))
      .def(
          "__init__",
          [](Schedule* self, double lr, std::function<nb::object(int64_t)> factor, int64_t warmup) {
            std::function<double(int64_t)> number;
            if (factor)
              number = [factor = std::move(factor)](int64_t step) {
                nb::gil_scoped_acquire python;
                double value = 0;
                if (const nb::object made = factor(step); !nb::try_cast(made, value))
                  throw UserError(str("[schedule] the function gives ", shown(made), " for update ", step,
                                      "; a rate is a number of at least 0"));
                return value;
              };
            new (self) Schedule(lr, std::move(number), warmup);
          },
          nb::arg("lr"), nb::arg("factor"), nb::arg("warmup") = 0,
          "lr times `factor(t)` for step t, counted from 1, after a warm-up.")
      .def("at", &Schedule::at, nb::arg("step"),
           "The rate of step `step`, counted from 1; a skipped step counts, too.");
}

void bind_scope(nb::module_& m) {
  auto scope = nb::class_<Scope>(m, "Scope", "A path in the state: at / \"norm\" / 0.");
  scope.def(
      "__truediv__",
      [](const Scope& at, const std::string& part) {
        CallingLine line;
        return at / part;
      },
      nb::keep_alive<0, 1>());
  scope.def("__truediv__", [](const Scope& at, int64_t index) { return at / index; }, nb::keep_alive<0, 1>());
  scope.def_prop_ro("path", &Scope::path);
  scope.def("__repr__", [](const Scope& at) { return "Scope(" + at.path() + ")"; });
  auto record = [&](const char* name, Parameter (Scope::*how)(std::string_view, Shape, Init, Here) const,
                    const char* doc) {
    scope.def(
        name,
        [how](const Scope& at, const std::string& part, Ints shape, Init init) {
          CallingLine line;
          return (at.*how)(part, shape.values, std::move(init), Here::current());
        },
        nb::arg("name"), nb::arg("shape"), nb::arg("init").sig("init.zeros()") = Init(),
        nb::keep_alive<0, 1>(), doc);
  };
  record("parameter", &Scope::parameter, "Records a trained weight of this shape, f32.");
  record("frozen", &Scope::frozen, "Records a weight that is not trained.");
  scope.def(
      "buffer",
      [](const Scope& at, const std::string& part, Ints shape, Init init, DType dtype) {
        CallingLine line;
        return at.buffer(part, dtype, shape.values, std::move(init));
      },
      nb::arg("name"), nb::arg("shape"), nb::arg("init").sig("init.zeros()") = Init(),
      nb::arg("dtype").noconvert().sig("f32") = DType::f32, nb::keep_alive<0, 1>(),
      "Records any other tensor that a step keeps.");
}

void bind_state(nb::module_& m) {
  nb::class_<Parameter>(m, "Parameter", "A tensor that outlives the step: a weight, a moment, a buffer.")
      .def_prop_ro("name", &Parameter::fqn)
      .def_prop_ro("shape", [](const Parameter& p) { return shape_tuple(p.shape()); })
      .def_prop_ro("dtype", &Parameter::dtype)
      .def("__bool__", [](const Parameter& p) { return static_cast<bool>(p); })
      .def("__repr__",
           [](const Parameter& p) {
             return p ? str("Parameter(", p.fqn(), " ", shape_text(p.dtype(), p.shape()), ")")
                      : std::string("Parameter()");
           })
      .def(
          "__call__",
          [](const Parameter& p, const Tensor& beside) {
            CallingLine line;
            return p(beside);
          },
          nb::arg("beside"), "Its value at the start of the step that `beside` belongs to.")
      .def(
          "computed",
          [](const Parameter& p, const Tensor& beside) {
            CallingLine line;
            return p.computed(beside);
          },
          nb::arg("beside"), "The same value as layers compute with it: rounded to the compute dtype.");
  bind_scope(m);
  nb::class_<PlacementRule>(m, "PlacementRule", "The placement of tensors on a mesh dim.")
      .def(
          "__init__",
          [](PlacementRule* self, std::string dim, std::string params, const std::string& place) {
            new (self) PlacementRule{std::move(dim), std::move(params), parse_placement(place)};
          },
          nb::arg("dim"), nb::arg("params"), nb::arg("place"),
          "dim: \"tp\"; params: a glob of names, \"blocks.*.up.weight\"; place: \"shard(0)\", "
          "\"replicate\".");
}

void bind_gradients(nb::module_& m) {
  nb::class_<Gradients>(m, "Gradients", "One gradient per parameter, summed over all micro-batches.")
      .def(
          "__init__",
          [](Gradients* self, const std::vector<Parameter>& parameters, const std::vector<Tensor>& values) {
            new (self) Gradients{parameters, values};
          },
          nb::arg("parameters"), nb::arg("values"), nb::keep_alive<1, 2>())
      .def_prop_ro(
          "parameters",
          [](nb::handle self) { return held_parameters(nb::cast<Gradients&>(self).parameters, self); })
      .def_ro("values", &Gradients::values);
}

// A C++ guard as a Python context manager.
template <class Guard>
struct Within {
  std::function<std::shared_ptr<Guard>()> make;
  std::vector<std::shared_ptr<Guard>> living;
};
template <class Guard>
nb::class_<Within<Guard>> bind_guard(nb::module_& m, const char* name, const char* doc) {
  using W = Within<Guard>;
  return nb::class_<W>(m, name, doc)
      .def("__enter__", [](W& w) { w.living.push_back(w.make()); })
      .def("__exit__", [](W& w, nb::args) { w.living.pop_back(); });
}
}  // namespace

Schedule Rate::of(const char* owner) const {
  if (const auto* schedule = std::get_if<Schedule>(&given)) return *schedule;
  try {
    return std::get<double>(given);
  } catch (const UserError& error) {
    throw UserError(str("[", owner, "] ", python_line().text(), ": ", error.what()));
  }
}

void bind_optimizer(nb::module_& m) {
  nb::class_<Optimizer>(m, "Optimizer", "The base class of all optimizers.")
      .def(
          "update",
          [](Optimizer& self, const Gradients& gradients) {
            CallingLine line;
            self.update(gradients);
          },
          nb::arg("gradients"),
          "Appends the update of each parameter and the metric grad_norm. Call it in the step function.")
      .def(
          "follow", [](Optimizer& self, const Plateau& plateau) { self.follow(plateau); }, nb::arg("plateau"),
          "Multiplies every rate by the plateau's factor from now on.")
      .def("scalars", &Optimizer::scalars, nb::arg("step"),
           "The host scalars of step `step`, counted from 1, if every earlier step was applied: its rate.")
      .def_prop_ro("path", &Optimizer::path);
}

nb::class_<Tensor> bind_values(nb::module_& m) {
  nb::enum_<DType> dtypes(m, "DType", "The type of an element.");
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8,
                      DType::u16, DType::u32, DType::u64, DType::boolean, DType::f8_e4m3, DType::f8_e5m2})
    dtypes.value(dtype == DType::boolean ? "boolean" : std::string(name(dtype)).c_str(), dtype);
  dtypes.export_values();
  TensorClass tensor = bind_tensor(m);
  bind_inits(m);
  bind_state(m);
  bind_loss(m);
  bind_gradients(m);
  bind_guard<Evaluation>(m, "Evaluation",
                         "In its `with` block, tracing is for evaluation: Dropout does nothing.")
      .def("__init__", [](Within<Evaluation>* self) {
        new (self) Within<Evaluation>{[] { return std::make_shared<Evaluation>(); }, {}};
      });
  bind_guard<Precision>(
      m, "Precision",
      "In its `with` block, contractions of the step that x belongs to compute in this dtype, as "
      "torch.autocast.")
      .def(
          "__init__",
          [](Within<Precision>* self, Tensor x, DType dtype) {
            new (self) Within<Precision>{[x, dtype] {
                                           CallingLine line;
                                           return std::make_shared<Precision>(x, dtype);
                                         },
                                         {}};
          },
          nb::arg("x"), nb::arg("dtype").noconvert());
  return tensor;
}

}  // namespace lockstep::python
