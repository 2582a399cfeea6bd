// Qwen2 and Qwen3: a Llama whose q, k and v have biases (Qwen2), or whose q and k are normalised head by head
// (Qwen3). Yang et al., arXiv 2407.10671 and 2505.09388.
//
// FQNs, shapes and initialisation: rotary_decoder.h, as Qwen2ForCausalLM and Qwen3ForCausalLM.
#include "core/models/families.h"
#include "core/models/rotary_decoder.h"

namespace lockstep::models {

namespace {
struct QwenOptions : RotaryKeys {
  std::string version =
      key(&version, "version", "3", "2: biases on q, k and v; 3: heads of q and k are normalised",
          one_of({"2", "3"}));
  bool tied = key(&tied, "tied", false, "the head is the token table");
  double rope_theta = key(&rope_theta, "rope_theta", 1e6, "base of the rotary embedding", above(0));
  double eps = key(&eps, "eps", 1e-6, "epsilon of the norms", above(0));
};
RotaryDecoderOptions decoder(const QwenOptions& o) {
  RotaryDecoderOptions out(o, o.rope_theta, o.eps);
  out.qkv_bias = o.version == "2";
  out.qk_norm = o.version == "3";
  out.tied = o.tied;
  return out;
}
}  // namespace

const Family& qwen() {
  static const Family row = family_of<QwenOptions>(
      {.kind = "qwen",
       .about = "Qwen2, Qwen3: a Llama with biases on q, k, v or with norms of q, k (Yang et al., 2024)",
       .output = Output::next_tokens,
       .task = "causal_lm",
       .make = [](Scope at, const QwenOptions& o,
                  Here line) { return rotary_model("qwen", at, decoder(o), line); },
       .errors = [](const QwenOptions& o) { return rotary_errors(decoder(o)); },
       .split_sizes = [](const QwenOptions& o) { return rotary_split_sizes(decoder(o)); },
       .rough = [](const QwenOptions& o) { return rough_transformer(decoder(o).sizes, decoder(o).hidden); }});
  return row;
}

}  // namespace lockstep::models
