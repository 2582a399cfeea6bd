// Decoders with rotary positions: their legend is at the head of rotary_decoder.h.
#include "core/models/rotary_decoder.h"

#include <cmath>

#include "core/base/error.h"
#include "core/nn/document_rows.h"

namespace lockstep::models {

namespace {
// 8/3 of the width, rounded up to a multiple of 64: three such matrices are as large as two with 4 times the
// width.
int64_t gated_hidden(int64_t width) { return (8 * width + 3 * 64 - 1) / (3 * 64) * 64; }
}  // namespace

RotaryDecoderOptions::RotaryDecoderOptions(const RotaryKeys& o, double theta, double eps)
    : sizes{o.vocab, o.context, o.width, o.depth, o.heads, eps, o.dropout},
      chosen_head_dim(o.head_dim == 0),
      kv_heads(o.kv_heads ? o.kv_heads : o.heads),
      head_dim(o.head_dim ? o.head_dim : o.width / std::max<int64_t>(o.heads, 1)),
      hidden(o.hidden ? o.hidden : gated_hidden(o.width)),
      rope_theta(theta) {}

CountedRmsNorm::CountedRmsNorm(Scope at, int64_t width, double eps, bool from_one, Here line)
    : path_(at.path()),
      weight_(at.parameter("weight", {width}, from_one ? init::zeros() : init::ones(), line)),
      eps_(eps),
      from_one_(from_one) {}
Tensor CountedRmsNorm::operator()(Tensor x, Here at) const {
  InLayer layer(x, path_, at);
  return from_one_ ? rms_norm(x, convert(weight_(x) + 1.0, x.dtype()), eps_, at)
                   : rms_norm(x, weight_.computed(x, at), eps_, at);
}

RotaryAttention::RotaryAttention(const Scope& at, const RotaryDecoderOptions& o)
    : options_(o),
      q_(at / "q_proj", o.sizes.width, o.sizes.heads * o.head_dim, o.qkv_bias),
      k_(at / "k_proj", o.sizes.width, o.kv_heads * o.head_dim, o.qkv_bias),
      v_(at / "v_proj", o.sizes.width, o.kv_heads * o.head_dim, o.qkv_bias),
      out_(at / "o_proj", o.sizes.heads * o.head_dim, o.sizes.width, false) {
  if (!o.qk_norm) return;
  for (const char* name : {"q_norm", "k_norm"})
    head_norms_.emplace_back(at / name, o.head_dim, o.sizes.eps, o.from_one);
}
Tensor RotaryAttention::operator()(Tensor x) const {
  Tensor q = to_heads(q_(x), options_.sizes.heads), k = to_heads(k_(x), options_.kv_heads),
         v = to_heads(v_(x), options_.kv_heads);
  if (!head_norms_.empty()) q = head_norms_[0](q), k = head_norms_[1](k);
  RopeOptions turn{.theta = options_.rope_theta};
  turn.positions = DocumentRows::positions();
  q = rope(q, turn), k = rope(k, turn);
  AttentionOptions how;
  how.causal = true, how.window = options_.window, how.documents = DocumentRows::documents();
  return out_(from_heads(sdpa(q, k, v, how)));
}

RotaryBlock::RotaryBlock(const Scope& at, const RotaryDecoderOptions& o)
    : gelu_(o.gelu),
      norm1_(at / "input_layernorm", o.sizes.width, o.sizes.eps, o.from_one),
      attn_(at / "self_attn", o),
      norm2_(at / "post_attention_layernorm", o.sizes.width, o.sizes.eps, o.from_one),
      gate_(at / "mlp" / "gate_proj", o.sizes.width, o.hidden, false),
      up_(at / "mlp" / "up_proj", o.sizes.width, o.hidden, false),
      down_(at / "mlp" / "down_proj", o.hidden, o.sizes.width, false),
      dropout_(at / "dropout", o.sizes.dropout) {}
Tensor RotaryBlock::operator()(Tensor x) const {
  x = x + dropout_(attn_(norm1_(x)));
  Tensor y = norm2_(x), gate = gate_(y);
  Tensor gates = gelu_ ? gelu(gate) : silu(gate);
  return x + dropout_(down_(gates * up_(y)));
}

RotaryDecoder::RotaryDecoder(std::string_view who, const Scope& at, const RotaryDecoderOptions& o, Here line)
    : who_(who),
      options_(o),
      token_(at / "model" / "embed_tokens", o.sizes.vocab, o.sizes.width, init::normal(kInitStd), line),
      dropout_(at / "model" / "dropout", o.sizes.dropout, line),
      blocks_(at / "model" / "layers", o.sizes.depth, o),
      norm_(at / "model" / "norm", o.sizes.width, o.sizes.eps, o.from_one, line) {
  if (!o.tied) head_.emplace_back(at / "lm_head", o.sizes.width, o.sizes.vocab, false);
}
Tensor RotaryDecoder::features(Tensor ids, Here at) const {
  check_ids(who_, ids, options_.sizes.context, at);
  Tensor x = token_(ids);
  if (options_.scaled_tokens) x = x * std::sqrt(static_cast<double>(options_.sizes.width));
  return norm_(blocks_(dropout_(x)));
}
Tensor RotaryDecoder::operator()(Tensor ids, Here at) const {
  Tensor x = features(ids, at);
  Tensor logits = head_.empty() ? token_.logits(x) : head_[0](x);
  if (options_.logit_softcap > 0) logits = tanh(logits / options_.logit_softcap) * options_.logit_softcap;
  return logits;
}

Model rotary_model(std::string_view who, const Scope& at, const RotaryDecoderOptions& o, Here line) {
  RotaryDecoder net(who, at, o, line);
  std::vector<PlacementRule> tp = {
      {"tp", "model.layers.*.self_attn.{q_proj,k_proj,v_proj}.*", Shard(0)},
      {"tp", "model.layers.*.mlp.{gate_proj,up_proj}.weight", Shard(0)},
      {"tp", "model.layers.*.{self_attn.o_proj,mlp.down_proj}.weight", Shard(1)}};
  return {token_inputs(o.sizes.context, o.sizes.vocab),
          [net](const std::vector<Tensor>& in) { return std::vector{net(in[0])}; },
          o.sizes.vocab,
          tp,
          {},
          true,
          {},
          [net](const std::vector<Tensor>& in) { return std::vector{net.features(in[0])}; }};
}

std::vector<std::string> rotary_errors(const RotaryDecoderOptions& o) {
  std::vector<std::string> out;
  if (o.chosen_head_dim) add_multiple(out, "model.width", o.sizes.width, "model.heads", o.sizes.heads);
  add_multiple(out, "model.heads", o.sizes.heads, "model.kv_heads", o.kv_heads);
  if (out.empty() && o.head_dim % 2)
    out.push_back(str(o.chosen_head_dim ? "model.width / model.heads" : "model.head_dim", " is ", o.head_dim,
                      ", odd; rotary embedding turns pairs, so a head has an even width"));
  return out;
}
std::vector<SplitSize> rotary_split_sizes(const RotaryDecoderOptions& o) {
  return {{"model.heads", o.sizes.heads},
          {"model.kv_heads", o.kv_heads},
          {"model.hidden", o.hidden},
          {"model.context", o.sizes.context}};
}

}  // namespace lockstep::models
