// A compiled function without a loss: arrays in, arrays out.
#include "core/base/log.h"
#include "python/arrays.h"
#include "python/turns.h"

namespace lockstep::python {

namespace {
// The structure of the function's result: one tensor, or a tuple, list or dict of them. Arrays are returned
// in the same structure.
struct Results {
  std::vector<Tensor> tensors;
  nb::object kind;  // a dict's keys, the type of a tuple or list; none of one tensor
};

Results results_of(nb::object made) {
  auto refuse = [&](const std::string& what) {
    throw UserError(str("[forward] the function gave ", what,
                        "; it must return a Tensor, or a tuple, list or dict of them"));
  };
  if (nb::isinstance<Tensor>(made)) return {{nb::cast<Tensor>(made)}, nb::none()};
  Results out;
  nb::object values = made;
  if (nb::isinstance<nb::dict>(made)) {
    out.kind = nb::list(nb::cast<nb::dict>(made).keys());
    values = nb::cast<nb::dict>(made).values();
  } else if (nb::isinstance<nb::list>(made) || nb::isinstance<nb::tuple>(made)) {
    out.kind = nb::borrow(made.type());
  } else if (nb::hasattr(made, "__iter__") && !nb::isinstance<nb::str>(made)) {
    out.kind = nb::borrow(reinterpret_cast<PyObject*>(&PyTuple_Type));  // values, indices = topk(x, 2)
  } else {
    refuse(shown(made));
  }
  for (nb::handle value : nb::iter(values)) {
    if (!nb::isinstance<Tensor>(value)) refuse(str(shown(made), ", with ", shown(value), " in it"));
    out.tensors.push_back(nb::cast<Tensor>(value));
  }
  if (out.tensors.empty()) refuse("nothing");
  return out;
}

nb::object given_back(const nb::list& arrays, nb::handle kind) {
  if (kind.is_none()) return arrays[0];
  if (nb::isinstance<nb::list>(kind)) {
    nb::dict out;
    for (size_t i = 0; i < nb::len(arrays); ++i) out[nb::handle(kind)[i]] = arrays[i];
    return out;
  }
  return nb::hasattr(kind, "_make") ? kind.attr("_make")(arrays) : kind(arrays);
}

// A function compiled for each shape that it was called with.
struct OwnForward {
  struct Compiled {
    compiler::Forward forward;
    FieldTypes fields;
    nb::object kind;
  };
  OwnForward(State& at, nb::callable of, FieldTypes first, size_t shapes, uint64_t from)
      : state(&at), function(std::move(of)), fields(std::move(first)), most(shapes), seed(from) {}
  OwnForward(const OwnForward&) = delete;

  State* state;
  nb::callable function;
  FieldTypes fields;  // of the first shape
  size_t most;
  uint64_t seed;     // of random numbers, which also depend on the number of the call
  int64_t done = 0;  // calls
  std::map<std::vector<Shape>, Compiled> by_shape;
};
int visit_forward(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  Py_VISIT(nb::inst_ptr<OwnForward>(self)->function.ptr());
  for (const auto& [shapes, compiled] : nb::inst_ptr<OwnForward>(self)->by_shape)
    Py_VISIT(compiled.kind.ptr());
  return 0;
}
int clear_forward(PyObject* self) {
  nb::inst_ptr<OwnForward>(self)->function = nb::callable();
  for (auto& [shapes, compiled] : nb::inst_ptr<OwnForward>(self)->by_shape) compiled.kind = nb::object();
  return 0;
}
PyType_Slot kOwnForwardSlots[] = {{Py_tp_traverse, reinterpret_cast<void*>(visit_forward)},
                                  {Py_tp_clear, reinterpret_cast<void*>(clear_forward)},
                                  {0, nullptr}};

std::vector<Shape> shapes_of(const FieldTypes& fields) {
  std::vector<Shape> out;
  for (const auto& field : fields) out.push_back(field.shape);
  return out;
}

OwnForward::Compiled& forward_for(OwnForward& self, const FieldTypes& fields) {
  if (const auto found = self.by_shape.find(shapes_of(fields)); found != self.by_shape.end())
    return found->second;
  if (self.by_shape.size() >= self.most)
    throw UserError(
        str("[forward] ", python_line().text(), ": ", words_of(fields), " is shape ",
            self.by_shape.size() + 1, " of this function, and at most ", self.most,
            " are kept, since each is compiled for itself and has memory of its own (the first is ",
            words_of(self.fields), "); pad inputs to fewer shapes, or raise max_shapes"));
  if (!self.by_shape.empty())
    logs::info(str("the function is compiled for ", words_of(fields), ": shape ", self.by_shape.size() + 1,
                   " of at most ", self.most));
  std::vector<compiler::BatchField> batch;
  for (const auto& field : fields) batch.push_back({field.name, field.dtype, field.shape});
  nb::object kind;
  CallingLine line;
  const auto traced = [&](const std::vector<Tensor>& inputs) {
    nb::gil_scoped_acquire python;
    TracedStep step(inputs);
    Results results = results_of(call_with_fields(self.function, names_of(fields), inputs, "the function"));
    kind = results.kind;
    return results.tensors;
  };
  std::optional<compiler::Forward> made;
  {
    Computing elsewhere;
    nb::gil_scoped_release release;
    made.emplace(*self.state, batch, traced, CompileOptions{});
  }
  raise_interrupt();
  return self.by_shape.emplace(shapes_of(fields), OwnForward::Compiled{std::move(*made), fields, kind})
      .first->second;
}

OwnForward* compile_forward(State& state, nb::dict fields, nb::callable function, int64_t max_shapes,
                            std::optional<uint64_t> seed) {
  if (max_shapes < 1)
    throw UserError(str("[forward] ", python_line().text(), ": max_shapes is ", max_shapes,
                        "; a function has at least 1"));
  const Turn turn(state);
  auto out = std::make_unique<OwnForward>(state, function, field_types(fields),
                                          static_cast<size_t>(max_shapes), seed.value_or(state.seed()));
  forward_for(*out, out->fields);
  return out.release();
}

nb::object run_forward(OwnForward& own, nb::args in_order, nb::kwargs by_name) {
  const Turn turn(*own.state);
  const std::vector<HostArray> arrays = arrays_of("forward", own.fields, in_order, by_name);
  FieldTypes given = own.fields;
  for (size_t f = 0; f < given.size(); ++f) {
    if (arrays[f].ndim() != given[f].shape.size())
      check_array(given[f].name, arrays[f], given[f].shape, given[f].dtype);  // refuses
    given[f].shape = shape_of(arrays[f]);
    check_array(given[f].name, arrays[f], given[f].shape, given[f].dtype);
  }
  OwnForward::Compiled& self = forward_for(own, given);
  std::vector<std::vector<std::byte>> held;
  std::vector<void*> at;
  for (size_t f = 0; f < self.fields.size(); ++f) {
    const auto& field = self.fields[f];
    const int64_t count = numel(field.shape);
    held.emplace_back(static_cast<size_t>(count) * size_of(field.dtype));
    copy_elements(field.name, arrays[f].data(), dtype_of(arrays[f].dtype()), held.back().data(), field.dtype,
                  count, {count == 0 || field.shape.empty() ? 0 : count / field.shape[0]});
    at.push_back(held.back().data());
  }
  {
    Computing elsewhere;
    nb::gil_scoped_release release;
    self.forward.run(at, {own.seed, own.done + 1});
  }
  raise_interrupt();
  ++own.done;
  nb::list out;
  for (size_t i = 0; i < self.forward.results().size(); ++i)
    out.append(
        numpy_of(self.forward.result(i), self.forward.results()[i].dtype, self.forward.results()[i].shape));
  return given_back(out, self.kind);
}
}  // namespace

void bind_forwards(nb::module_& m) {
  nb::class_<OwnForward>(
      m, "Forward", nb::type_slots(kOwnForwardSlots),
      "A compiled function without a loss: forward(x) takes arrays and returns arrays in the structure "
      "of the function's result (one, or a tuple, list or dict). Arrays of other sizes are compiled "
      "when they are first passed, up to max_shapes of them.")
      .def("__call__", &run_forward, nb::arg("arrays"), nb::arg("by_name"),
           "Takes arrays of NumPy, or of any library with DLPack, in the order of the fields or by name.")
      .def_prop_rw(
          "done", [](const OwnForward& self) { return self.done; },
          [](OwnForward& self, int64_t done) { self.done = checked_done(done, "calls"); },
          nb::for_setter(nb::arg("done")),
          "The number of completed calls, on which random numbers depend: set it to repeat those of an "
          "earlier call.")
      .def_ro("seed", &OwnForward::seed,
              "The seed of random numbers, which also depend on the number of the call.")
      .def("__repr__", [](const OwnForward& self) { return str("Forward(", words_of(self.fields), ")"); });
  m.def("forward", &compile_forward, nb::arg("state"), nb::arg("fields"), nb::arg("function"),
        nb::arg("max_shapes") = compiler::kMostShapes, nb::arg("seed") = nb::none(), nb::keep_alive<0, 1>(),
        nb::rv_policy::take_ownership,
        "Compiles function(x, ...) for inputs of these dtypes and shapes, {\"x\": (f32, [8, 20])}, for "
        "evaluation or generation. The function returns a tensor, or a tuple, list or dict of them. Its "
        "random numbers (randn, multinomial, dropout) depend on `seed`, by default that of the state, "
        "and on the number of the call. The layer Dropout does nothing. Runs on one rank.");
}

}  // namespace lockstep::python
