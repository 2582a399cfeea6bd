// Gemma: token features times sqrt(width), norms that multiply by 1 + weight, a gate of gelu (its tanh form),
// a head tied to the token table. Gemma Team, arXiv 2403.08295. `logit_softcap` is Gemma 2's: arXiv
// 2408.00118.
//
// FQNs, shapes and initialisation: rotary_decoder.h, as GemmaForCausalLM; norms start at 0.
#include "core/models/families.h"
#include "core/models/rotary_decoder.h"

namespace lockstep::models {

namespace {
struct GemmaOptions : RotaryKeys {
  double logit_softcap =
      key(&logit_softcap, "logit_softcap", 0.0,
          "logits are kept within +- this by a tanh, as in Gemma 2 (30); 0: not", at_least(0));
  double rope_theta = key(&rope_theta, "rope_theta", 10000.0, "base of the rotary embedding", above(0));
  double eps = key(&eps, "eps", 1e-6, "epsilon of the norms", above(0));
};
RotaryDecoderOptions decoder(const GemmaOptions& o) {
  RotaryDecoderOptions out(o, o.rope_theta, o.eps);
  out.from_one = out.tied = out.gelu = out.scaled_tokens = true;
  out.logit_softcap = o.logit_softcap;
  return out;
}
}  // namespace

const Family& gemma() {
  static const Family row = family_of<GemmaOptions>(
      {.kind = "gemma",
       .about = "Gemma: scaled tokens, norms of 1 + weight, GeGLU, a tied head (Gemma Team, 2024)",
       .output = Output::next_tokens,
       .task = "causal_lm",
       .make = [](Scope at, const GemmaOptions& o,
                  Here line) { return rotary_model("gemma", at, decoder(o), line); },
       .errors = [](const GemmaOptions& o) { return rotary_errors(decoder(o)); },
       .split_sizes = [](const GemmaOptions& o) { return rotary_split_sizes(decoder(o)); },
       .rough =
           [](const GemmaOptions& o) { return rough_transformer(decoder(o).sizes, decoder(o).hidden); }});
  return row;
}

}  // namespace lockstep::models
