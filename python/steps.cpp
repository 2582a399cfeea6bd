// A compiled step for a loop of one's own, a compiled function, and checkpoints.
#include <cstring>

#include "launcher/supervise/worker_side.h"
#include "python/arrays.h"

namespace lockstep::python {

namespace {
// A compiled step and the number of the next one.
struct OwnStep {
  compiler::Step step;
  FieldTypes fields;
  int64_t global_batch;
  int64_t done = 0;
};

OwnStep compile_step(State& state, nb::dict fields, nb::callable function, int64_t global_batch,
                     int64_t micro_batch, int64_t lanes, int64_t threads, int64_t memory_budget) {
  FieldTypes types = field_types(fields);
  std::vector<compiler::BatchField> batch;
  for (const auto& field : types) {
    Shape shape = field.shape;
    shape.insert(shape.begin(), micro_batch);
    batch.push_back({field.name, field.dtype, shape});
  }
  CompileOptions options;
  if (threads > 0) options.threads = static_cast<int>(threads);
  if (memory_budget >= 0) options.memory_budget = memory_budget;
  options.precision = state.compute_dtype() == DType::bf16  ? "bf16"
                      : state.compute_dtype() == DType::f16 ? "fp16"
                                                            : "fp32";
  compiler::StepFunction traced = step_function(function);
  CallingLine line;
  Computing elsewhere;
  nb::gil_scoped_release release;
  return {compiler::compile(state, batch, {global_batch, micro_batch, lanes}, traced, options), types,
          global_batch};
}

// The global batch by field: each rank reads the rows of its own micro-batches.
nb::dict run_step(OwnStep& self, nb::args in_order, nb::kwargs by_name) {
  std::vector<HostArray> arrays;
  for (size_t f = 0; f < self.fields.size(); ++f) {
    const auto& field = self.fields[f];
    nb::object value;
    if (f < nb::len(in_order))
      value = in_order[f];
    else if (by_name.contains(field.name.c_str()))
      value = by_name[field.name.c_str()];
    else
      throw UserError(str("[step] ", python_line().text(), ": field \"", field.name, "\" is missing"));
    Shape whole = field.shape;
    whole.insert(whole.begin(), self.global_batch);
    arrays.push_back(host_array(value));
    check_array(field.name, arrays.back(), whole, field.dtype);
  }
  if (nb::len(in_order) + nb::len(by_name) != self.fields.size())
    throw UserError(str("[step] ", python_line().text(), ": ", nb::len(in_order) + nb::len(by_name),
                        " arrays are given, and the step reads ", self.fields.size()));
  std::vector<DType> dtypes;
  for (const HostArray& array : arrays) dtypes.push_back(dtype_of(array.dtype()));
  compiler::StepInput input{self.done + 1, [&](int64_t first, int64_t count, const std::vector<void*>& to) {
                              for (size_t f = 0; f < to.size(); ++f) {
                                const int64_t row = numel(self.fields[f].shape);
                                const auto* from = static_cast<const std::byte*>(arrays[f].data()) +
                                                   static_cast<size_t>(first * row) * size_of(dtypes[f]);
                                copy_elements(self.fields[f].name, from, dtypes[f], to[f],
                                              self.fields[f].dtype, count * row);
                              }
                            }};
  input.vote = launcher::stop_requested() ? 1 : 0;
  compiler::StepResult result;
  {
    Computing elsewhere;
    nb::gil_scoped_release release;
    result = self.step.run(input);
  }
  raise_interrupt();
  ++self.done;
  nb::dict out;
  for (const auto& [name, value] : result.metrics) out[name.c_str()] = value;
  out["applied"] = result.applied;
  out["stop"] = result.votes > 0;
  return out;
}

// A function without a loss, compiled: arrays in, an array out.
struct OwnForward {
  compiler::Forward forward;
  FieldTypes fields;
  DType dtype;
};

OwnForward* compile_forward(State& state, nb::dict fields, nb::callable function) {
  FieldTypes types = field_types(fields);
  std::vector<compiler::BatchField> batch;
  for (const auto& field : types) batch.push_back({field.name, field.dtype, field.shape});
  DType dtype = DType::f32;
  CallingLine line;
  return new OwnForward{
      compiler::Forward(
          state, batch,
          [&](const std::vector<Tensor>& inputs) {
            nb::list arguments;
            for (const Tensor& x : inputs) arguments.append(x);
            nb::object result = function(*arguments);
            if (!nb::isinstance<Tensor>(result))
              throw UserError(str("[forward] the function gave ", nb::cast<std::string>(nb::repr(result)),
                                  "; it must return a Tensor"));
            dtype = nb::cast<Tensor>(result).dtype();
            return nb::cast<Tensor>(result);
          },
          CompileOptions{}),
      types, dtype};
}

nb::object run_forward(OwnForward& self, nb::args arrays) {
  if (nb::len(arrays) != self.fields.size())
    throw UserError(str("[forward] ", python_line().text(), ": ", nb::len(arrays),
                        " arrays are given, and the function reads ", self.fields.size()));
  std::vector<std::vector<std::byte>> held;
  std::vector<void*> at;
  for (size_t f = 0; f < self.fields.size(); ++f) {
    const auto& field = self.fields[f];
    HostArray array = host_array(arrays[f]);
    check_array(field.name, array, field.shape, field.dtype);
    const int64_t count = numel(field.shape);
    held.emplace_back(static_cast<size_t>(count) * size_of(field.dtype));
    copy_elements(field.name, array.data(), dtype_of(array.dtype()), held.back().data(), field.dtype, count);
    at.push_back(held.back().data());
  }
  const void* result = nullptr;
  {
    Computing elsewhere;
    nb::gil_scoped_release release;
    result = self.forward.run(at);
  }
  raise_interrupt();
  return numpy_of(result, self.dtype, self.forward.result_shape());
}
}  // namespace

void bind_steps(nb::module_& m) {
  nb::class_<OwnForward>(m, "Forward",
                         "A compiled function without a loss: forward(x) with arrays, gives an array.")
      .def("__call__", &run_forward, nb::arg("arrays"),
           "NumPy arrays, or any that speak DLPack, in the order of the fields.");
  m.def("forward", &compile_forward, nb::arg("state"), nb::arg("fields"), nb::arg("function"),
        nb::keep_alive<0, 1>(), nb::rv_policy::take_ownership,
        "Compiles function(x, ...) for inputs of these dtypes and shapes, {\"x\": (f32, [8, 20])}: "
        "evaluation, generation. On one rank.");
  m.def(
      "philox_uniform",
      [](uint64_t seed, uint64_t stream, uint64_t step, uint64_t index) {
        return philox::uniform(philox::bits(seed, stream, step, index));
      },
      nb::arg("seed"), nb::arg("stream"), nb::arg("step"), nb::arg("index"),
      "A number in [0, 1) that follows from its four keys alone: random data as a function of the sample's "
      "number.");

  nb::class_<OwnStep>(m, "Step",
                      "A compiled step: step(x, y) with arrays of the whole global batch, [global_batch, "
                      "...] each; gives its metrics.")
      .def("__call__", &run_step, nb::arg("arrays"), nb::arg("by_name"),
           "Runs one step. NumPy arrays, or any that speak DLPack, in the order of the fields or by name; "
           "the same on every rank. Gives a dict: loss, "
           "grad_norm, metrics of one's own; `applied`: whether the update was made; `stop`: whether a "
           "signal asked some rank to stop.")
      .def_rw(
          "done", &OwnStep::done,
          "Steps that are done: what schedules and random numbers count. Set it after Checkpoint.resume().")
      .def_prop_ro(
          "certificate", [](const OwnStep& self) { return self.step.certificate(); },
          "Equal certificates promise equal bits.")
      .def(
          "describe", [](const OwnStep& self) { return self.step.describe(); },
          "The plan of the body as text.");
  m.def("compile", &compile_step, nb::arg("state"), nb::arg("fields"), nb::arg("function"),
        nb::arg("global_batch"), nb::arg("micro_batch"), nb::arg("lanes") = 0, nb::arg("threads") = 0,
        nb::arg("memory_budget") = -1, nb::keep_alive<0, 1>(),
        "Traces `function` on a micro-batch of the fields, {\"x\": (f32, [20])}, and compiles forward, "
        "backward, communication and update to one "
        "step. function(x, ...) returns the Loss. threads: 0 takes the cores of the host over its ranks; "
        "memory_budget: bytes of activations, "
        "beyond which they are computed again. Collective.");
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
            nb::gil_scoped_release release;
            return self.resume(state);
          },
          nb::arg("state"),
          "Loads the newest whole checkpoint, or, of a folder that is new, materialises the state. Gives the "
          "steps that are done. RUN/best and a step folder are read, too. Collective.")
      .def(
          "save",
          [](Checkpoint& self, int64_t done, const State& state) {
            nb::gil_scoped_release release;
            self.save(done, state);
          },
          nb::arg("done"), nb::arg("state"), "Saves when `done` is a multiple of `every`. Collective.");
  m.def(
      "load_weights",
      [](State& state, const std::string& path) {
        nb::gil_scoped_release release;
        load_weights(state, path);
      },
      nb::arg("state"), nb::arg("path"),
      "The state starts from weights at `path`: of a run, its best folder, a step folder, or safetensors "
      "files "
      "by name. Running means and the like come too, where the path has them; optimizers begin anew. It "
      "holds "
      "wherever the state starts: materialize(), Checkpoint.resume() of a new folder, train() of a new run. "
      "Call it behind models, on every rank. What is missing, or of another shape, is refused, and of "
      "safetensors files what is extra.");
}

}  // namespace lockstep::python
