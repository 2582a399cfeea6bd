// Session, State, data and the training loop.
#include <signal.h>

#include <cstring>

#include "launcher/data/order.h"
#include "launcher/supervise/contract.h"
#include "launcher/supervise/worker_side.h"
#include "python/arrays.h"

namespace lockstep::python {

namespace {
sigset_t interrupts() {
  sigset_t out;
  sigemptyset(&out);
  sigaddset(&out, SIGINT);
  return out;
}

// Ctrl-C asks the loop of train() to finish its step and save; elsewhere it is Python's KeyboardInterrupt.
class StopBySignal {
 public:
  StopBySignal() { sigaction(SIGINT, &asked, &before_); }
  ~StopBySignal() { sigaction(SIGINT, &before_, nullptr); }
  static void learn() { sigaction(SIGINT, nullptr, &asked); }  // the handler that a Session has set

 private:
  inline static struct sigaction asked{};
  struct sigaction before_{};
  Computing computing_;
};

std::unique_ptr<Session> open_session(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = arguments;
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  struct sigaction python{};
  sigaction(SIGINT, nullptr, &python);
  auto out = std::make_unique<Session>(static_cast<int>(argv.size()), argv.data());
  StopBySignal::learn();
  if (launcher::worker_place().supervised()) return out;
  // Python looks for signals that its own thread heard; one that another thread heard may wait for long.
  sigaction(SIGINT, &python, nullptr);
  const sigset_t heard = interrupts();
  pthread_sigmask(SIG_UNBLOCK, &heard, nullptr);
  return out;
}

// Arrays in memory by field name, one sample a row.
SampleData array_data(nb::dict arrays, bool shuffle, uint64_t seed) {
  struct Column {
    HostArray array;
    DType held, dtype;  // of the array, and of the field
    int64_t elements;   // of a row
  };
  auto columns = std::make_shared<std::vector<Column>>();
  SampleData out;
  int64_t rows = -1;
  for (auto [name, value] : arrays) {
    HostArray array = host_array(value);
    Shape shape = shape_of(array);
    const std::string field = nb::cast<std::string>(name);
    if (shape.empty() || shape[0] == 0) throw UserError(str("[data] field \"", field, "\" has no rows"));
    if (rows >= 0 && shape[0] != rows)
      throw UserError(str("[data] field \"", field, "\" has ", shape[0], " rows, and \"", out.fields[0].name,
                          "\" has ", rows));
    rows = shape[0];
    shape.erase(shape.begin());
    // NumPy's integers are int64 where nobody says otherwise, and labels and ids are i32 here.
    const DType held = dtype_of(array.dtype());
    const int64_t beyond = held == DType::i64 ? first_beyond(array, held, DType::i32) : -1;
    if (beyond >= 0)
      throw UserError(str("[data] field \"", field, "\" has ", get_int(held, array.data(), beyond),
                          " in row ", beyond / numel(shape), ", and integers are i32 here, ", INT32_MIN,
                          " to ", INT32_MAX, "; mend the value, or give the field as float32"));
    const DType dtype = held == DType::i64 ? DType::i32 : held;
    out.fields.push_back({field, dtype, shape});
    columns->push_back({array, held, dtype, numel(shape)});
  }
  if (rows < 0) throw UserError("[data] there are no fields: arrays(x=..., y=...)");
  out.fill = [columns, rows, shuffle, seed, types = out.fields](int64_t i, const std::vector<void*>& fields) {
    const int64_t row = launcher::data::sequence_of(i, rows, shuffle, seed);
    for (size_t f = 0; f < fields.size(); ++f) {
      const Column& column = (*columns)[f];
      const auto bytes = static_cast<size_t>(column.elements) * size_of(column.held);
      copy_elements(types[f].name,
                    static_cast<const std::byte*>(column.array.data()) + static_cast<size_t>(row) * bytes,
                    column.held, fields[f], column.dtype, column.elements);
    }
  };
  out.rows = rows;
  out.contents = [columns, rows, shuffle, seed, types = out.fields] {
    std::vector<std::pair<std::string, std::string>> lines{
        {"rows", str(rows)}, {"order", shuffle ? str("shuffled by seed ", seed) : std::string("as given")}};
    for (size_t f = 0; f < types.size(); ++f)
      lines.push_back({str("field \"", types[f].name, "\""),
                       str(shape_text((*columns)[f].held, types[f].shape), " a row, fingerprint ",
                           fingerprint_of((*columns)[f].array))});
    return lines;
  };
  out.name = [rows, shuffle, seed](int64_t i) {
    return str("row ", launcher::data::sequence_of(i, rows, shuffle, seed), " of the arrays");
  };
  return out;
}

// A Python function of the sample's number, which gives a dict, or values in the order of the fields.
SampleData function_data(nb::dict types, nb::callable sample) {
  SampleData out;
  out.fields = field_types(types);
  // Samples are read without the GIL, by any thread, and may outlive the call.
  auto held = std::shared_ptr<nb::callable>(new nb::callable(sample), [](nb::callable* callable) {
    nb::gil_scoped_acquire python;
    delete callable;
  });
  out.fill = [held, fields = out.fields](int64_t i, const std::vector<void*>& to) {
    nb::gil_scoped_acquire python;
    nb::object made = (*held)(i);
    if (!nb::isinstance<nb::dict>(made) && fields.size() == 1 && !nb::isinstance<nb::tuple>(made))
      made = nb::make_tuple(made);
    for (size_t f = 0; f < fields.size(); ++f) {
      nb::object value =
          nb::isinstance<nb::dict>(made) ? nb::object(made[fields[f].name.c_str()]) : nb::object(made[f]);
      HostArray array = host_array(value);
      check_array(fields[f].name, array, fields[f].shape, fields[f].dtype);
      copy_elements(fields[f].name, array.data(), dtype_of(array.dtype()), to[f], fields[f].dtype,
                    numel(fields[f].shape));
    }
  };
  return out;
}

// Files of token ids: fields ids and targets, i32 [context].
SampleData token_data(const std::string& path, int64_t context, int64_t vocab, const std::string& dtype,
                      bool shuffle, uint64_t seed) {
  auto data = std::make_shared<launcher::data::Dataset>(
      launcher::data::DataOptions{.kind = "tokens",
                                  .paths = {path},
                                  .dtype = dtype,
                                  .order = shuffle ? "shuffle" : "sequential",
                                  .vocab = vocab,
                                  .context = context,
                                  .seed = seed});
  SampleData out;
  out.fields = {{"ids", DType::i32, {context}}, {"targets", DType::i32, {context}}};
  out.fill = [data](int64_t i, const std::vector<void*>& to) {
    data->fill(i, 1, 0, 1, static_cast<int32_t*>(to[0]), static_cast<int32_t*>(to[1]));
  };
  return out;
}

TrainOptions options_of(nb::dict given) {
  TrainOptions out;
  auto take = [&](const char* name, auto& to) {
    const nb::object value = given[name];
    try {
      to = nb::cast<std::remove_reference_t<decltype(to)>>(value);
    } catch (const std::bad_cast&) {
      throw UserError(str("[train] ", name, " is ", nb::cast<std::string>(nb::repr(value)),
                          "; it must be of the type of its default"));
    }
  };
  take("run", out.run), take("steps", out.steps), take("global_batch", out.global_batch);
  take("micro_batch", out.micro_batch), take("lanes", out.lanes), take("save_every", out.save_every);
  take("memory_budget", out.memory_budget), take("together", out.together);
  take("offload_moments", out.offload_moments), take("offload_activations", out.offload_activations);
  take("save_async", out.save_async);
  take("memory_every", out.memory_every);
  take("report_every", out.report_every), take("keep", out.keep);
  take("monitor", out.monitor), take("monitor_mode", out.monitor_mode), take("min_delta", out.min_delta);
  take("best", out.best), take("patience", out.patience);
  take("on_nonfinite", out.on_nonfinite), take("nonfinite_limit", out.nonfinite_limit);
  take("on_spike", out.on_spike), take("spike_factor", out.spike_factor);
  take("spike_window", out.spike_window);
  take("hash_every", out.hash_every), take("norms_every", out.norms_every);
  take("tensorboard", out.tensorboard), take("profile", out.profile);
  take("retries", out.retries), take("on_failure", out.on_failure);
  take("replicas_every", out.replicas_every);
  take("recompute_every", out.recompute_every), take("on_corruption", out.on_corruption);
  out.return_when_stopped = true;  // Python tells its caller: an exception, or the exit code
  return out;
}

std::string run_training(Session& session, State& state, const SampleData& data, nb::callable function,
                         nb::dict given, const SampleData* validation, nb::object measure, int64_t samples,
                         int64_t every, nb::object measured) {
  TrainOptions options = options_of(given);
  if (validation)
    options.validation = Validation{
        *validation,
        step_function(nb::cast<nb::callable>(measure), validation->fields, "the validation's function"),
        samples, every};
  if (validation && !measured.is_none())
    options.validation->measured = [&measured](const std::map<std::string, double>& metrics) {
      nb::gil_scoped_acquire python;
      measured(metrics);
    };
  compiler::StepFunction traced = step_function(function, data.fields);
  std::string hash;
  {
    StopBySignal asked;
    nb::gil_scoped_release release;
    hash = train(session, state, data, traced, options);
  }
  return hash;
}

void need_values(const State& state, const char* what) {
  if (!state.has_values())
    throw UserError(str("[state] ", python_line().text(), ": ", what,
                        "() is called before the state has values: materialize() draws initial ones, as the "
                        "first call of a step does; Checkpoint.resume() loads, and load_weights() too"));
}

void bind_state_of_session(nb::module_& m) {
  nb::class_<State>(m, "State",
                    "Everything that outlives a step: parameters, moments, buffers. Recorded first, "
                    "allocated when a step runs.")
      .def(
          "__init__", [](State* self, const LiveMesh& mesh, uint64_t seed) { new (self) State(mesh, seed); },
          nb::arg("mesh"), nb::arg("seed") = 0)
      .def_prop_ro("root", &State::root, nb::keep_alive<0, 1>(), "The scope of the state itself.")
      .def(
          "__truediv__",
          [](State& state, const std::string& part) {
            CallingLine line;
            return state / part;
          },
          nb::keep_alive<0, 1>())
      .def(
          "parameters",
          [](nb::handle self) { return held_parameters(nb::cast<State&>(self).parameters(), self); },
          nb::sig("def parameters(self) -> list[Parameter]"),
          "Those that are trained, in the order of recording.")
      .def(
          "names",
          [](const State& state) {
            std::vector<std::string> out;
            for (const Spec& spec : state.specs()) out.push_back(spec.fqn);
            return out;
          },
          "Of all that it holds, in the order of recording.")
      .def("find", &State::find_spec, nb::arg("name"), nb::keep_alive<0, 1>(),
           "The parameter of this name; a false one where there is none.")
      .def(
          "compute_dtype",
          [](State& state, DType dtype) {
            CallingLine line;
            state.compute_dtype(dtype);
          },
          nb::arg("dtype"),
          "What contractions compute in: f32, bf16 or f16, as torch.autocast. Parameters stay f32.")
      .def(
          "float8",
          [](State& state, DType gradients, const std::vector<std::string>& skip, bool head,
             const std::string& recipe, int64_t history) {
            CallingLine line;
            state.float8({gradients, skip, head, parse_float8_recipe(recipe), history});
          },
          nb::kw_only(), nb::arg("gradients") = DType::f8_e5m2, nb::arg("skip") = std::vector<std::string>{},
          nb::arg("head") = false, nb::arg("recipe") = "tensorwise", nb::arg("history") = 16,
          "Linear layers that are recorded so far multiply in float8, but those that the globs of `skip` "
          "name; with `head` heads, too. `recipe`: a scale for each tensor (tensorwise), or for each row of "
          "what a product reads (rowwise), or for each tensor by what it had in the last `history` steps "
          "(delayed). After compute_dtype(bf16).")
      .def(
          "zero",
          [](State& state, int level) {
            CallingLine line;
            state.zero(level);
          },
          nb::arg("level"), "How much dp_shard splits: 1 and 2 moments, 3 parameters too.")
      .def(
          "freeze",
          [](State& state, const std::vector<std::string>& weights) {
            CallingLine line;
            state.freeze(weights);
          },
          nb::arg("weights"),
          "The weights, or layers, that any of the globs names are not trained. Before the optimizer.")
      .def(
          "lora",
          [](State& state, int64_t rank, double alpha, double dropout,
             const std::vector<std::string>& targets, const std::vector<std::string>& also) {
            CallingLine line;
            state.lora({rank, alpha, dropout, targets, also});
          },
          nb::arg("rank") = 8, nb::kw_only(), nb::arg("alpha") = 16.0, nb::arg("dropout") = 0.0,
          nb::arg("targets") = std::vector<std::string>{}, nb::arg("also") = std::vector<std::string>{},
          "Freezes all, and trains adapters beside the weights of linear layers that the globs name (none: "
          "all "
          "but heads), and as a whole what `also` names. Before the optimizer.")
      .def(
          "place",
          [](State& state, const std::vector<PlacementRule>& rules) {
            CallingLine line;
            state.place(rules);
          },
          nb::arg("rules"), "Where tensors lie on mesh dims that their names do not decide.")
      .def(
          "materialize",
          [](State& state) {
            nb::gil_scoped_release release;
            state.materialize();
          },
          "Allocates this rank's part, with initial values. Calling it again starts over. train(), "
          "Checkpoint.resume() of a new folder and the first call of a step do it where nobody has.")
      .def(
          "array",
          [](State& state, const std::string& name) {
            need_values(state, "array");
            return numpy_of(state.array(name));
          },
          nb::arg("name"), "A copy of this rank's part as a NumPy array (bf16 as float32).")
      .def(
          "set",
          [](State& state, const std::string& name, nb::object array) {
            CallingLine line;
            const Parameter known = state.find_spec(name);
            HostArray given = host_array(array);
            const DType held = dtype_of(given.dtype());
            // Within a kind numbers are converted, as those of a batch are.
            const DType dtype = known && is_float(held) == is_float(known.dtype()) &&
                                        is_integer(held) == is_integer(known.dtype())
                                    ? known.dtype()
                                    : held;
            std::vector<std::byte> elements(static_cast<size_t>(numel(shape_of(given))) * size_of(dtype));
            copy_elements(name, given.data(), held, elements.data(), dtype, numel(shape_of(given)));
            const Shape shape = shape_of(given);
            nb::gil_scoped_release release;
            state.set(name, elements.data(), dtype, shape);
          },
          nb::arg("name"), nb::arg("array"),
          "The tensor has these values, now where the state has values already, and wherever it starts: "
          "materialize(), train() of a new run. The whole array on every rank, each of which keeps its part.")
      .def(
          "hash",
          [](const State& state) {
            need_values(state, "hash");
            nb::gil_scoped_release release;
            return state_hash(state.arrays(), state.mesh());
          },
          "128 bits of all that it holds, on all ranks: the same text on every mesh. Collective.");
}
}  // namespace

Computing::Computing() {
  const sigset_t held = interrupts();
  pthread_sigmask(SIG_BLOCK, &held, &before_);
}
Computing::~Computing() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void bind_session(nb::module_& m) {
  nb::class_<LiveMesh>(m, "LiveMesh", "The mesh of this run and this rank's groups.")
      .def_prop_ro("shape", [](const LiveMesh& mesh) { return nb::tuple(nb::cast(mesh.words.shape)); })
      .def_prop_ro("dim_names",
                   [](const LiveMesh& mesh) { return nb::tuple(nb::cast(mesh.words.dim_names)); })
      .def_ro("rank", &LiveMesh::rank)
      .def("__repr__", [](const LiveMesh& mesh) { return text(mesh.words); });
  nb::class_<Session>(m, "_Session")
      .def_prop_ro("mesh", &Session::mesh, nb::rv_policy::copy)
      .def_prop_ro("rank", &Session::rank)
      .def_prop_ro("local_ranks", &Session::local_ranks)
      .def_prop_ro("arguments", &Session::arguments)
      .def_prop_ro("precision", &Session::precision)
      .def("report", &Session::progress, nb::arg("step"), nb::arg("values"))
      .def_prop_ro("stop_requested", &Session::stop_requested);
  m.def(
      "_open_session",
      [](const std::vector<std::string>& arguments) { return open_session(arguments).release(); },
      nb::rv_policy::take_ownership, nb::arg("arguments"));
  m.def("_stop_requested", [] { return launcher::stop_requested(); });
  bind_state_of_session(m);
  nb::class_<SampleData>(m, "SampleData", "Samples by their number: fields by name, and what fills them.")
      .def(
          "__init__",
          [](SampleData* self, nb::dict fields, nb::callable sample) {
            new (self) SampleData(function_data(fields, sample));
          },
          nb::arg("fields"), nb::arg("sample"),
          "fields: {\"x\": (f32, [20]), \"label\": (i32, [])}, a sample's dtypes and shapes; sample(i): its "
          "values, a dict or a tuple. It is a "
          "function of i alone, so that a resumed run and any number of ranks read the same.")
      .def_prop_ro("fields", [](const SampleData& data) {
        nb::dict out;
        for (const auto& field : data.fields)
          out[field.name.c_str()] = nb::make_tuple(field.dtype, nb::tuple(nb::cast(field.shape)));
        return out;
      });
  m.def("_arrays", &array_data, nb::arg("arrays"), nb::arg("shuffle"), nb::arg("seed"));
  m.def("tokens", &token_data, nb::arg("path"), nb::arg("context"), nb::arg("vocab") = 65536,
        nb::arg("dtype") = "uint16", nb::arg("shuffle") = false, nb::arg("seed") = 0,
        "A file of token ids as samples of `ids` and `targets`, i32 [context]: raw, or with the 1024-byte "
        "header of magic 20240520.");
  m.def("_train", &run_training, nb::arg("session"), nb::arg("state"), nb::arg("data"), nb::arg("function"),
        nb::arg("options"), nb::arg("validation").none(), nb::arg("measure").none(), nb::arg("samples"),
        nb::arg("every"), nb::arg("measured").none());
}

}  // namespace lockstep::python
