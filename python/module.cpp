// The extension module lockstep._core: registers everything in the order in which types depend on each other.
#include "launcher/version.h"
#include "python/binding.h"

NB_MODULE(_core, m) {
  using namespace lockstep::python;
  nanobind::set_leak_warnings(false);  // a module's step function is part of a reference cycle
  m.doc() = "Lockstep: training steps that are traced in Python and compiled.";
  bind_errors(m);
  nanobind::class_<lockstep::Tensor> tensor = bind_values(m);
  bind_options(m);
  bind_functions_a(m, tensor);
  bind_functions_b(m, tensor);
  bind_functions_c(m, tensor);
  bind_functions_d(m, tensor);
  bind_layers(m);
  bind_convolutions(m);
  bind_optimizers(m);
  bind_models(m);
  bind_session(m);
  bind_steps(m);
  bind_data(m);
  bind_forwards(m);
  bind_checkpoints(m);
  m.attr("__version__") = lockstep::launcher::kVersion;
  answer_calls(m);
}
