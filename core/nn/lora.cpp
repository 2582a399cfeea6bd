// Names of weights and of the layers that they belong to.
#include "core/nn/lora.h"

#include "core/base/text.h"

namespace lockstep {

std::string layer_of(const std::string& fqn) {
  for (const std::string_view end : {"weight", "bias"})
    if (fqn.ends_with(end) && fqn.size() > end.size() + 1) return fqn.substr(0, fqn.size() - end.size() - 1);
  return fqn;
}
bool names_weight(const std::string& glob, const std::string& fqn) {
  return glob_match(glob, fqn) || glob_match(glob, layer_of(fqn));
}

std::vector<std::string> no_hidden_matrices() {
  return {"{token,position,head,lm_head,classifier}.**", "**.{token,position,head,lm_head,classifier}.**",
          "**embed**", "{decoder,fc,shared}.{weight,bias}"};
}

}  // namespace lockstep
