// Mistral: a Llama whose tokens see a window of those before them. Jiang et al., arXiv 2310.06825.
//
// FQNs, shapes and initialisation: rotary_decoder.h, as MistralForCausalLM.
#include "core/models/families.h"
#include "core/models/rotary_decoder.h"

namespace lockstep::models {

namespace {
struct MistralOptions : RotaryKeys {
  int64_t window = key(&window, "window", 4096, "tokens that a token sees, itself included; 0: all before it",
                       between(0, 0x1p24));
  double rope_theta = key(&rope_theta, "rope_theta", 10000.0, "base of the rotary embedding", above(0));
  double eps = key(&eps, "eps", 1e-5, "epsilon of the norms", above(0));
};
RotaryDecoderOptions decoder(const MistralOptions& o) {
  RotaryDecoderOptions out(o, o.rope_theta, o.eps);
  out.window = o.window;
  return out;
}
}  // namespace

const Family& mistral() {
  static const Family row = family_of<MistralOptions>(
      {.kind = "mistral",
       .about = "Mistral: a Llama whose tokens see a sliding window (Jiang et al., 2023)",
       .output = Output::next_tokens,
       .task = "causal_lm",
       .make = [](Scope at, const MistralOptions& o,
                  Here line) { return rotary_model("mistral", at, decoder(o), line); },
       .errors = [](const MistralOptions& o) { return rotary_errors(decoder(o)); },
       .split_sizes = [](const MistralOptions& o) { return rotary_split_sizes(decoder(o)); },
       .rough =
           [](const MistralOptions& o) { return rough_transformer(decoder(o).sizes, decoder(o).hidden); }});
  return row;
}

}  // namespace lockstep::models
