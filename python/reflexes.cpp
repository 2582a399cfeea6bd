// What a user of PyTorch writes first, and what is written here instead.
#include <map>

#include "python/binding.h"

namespace lockstep::python {

// Words of PyTorch's tensors that ours have not, and what is written instead.
std::string unknown_attribute(const char* type, const std::string& text, const std::string& word) {
  static const std::map<std::string, const char*> known{
      {"item",
       "it has no value while a step is traced; a called step returns its metrics, step(x)[\"loss\"]"},
      {"numpy", "it has no value while a step is traced; ls.forward() computes one, ls.metric() reports one"},
      {"tolist",
       "it has no value while a step is traced; ls.forward() computes one, ls.metric() reports one"},
      {"backward", "gradients are asked for: ls.grad(loss, state.parameters())"},
      {"grad", "gradients are asked for: ls.grad(loss, state.parameters())"},
      {"requires_grad", "which weights are trained is the state's: state.freeze([...])"},
      {"view", "write x.reshape(...)"},
      {"float", "write x.to(ls.f32)"},
      {"half", "write x.to(ls.f16)"},
      {"long", "write x.to(ls.i64)"},
      {"int", "write x.to(ls.i32)"},
      {"detach", "write ls.stop_gradient(x)"},
      {"cuda", "the device is the session's: --train.device=cuda"},
      {"cpu", "the device is the session's: --train.device=cpu"},
      {"device", "the device is the session's: --train.device"}};
  const auto found = known.find(word);
  return str("'", type, "' object has no attribute '", word, "'",
             found == known.end() ? "" : str(" (", text, "): ", found->second));
}

bool no_truth(const Loss& loss) {
  throw nb::type_error(str("a loss, ",
                           loss.terms.empty() ? loss.sum.text() : str("a sum of ", loss.terms.size()),
                           ", has no value while a step is traced; a called step returns it as "
                           "step(x)[\"loss\"], and train() ends a run whose loss is not finite")
                           .c_str());
}

}  // namespace lockstep::python
