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
  if (o.kv_heads < 0 || o.hidden < 0)
    throw UserError(str("[llama] ", line_of(line).text(), ": kv_heads is ", o.kv_heads, " and hidden is ",
                        o.hidden, "; they must be at least 0"));
  if (!(o.rope_theta > 0))
    throw UserError(str("[llama] ", line_of(line).text(), ": rope_theta is ", number_text(o.rope_theta),
                        "; it must be above 0"));
  if (!o.kv_heads) o.kv_heads = o.heads;
  if (!o.hidden) o.hidden = chosen_hidden(o.width);
  check_heads("llama", line_of(line), o.width, o.heads, o.kv_heads, /*rotary=*/true);
  return o;
}
std::vector<std::string> errors(const LlamaOptions& o) {
  std::vector<std::string> out;
  add_multiple(out, "model.width", o.width, "model.heads", o.heads);
  if (o.kv_heads > 0) add_multiple(out, "model.heads", o.heads, "model.kv_heads", o.kv_heads);
  if (o.heads > 0 && o.width % o.heads == 0 && o.width / o.heads % 2)
    out.push_back(str("model.width / model.heads is ", o.width / o.heads,
                      ", odd; rotary embedding turns pairs, so a head has an even width"));
  return out;
}
// Between the parts that tp splits, a rank has its share of the tokens.
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
}  // namespace

LlamaBlock::LlamaBlock(Scope at, const LlamaOptions& o)
    : norm1(at / "norm1", o.width, o.eps),
      attn(at / "attn", o.width, o.heads, o.kv_heads, o.rope_theta, residual_init(o.depth)),
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
      norm_(at / "norm", options.width, options.eps, line),
      head_(at / "head", options.width, options.vocab, false, init::normal(kInitStd), line) {}

Tensor Llama::operator()(Tensor ids, bool training, Here at) const {
  check_ids("llama", ids, options_.context, at);
  Evaluation evaluation(!training || Evaluation::active());
  return head_(norm_(blocks_(dropout_(token_(ids)))));
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
                          options.vocab, Llama::placements()};
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
