// gpt: its legend is at the head of gpt.h.
#include "core/models/gpt.h"

#include "core/base/error.h"
#include "core/models/decoder.h"
#include "core/models/families.h"
#include "core/nn/document_rows.h"

namespace lockstep::models {

namespace {
DecoderSizes sizes(const GptOptions& o) {
  return {o.vocab, o.context, o.width, o.depth, o.heads, o.eps, o.dropout};
}
GptOptions checked(const GptOptions& o, Here line) {
  check_sizes("gpt", line_of(line), sizes(o));
  check_heads("gpt", line_of(line), o.width, o.heads, o.heads, /*rotary=*/false);
  return o;
}
}  // namespace

GptBlock::GptBlock(Scope at, const GptOptions& o)
    : norm1(at / "norm1", o.width, o.eps),
      attn(at / "attn", o.width, o.heads, residual_init(o.depth)),
      norm2(at / "norm2", o.width, o.eps),
      up(at / "mlp" / "up", o.width, 4 * o.width),
      down(at / "mlp" / "down", 4 * o.width, o.width, true, residual_init(o.depth)),
      attn_dropout(at / "attn" / "dropout", o.dropout),
      mlp_dropout(at / "mlp" / "dropout", o.dropout) {}

Tensor GptBlock::operator()(Tensor x) const {
  x = x + attn_dropout(attn(norm1(x)));
  return x + mlp_dropout(down(gelu(up(norm2(x)))));
}

Gpt::Gpt(Scope at, const GptOptions& options, Here line)
    : options_(checked(options, line)),
      token_(at / "token", options.vocab, options.width, init::normal(kInitStd), line),
      position_(at / "position", options.context, options.width, init::normal(kInitStd), line),
      dropout_(at / "dropout", options.dropout, line),
      blocks_(at / "blocks", options.depth, options),
      norm_(at / "norm", options.width, options.eps, line) {}

Tensor Gpt::features(Tensor ids, Here at) const {
  check_ids("gpt", ids, options_.context, at);
  Tensor tokens = token_(ids);  // [B,T,C]
  // [T,C], or [B,T,C] of packed rows
  Tensor places =
      position_(DocumentRows::active() ? DocumentRows::positions() : iota(ids, {ids.size(1)}, 0, DType::i32));
  return norm_(blocks_(dropout_(tokens + places)));
}
Tensor Gpt::operator()(Tensor ids, bool training, Here at) const {
  Evaluation evaluation(!training || Evaluation::active());
  return token_.logits(features(ids, at));
}

std::vector<PlacementRule> Gpt::placements() {
  return {{"tp", "blocks.*.attn.qkv.*", Shard(0, 3)},
          {"tp", "blocks.*.mlp.up.*", Shard(0)},
          {"tp", "blocks.*.{attn.out,mlp.down}.weight", Shard(1)}};
}

const Family& gpt() {
  static const Family row = family_of<GptOptions>(
      {.kind = "gpt",
       .about =
           "GPT-2: learned positions, pre-norm blocks, a head tied to the token table (Radford et al., 2019)",
       .output = Output::next_tokens,
       .task = "causal_lm",
       .make =
           [](Scope at, const GptOptions& options, Here line) {
             Gpt net(at, options, line);
             return Model{token_inputs(options.context, options.vocab),
                          [net](const std::vector<Tensor>& in) { return std::vector{net(in[0])}; },
                          options.vocab,
                          Gpt::placements(),
                          {},
                          true,
                          {},
                          [net](const std::vector<Tensor>& in) { return std::vector{net.features(in[0])}; }};
           },
       .errors =
           [](const GptOptions& o) {
             std::vector<std::string> out;
             add_multiple(out, "model.width", o.width, "model.heads", o.heads);
             return out;
           },
       .split_sizes =
           [](const GptOptions& o) {
             return std::vector<SplitSize>{{"model.heads", o.heads},
                                           {"the MLP's features (4 x model.width)", 4 * o.width},
                                           {"model.context", o.context}};
           },
       .rough = [](const GptOptions& o) { return rough_transformer(sizes(o), 4 * o.width); }});
  return row;
}

}  // namespace lockstep::models
