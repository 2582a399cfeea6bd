// A compiled step for a user's own loop, and its checkpoints.
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include <nanobind/stl/variant.h>

#include "core/base/log.h"
#include "launcher/supervise/worker/side.h"
#include "launcher/trainer/options.h"
#include "python/agreed.h"
#include "python/arrays.h"
#include "python/turns.h"

namespace lockstep::python {

namespace {
// A step function compiled for each shape that it was called with, and the number of the next step. Python's
// garbage collector visits the user's function here, which may refer to the step.
struct OwnStep {
  State* state;
  std::shared_ptr<nb::callable> function;
  FieldTypes fields;
  std::unique_ptr<compiler::StepsByShape> steps;
  compiler::Step* last;  // the step that ran last, or the first; null if compiling again failed
  int64_t done = 0;
  // Whether the first call's arrays were compared; whether a skipped step was reported
  bool compared = false, told = false;
};
int visit_function(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  if (const auto& function = nb::inst_ptr<OwnStep>(self)->function) Py_VISIT(function->ptr());
  return 0;
}
int clear_function(PyObject* self) {
  if (const auto& function = nb::inst_ptr<OwnStep>(self)->function) *function = nb::callable();
  return 0;
}
PyType_Slot kOwnStepSlots[] = {{Py_tp_traverse, reinterpret_cast<void*>(visit_function)},
                               {Py_tp_clear, reinterpret_cast<void*>(clear_function)},
                               {0, nullptr}};

OwnStep compile_step(State& state, nb::dict fields, nb::callable function, int64_t global_batch,
                     int64_t micro_batch, int64_t lanes, int64_t threads, int64_t memory_budget,
                     int64_t max_shapes, bool offload_moments, bool offload_activations, int64_t together) {
  const Turn turn(state);
  const FieldTypes types = agreed(state, [&] { return field_types(fields); });
  std::vector<compiler::BatchField> batch;
  for (const auto& field : types) {
    Shape shape = field.shape;
    shape.insert(shape.begin(), micro_batch);
    batch.push_back({field.name, field.dtype, shape});
  }
  CompileOptions options;
  if (threads > 0) options.threads = static_cast<int>(threads);
  if (memory_budget >= 0) options.memory_budget = memory_budget;
  options.offload_moments = offload_moments;
  options.offload_activations = offload_activations;
  options.together = together;
  options.precision = launcher::precision_of(state);
  auto held = std::make_shared<nb::callable>(function);
  compiler::StepFunction traced = [held, types](const std::vector<Tensor>& tensors) {
    nb::gil_scoped_acquire python;
    return step_function(*held, types)(tensors);
  };
  CallingLine line;
  Computing elsewhere;
  nb::gil_scoped_release release;
  auto steps = std::make_unique<compiler::StepsByShape>(
      state, batch, compiler::BatchShape{global_batch, micro_batch, lanes}, traced, options,
      static_cast<size_t>(std::max<int64_t>(0, max_shapes)));
  compiler::Step* first = &steps->first();
  compiler::tell_no_update(*first, state);
  return {&state, std::move(held), types, std::move(steps), first};
}

compiler::Step& last_of(const OwnStep& self) {
  if (!self.last)
    throw UserError(
        "[step] the step could not be compiled again, as an earlier call reported; call it again, which "
        "tries "
        "that");
  return *self.last;
}

// The step for these arrays, each [samples, ...] with the same number of samples.
compiler::Step& step_for(OwnStep& self, const std::vector<HostArray>& arrays) {
  std::vector<Shape> samples;
  for (size_t f = 0; f < arrays.size(); ++f) {
    const auto& field = self.fields[f];
    Shape whole = shape_of(arrays[f]);
    if (whole.empty() || is_float(dtype_of(arrays[f].dtype())) != is_float(field.dtype)) {
      whole = field.shape;
      const compiler::StepPlan& plan = last_of(self).plan();
      whole.insert(whole.begin(), plan.micro_batches * plan.fields[f].shape[0]);
      check_array(field.name, arrays[f], whole, field.dtype);
    }
    if (whole[0] != static_cast<int64_t>(arrays[0].shape(0)))
      throw UserError(str("[data] field \"", field.name, "\" has ", whole[0], " samples, and \"",
                          self.fields[0].name, "\" ", arrays[0].shape(0)));
    samples.emplace_back(whole.begin() + 1, whole.end());
  }
  CallingLine line;
  Computing elsewhere;
  nb::gil_scoped_release release;
  try {
    return self.steps->at(static_cast<int64_t>(arrays.at(0).shape(0)), samples);
  } catch (...) {
    self.last = self.steps->size() ? &self.steps->first() : nullptr;  // the last one may have been destroyed
    throw;
  }
}

// The arrays of a call; ranks compare those of the first call.
std::vector<HostArray> arrays_for(OwnStep& self, const nb::args& in_order, const nb::kwargs& by_name) {
  const auto read = [&] { return arrays_of("step", self.fields, in_order, by_name); };
  if (self.compared) return read();
  std::vector<HostArray> arrays = agreed(*self.state, read);
  Computing elsewhere;
  nb::gil_scoped_release release;
  compare_batch(*self.state->mesh().world, self.fields, arrays);
  self.compared = true;
  return arrays;
}

// Checks all rows on every rank, since ranks have the same arrays. Otherwise only the rank that reads a bad
// row would throw UserError, and the others would wait for it in the step.
void check_whole(const OwnStep& self, const std::vector<HostArray>& arrays) {
  if (self.state->mesh().world->size() < 2) return;
  for (size_t f = 0; f < arrays.size(); ++f) {
    check_elements(self.fields[f].name, arrays[f], self.fields[f].dtype);
    for (const auto& bound : self.last->plan().ids)
      if (bound.field == self.fields[f].name)
        compiler::check_ids(bound, dtype_of(arrays[f].dtype()), shape_of(arrays[f]), arrays[f].data(), 0);
  }
}

// Takes the global batch by field; each rank reads the rows of its own micro-batches.
nb::dict run_step(OwnStep& self, nb::args in_order, nb::kwargs by_name) {
  const Turn turn(*self.state);
  const std::vector<HostArray> arrays = arrays_for(self, in_order, by_name);
  self.last = &step_for(self, arrays);
  std::vector<DType> dtypes;
  for (const HostArray& array : arrays) dtypes.push_back(dtype_of(array.dtype()));
  compiler::StepInput input{self.done + 1, [&](int64_t first, int64_t count, const std::vector<void*>& to) {
                              for (size_t f = 0; f < to.size(); ++f) {
                                const int64_t row = numel(shape_of(arrays[f])) / shape_of(arrays[f])[0];
                                const auto* from = static_cast<const std::byte*>(arrays[f].data()) +
                                                   static_cast<size_t>(first * row) * size_of(dtypes[f]);
                                copy_elements(self.fields[f].name, from, dtypes[f], to[f],
                                              self.fields[f].dtype, count * row, {row, first});
                              }
                            }};
  input.vote = launcher::stop_requested() ? 1 : 0;
  compiler::StepResult result;
  {
    Computing elsewhere;
    nb::gil_scoped_release release;
    check_whole(self, arrays);
    result = self.last->run(input);
    if (!result.applied && !self.told) self.told = tell_not_applied(*self.last, input, result, *self.state);
  }
  raise_interrupt();
  ++self.done;
  nb::dict out;
  for (const auto& [name, value] : result.metrics) out[name.c_str()] = value;
  out["applied"] = result.applied;
  out["stop"] = result.votes > 0;
  return out;
}

void bind_step(nb::module_& m) {
  nb::class_<OwnStep>(
      m, "Step", nb::type_slots(kOwnStepSlots),
      "A compiled step: step(x, y) takes arrays of the whole global batch, [global_batch, ...] each, "
      "and returns its metrics. A batch of another size, or of samples of other sizes, is compiled "
      "when it is first passed, up to max_shapes of them.")
      .def("__call__", &run_step, nb::arg("arrays"), nb::arg("by_name"),
           "Runs one step. Takes arrays of NumPy, or of any library with DLPack, in the order of the fields "
           "or by name; the same on every rank, which the first call compares. Returns a dict: loss, "
           "grad_norm and your metrics; `applied`: whether the update was applied; `stop`: whether a signal "
           "asked a rank to stop.")
      .def_prop_rw(
          "done", [](const OwnStep& self) { return self.done; },
          [](OwnStep& self, int64_t done) { self.done = checked_done(done, "steps"); },
          nb::for_setter(nb::arg("done")),
          "The number of completed steps, on which schedules and random numbers depend. Set it after "
          "Checkpoint.resume().")
      .def("__repr__",
           [](const OwnStep& self) { return str("Step(", words_of(self.fields), "; done ", self.done, ")"); })
      .def_prop_ro(
          "certificate", [](const OwnStep& self) { return last_of(self).certificate(); },
          "The certificate of the shape that ran last. Equal certificates promise equal bits.")
      .def_prop_ro(
          "shapes", [](const OwnStep& self) { return self.steps->size(); },
          "The number of batch shapes for which it is compiled.")
      .def(
          "describe", [](const OwnStep& self) { return last_of(self).describe(); },
          "The plan of the body as text, of the shape that ran last.");
  const TrainOptions usual;
  m.def("compile", &compile_step, nb::arg("state"), nb::arg("fields"), nb::arg("function"),
        nb::arg("global_batch"), nb::arg("micro_batch") = usual.micro_batch, nb::arg("lanes") = usual.lanes,
        nb::arg("threads") = 0, nb::arg("memory_budget") = usual.memory_budget,
        nb::arg("max_shapes") = compiler::kMostShapes, nb::arg("offload_moments") = usual.offload_moments,
        nb::arg("offload_activations") = usual.offload_activations, nb::arg("together") = usual.together,
        nb::keep_alive<0, 1>(),
        "Traces `function` on a micro-batch of the fields, {\"x\": (f32, [20])}, and compiles forward, "
        "backward, communication and update to one step. function(x, ...) returns the Loss; its "
        "parameters take the fields of their names, or all in order. micro_batch: samples that a rank "
        "computes at a time; 0 chooses it as train() does. threads: 0 divides the cores of the host by "
        "its ranks. memory_budget: bytes of activations to keep; more are recomputed. max_shapes: the "
        "number of batch shapes that the step may be called with; each is compiled when it is first "
        "passed. offload_moments: keeps the optimizer's moments in host memory. offload_activations: "
        "activations beyond memory_budget that are cheaper to copy than to recompute are kept in host "
        "memory between forward and backward. together: the largest number of a rank's micro-batches to "
        "run as one, nearly as fast as one larger micro-batch, with DDP and ZeRO 1. Collective.");
}

void bind_checkpoint(nb::module_& m) {
  nb::class_<Checkpoint>(m, "Checkpoint", "Checkpoints of a run folder: DIR/ckpt/step-N.")
      .def(
          "__init__",
          [](Checkpoint* self, const std::string& run, int64_t every, int keep) {
            new (self) Checkpoint(run, {every, keep});
          },
          nb::arg("run"), nb::arg("every") = 500, nb::arg("keep") = 3)
      .def(
          "resume",
          [](Checkpoint& self, State& state) {
            const Turn turn(state);
            nb::gil_scoped_release release;
            return self.resume(state);
          },
          nb::arg("state"),
          "Loads the newest complete checkpoint, or materialises the state if the folder is new. Returns "
          "the number of completed steps. RUN/best and a step folder can be loaded, too. Collective.")
      .def(
          "save",
          [](Checkpoint& self, int64_t done, const State& state) {
            const Turn turn(state);
            nb::gil_scoped_release release;
            self.save(done, state);
          },
          nb::arg("done"), nb::arg("state"), "Saves when `done` is a multiple of `every`. Collective.");
  m.def(
      "load_weights",
      [](State& state, const std::string& path, const std::variant<std::string, Scope>& at, bool partial) {
        const Turn turn(state);
        const auto* scope = std::get_if<Scope>(&at);
        const WeightOptions options{scope ? scope->path() : std::get<std::string>(at), partial};
        nb::gil_scoped_release release;
        load_weights(state, path, options);
      },
      nb::arg("state"), nb::arg("path"), nb::kw_only(), nb::arg("at") = "", nb::arg("partial") = false,
      "The state starts from weights at `path`: a run, its best folder, a step folder, or safetensors "
      "files by name. Buffers such as running means are loaded, too, if the path has them; optimizers "
      "start new. It applies whenever the state starts: materialize(), Checkpoint.resume() of a new "
      "folder, train() of a new run. Call it after the models are made, on every rank. Adapters of a "
      "run are loaded as adapters if the state has the same ones, else they are merged into the "
      "weights; the log reports which. `at`: a scope of the state, or its path, under which the stored "
      "names are looked up (several calls fill several models). Missing tensors and other shapes are "
      "refused, and so are extra tensors of safetensors files. With `partial` tensors that only one "
      "side has are left unchanged, and the log lists them.");
}

}  // namespace

void bind_steps(nb::module_& m) {
  m.def(
      "philox_uniform",
      [](uint64_t seed, uint64_t stream, uint64_t step, uint64_t index) {
        return philox::uniform(philox::bits(seed, stream, step, index));
      },
      nb::arg("seed"), nb::arg("stream"), nb::arg("step"), nb::arg("index"),
      "A number in [0, 1) that depends only on its four keys: for random data as a function of the "
      "sample's number.");
  bind_step(m);
  bind_checkpoint(m);
}

}  // namespace lockstep::python
