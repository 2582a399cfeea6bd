// Binds Session, State, data and the training loop.
#include <signal.h>

#include <cstring>

#include "launcher/supervise/worker/contract.h"
#include "launcher/supervise/worker/side.h"
#include "python/agreed.h"
#include "python/arrays.h"
#include "python/turns.h"

namespace lockstep::python {

namespace {
sigset_t interrupts() {
  sigset_t out;
  sigemptyset(&out);
  sigaddset(&out, SIGINT);
  return out;
}

// In train(), Ctrl-C asks the loop to finish its step and save; elsewhere it is Python's KeyboardInterrupt.
class StopBySignal {
 public:
  StopBySignal() { sigaction(SIGINT, &asked, &before_); }
  ~StopBySignal() { sigaction(SIGINT, &before_, nullptr); }
  static void learn() { sigaction(SIGINT, nullptr, &asked); }  // remembers the handler that a Session has set

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
  // Python handles signals that its main thread receives; one that another thread receives may wait long.
  sigaction(SIGINT, &python, nullptr);
  const sigset_t heard = interrupts();
  pthread_sigmask(SIG_UNBLOCK, &heard, nullptr);
  return out;
}

TrainOptions options_of(nb::dict given) {
  TrainOptions out;
  each_train_option([&](const char* name, const char*, auto of, auto...) {
    const nb::object value = given[name];
    try {
      out.*of = nb::cast<std::remove_reference_t<decltype(out.*of)>>(value);
    } catch (const std::bad_cast&) {
      throw UserError(str("[train] ", name, " is ", nb::cast<std::string>(nb::repr(value)),
                          "; it must be of the type of its default"));
    }
  });
  return out;
}
// The options of train() by name, with their defaults.
nb::dict train_options() {
  nb::dict out;
  const TrainOptions usual;
  each_train_option([&](const char* name, const char*, auto of, auto...) { out[name] = usual.*of; });
  return out;
}

std::string run_training(Session& session, State& state, const SampleData& data, nb::callable function,
                         nb::dict given, const SampleData* validation, nb::object measure, int64_t samples,
                         int64_t every, nb::object measured) {
  TrainOptions options = agreed(state, [&] { return options_of(given); });
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
  const Turn turn = Turn::of_training(state);
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
    throw UserError(
        str("[state] ", python_line().text(), ": ", what,
            "() is called before the state has values: materialize() draws initial ones, and takes "
            "what load_weights() or set() gave; call it first, or Checkpoint.resume()"));
}

// All trained parameters, or those that a glob names, directly or by their layer.
std::vector<Parameter> parameters_named(const State& state, const nb::args& globs) {
  const std::vector<Parameter> all = state.parameters();
  std::vector<bool> chosen(all.size(), globs.size() == 0);
  for (nb::handle given : globs) {
    const auto refuse = [&](const std::string& what) {
      throw UserError(str("[parameters] ", python_line().text(), ": ", shown(given), what));
    };
    if (!nb::isinstance<nb::str>(given)) refuse(" is no glob of names, as in parameters(\"up.**\")");
    bool any = false;
    for (size_t i = 0; i < all.size(); ++i)
      if (names_weight(nb::cast<std::string>(given), all[i].fqn())) any = chosen[i] = true;
    std::vector<std::string> names;
    for (size_t i = 0; i < std::min<size_t>(all.size(), 12); ++i) names.push_back(all[i].fqn());
    if (!any)
      refuse(str(" names no weight that is trained; there are ", all.empty() ? "none" : join(names, ", "),
                 all.size() > 12 ? str(", and ", all.size() - 12, " more") : ""));
  }
  std::vector<Parameter> out;
  for (size_t i = 0; i < all.size(); ++i)
    if (chosen[i]) out.push_back(all[i]);
  return out;
}

struct Elements {
  std::vector<std::byte> elements;
  DType dtype;
  Shape shape;
};
// The new elements of a state tensor; numbers are converted within their kind, as in a batch.
Elements elements_for(const State& state, const std::string& name, nb::handle array) {
  const Parameter known = state.find_spec(name);
  const HostArray given = host_array(name, array);
  const DType held = dtype_of(given.dtype());
  const bool alike =
      known && is_float(held) == is_float(known.dtype()) && is_integer(held) == is_integer(known.dtype());
  Elements out{{}, alike ? known.dtype() : held, shape_of(given)};
  out.elements.resize(static_cast<size_t>(numel(out.shape)) * size_of(out.dtype));
  copy_elements(name, given.data(), held, out.elements.data(), out.dtype, numel(out.shape));
  return out;
}

using StateClass = nb::class_<State>;

void bind_state_names(StateClass& state) {
  state
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
          [](nb::handle self, nb::args globs) {
            return held_parameters(parameters_named(nb::cast<State&>(self), globs), self);
          },
          nb::sig("def parameters(self, *globs: str) -> list[Parameter]"),
          "The trained parameters in the order of recording: all, or those that any of the globs names, "
          "directly or by their layer, as in parameters(\"G.**\").")
      .def(
          "names",
          [](const State& state) {
            std::vector<std::string> out;
            for (const Spec& spec : state.specs()) out.push_back(spec.fqn);
            return out;
          },
          "The names of all tensors, in the order of recording.")
      .def(
          "_specs",
          [](const State& state) {
            nb::list out;
            for (const Spec& spec : state.specs())
              out.append(nb::make_tuple(spec.fqn, shape_text(spec.dtype, spec.shape), numel(spec.shape),
                                        spec.trainable, !spec.of.empty()));
            return out;
          },
          "The rows of its repr: name, type, number of elements, whether it is trained, whether it is a "
          "moment.")
      .def_prop_ro("seed", &State::seed)
      .def("find", &State::find_spec, nb::arg("name"), nb::keep_alive<0, 1>(),
           "The parameter of this name; a false one if there is none.");
}

// What is decided before the first step.
void bind_state_choices(StateClass& state) {
  state
      .def(
          "compute_dtype",
          [](State& state, DType dtype) {
            CallingLine line;
            state.compute_dtype(dtype);
          },
          nb::arg("dtype").noconvert(),
          "Sets the dtype of contractions: f32, bf16 or f16, as torch.autocast. Parameters stay f32.")
      .def(
          "float8",
          [](State& state, DType gradients, const std::vector<std::string>& skip, bool head,
             const std::string& recipe, int64_t history) {
            CallingLine line;
            state.float8({gradients, skip, head, parse_float8_recipe(recipe), history});
          },
          nb::kw_only(), nb::arg("gradients").noconvert() = DType::f8_e5m2,
          nb::arg("skip") = std::vector<std::string>{}, nb::arg("head") = false,
          nb::arg("recipe") = "tensorwise", nb::arg("history") = 16,
          "Makes the linear layers recorded so far multiply in float8, except those that the globs of "
          "`skip` name; with `head` heads, too. `recipe`: one scale per tensor (tensorwise), per row of an "
          "operand (rowwise), or per tensor from its values in the last `history` steps (delayed). Call it "
          "after compute_dtype(bf16).")
      .def(
          "zero",
          [](State& state, int level) {
            CallingLine line;
            state.zero(level);
          },
          nb::arg("level"), "What dp_shard splits: 1 and 2: moments; 3: parameters too.")
      .def(
          "freeze",
          [](State& state, const std::vector<std::string>& weights) {
            CallingLine line;
            state.freeze(weights);
          },
          nb::arg("weights"),
          "Freezes the weights that any of the globs names, directly or by their layer. Call it before the "
          "optimizer is made.")
      .def(
          "lora",
          [](State& state, int64_t rank, double alpha, double dropout,
             const std::vector<std::string>& targets, const std::vector<std::string>& also) {
            CallingLine line;
            state.lora({rank, alpha, dropout, targets, also});
          },
          nb::arg("rank") = 8, nb::kw_only(), nb::arg("alpha") = 16.0, nb::arg("dropout") = 0.0,
          nb::arg("targets") = std::vector<std::string>{}, nb::arg("also") = std::vector<std::string>{},
          "Freezes all weights except `also`, which are trained in full, and trains an adapter for each "
          "linear layer that the globs `targets` name (none: all but heads). Call it before the optimizer "
          "is made.")
      .def(
          "place",
          [](State& state, const std::vector<PlacementRule>& rules) {
            CallingLine line;
            state.place(rules);
          },
          nb::arg("rules"), "Sets the placement of tensors on mesh dims whose name does not decide it.");
}

void bind_state_values(StateClass& state) {
  state
      .def(
          "materialize",
          [](State& state) {
            const Turn turn(state);
            nb::gil_scoped_release release;
            state.materialize();
          },
          "Allocates this rank's part with initial values. A second call starts over. train(), "
          "Checkpoint.resume() of a new folder and the first call of a step do it if it was not done.")
      .def(
          "array",
          [](State& state, const std::string& name) {
            const Turn turn(state);
            need_values(state, "array");
            return numpy_of(state.array(name));
          },
          nb::arg("name"), "A copy of this rank's part as a NumPy array (bf16 as float32).")
      .def(
          "set",
          [](State& state, const std::string& name, nb::object array) {
            CallingLine line;
            const Turn turn(state);
            const auto given = agreed(state, [&] { return elements_for(state, name, array); });
            nb::gil_scoped_release release;
            state.set(name, given.elements.data(), given.dtype, given.shape);
          },
          nb::arg("name"), nb::arg("array").none(),
          "Sets the values of a tensor: at once if the state has values, and whenever it starts "
          "(materialize(), train() of a new run). Every rank passes the whole array and keeps its part.")
      .def(
          "hash",
          [](const State& state) {
            const Turn turn(state);
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
      .def("finish", &Session::finish, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("stop_requested", &Session::stop_requested);
  m.def(
      "_open_session",
      [](const std::vector<std::string>& arguments) { return open_session(arguments).release(); },
      nb::rv_policy::take_ownership, nb::arg("arguments"));
  m.def("_explain_exit", &Session::explain_exit, nb::arg("code"), nb::arg("words"));
  m.def("_stop_requested", [] { return launcher::stop_requested(); });
  StateClass state(
      m, "State",
      "Everything that outlives a step: parameters, moments, buffers. Tensors are recorded first and "
      "allocated when a step runs.");
  bind_state_names(state);
  bind_state_choices(state);
  bind_state_values(state);
  m.def("_train", &run_training, nb::arg("session"), nb::arg("state"), nb::arg("data"), nb::arg("function"),
        nb::arg("options"), nb::arg("validation").none(), nb::arg("measure").none(), nb::arg("samples"),
        nb::arg("every"), nb::arg("measured").none());
  m.def("_train_options", &train_options);
}

}  // namespace lockstep::python
