// llama: its legend is at the head of llama.h.
#include "core/models/llama.h"

#include "core/base/error.h"
#include "core/models/decoder.h"
#include "core/models/families.h"

namespace lockstep::models {

namespace {
DecoderSizes sizes(const LlamaOptions& o) {
  return {o.vocab, o.context, o.width, o.depth, o.heads, o.eps, o.dropout};
}
int64_t chosen_hidden(int64_t width) { return (8 * width + 3 * 64 - 1) / (3 * 64) * 64; }
LlamaOptions checked(LlamaOptions o, Here line) {
  check_sizes("llama", line_of(line), sizes(o));
  if (o.kv_heads < 0 || o.hidden < 0 || o.head_dim < 0)
    throw UserError(str("[llama] ", line_of(line).text(), ": kv_heads is ", o.kv_heads, ", hidden is ",
                        o.hidden, " and head_dim is ", o.head_dim, "; they must be at least 0"));
  if (!(o.rope_theta > 0))
    throw UserError(str("[llama] ", line_of(line).text(), ": rope_theta is ", number_text(o.rope_theta),
                        "; it must be above 0"));
  if (!o.kv_heads) o.kv_heads = o.heads;
  if (!o.hidden) o.hidden = chosen_hidden(o.width);
  check_heads("llama", line_of(line), o.head_dim ? o.head_dim * o.heads : o.width, o.heads, o.kv_heads,
              /*rotary=*/true);
  return o;
}
std::vector<std::string> errors(const LlamaOptions& o) {
  std::vector<std::string> out;
  if (!o.head_dim) add_multiple(out, "model.width", o.width, "model.heads", o.heads);
  if (o.kv_heads > 0) add_multiple(out, "model.heads", o.heads, "model.kv_heads", o.kv_heads);
  const bool even =
      o.head_dim ? o.head_dim % 2 == 0 : o.heads < 1 || o.width % o.heads || o.width / o.heads % 2 == 0;
  if (!even)
    out.push_back(str(o.head_dim ? "model.head_dim" : "model.width / model.heads", " is ",
                      o.head_dim ? o.head_dim : o.width / o.heads,
                      ", odd; rotary embedding turns pairs, so a head has an even width"));
  if (o.rope_original > 0 && !(o.rope_low < o.rope_high))
    out.push_back(str("model.rope_low is ", number_text(o.rope_low), " and model.rope_high is ",
                      number_text(o.rope_high), "; the first must be below the second"));
  return out;
}
// Between the parts that tp splits, each rank has its share of the tokens (sequence parallelism).
std::vector<SplitSize> split_sizes(const LlamaOptions& o) {
  std::vector<SplitSize> out = {{"model.heads", o.heads}};
  if (o.kv_heads > 0) out.push_back({"model.kv_heads", o.kv_heads});
  if (o.hidden > 0)
    out.push_back({"model.hidden", o.hidden});
  else
    out.push_back({"model.hidden (chosen from model.width)", chosen_hidden(o.width)});
  out.push_back({"model.context", o.context});
  return out;
}
LlamaAttentionOptions attention(const LlamaOptions& o) {
  LlamaAttentionOptions out{.head_dim = o.head_dim, .out_init = residual_init(o.depth)};
  out.rope.theta = o.rope_theta;
  out.rope.factor = o.rope_factor;
  out.rope.original = o.rope_original;
  out.rope.low = o.rope_low;
  out.rope.high = o.rope_high;
  return out;
}
}  // namespace

LlamaBlock::LlamaBlock(Scope at, const LlamaOptions& o)
    : norm1(at / "norm1", o.width, o.eps),
      attn(at / "attn", o.width, o.heads, o.kv_heads, attention(o)),
      norm2(at / "norm2", o.width, o.eps),
      gate(at / "mlp" / "gate", o.width, o.hidden, false),
      up(at / "mlp" / "up", o.width, o.hidden, false),
      down(at / "mlp" / "down", o.hidden, o.width, false, residual_init(o.depth)),
      attn_dropout(at / "attn" / "dropout", o.dropout),
      mlp_dropout(at / "mlp" / "dropout", o.dropout) {}

Tensor LlamaBlock::operator()(Tensor x) const {
  x = x + attn_dropout(attn(norm1(x)));
  Tensor y = norm2(x);
  Tensor gates = silu(gate(y));
  return x + mlp_dropout(down(gates * up(y)));
}

Llama::Llama(Scope at, const LlamaOptions& options, Here line)
    : options_(checked(options, line)),
      token_(at / "token", options.vocab, options.width, init::normal(kInitStd), line),
      dropout_(at / "dropout", options.dropout, line),
      blocks_(at / "blocks", options.depth, options_),
      norm_(at / "norm", options.width, options.eps, line) {
  if (!options.tied)
    head_.emplace_back(at / "head", options.width, options.vocab, false, init::normal(kInitStd), line);
}

Tensor Llama::features(Tensor ids, Here at) const {
  check_ids("llama", ids, options_.context, at);
  return norm_(blocks_(dropout_(token_(ids))));
}
Tensor Llama::operator()(Tensor ids, bool training, Here at) const {
  Evaluation evaluation(!training || Evaluation::active());
  Tensor x = features(ids, at);
  return head_.empty() ? token_.logits(x) : head_[0](x);
}

std::vector<PlacementRule> Llama::placements() {
  return {{"tp", "blocks.*.attn.{q,k,v}.weight", Shard(0)},
          {"tp", "blocks.*.mlp.{gate,up}.weight", Shard(0)},
          {"tp", "blocks.*.{attn.out,mlp.down}.weight", Shard(1)}};
}

const Family& llama() {
  static const Family row = family_of<LlamaOptions>(
      {.kind = "llama",
       .about = "Llama: rotary positions, RMSNorm, SwiGLU, grouped keys and values (Touvron et al., 2023)",
       .output = Output::next_tokens,
       .task = "causal_lm",
       .make =
           [](Scope at, const LlamaOptions& options, Here line) {
             Llama net(at, options, line);
             return Model{token_inputs(options.context, options.vocab),
                          [net](const std::vector<Tensor>& in) { return std::vector{net(in[0])}; },
                          options.vocab,
                          Llama::placements(),
                          {},
                          true,
                          {},
                          [net](const std::vector<Tensor>& in) { return std::vector{net.features(in[0])}; }};
           },
       .errors = errors,
       .split_sizes = split_sizes,
       .rough =
           [](const LlamaOptions& o) {
             return rough_transformer(sizes(o), o.hidden ? o.hidden : 4 * o.width);
           }});
  return row;
}

}  // namespace lockstep::models
