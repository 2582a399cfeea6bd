// gpt and llama. The legend of shapes and FQNs is at the head of models.h.
#include "core/nn/models.h"

#include <cmath>

#include "core/base/error.h"

namespace lockstep::models {

namespace {
Init residual(int64_t depth) { return init::normal(kInitStd / std::sqrt(2.0 * static_cast<double>(depth))); }

template <class Options>
void check_sizes(std::string_view who, const SourceLine& at, const Options& o) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"vocab", o.vocab}, {"context", o.context}, {"width", o.width}, {"depth", o.depth}, {"heads", o.heads}};
  for (auto [name, size] : sizes)
    if (size < 1)
      throw UserError(str("[", who, "] ", at.text(), ": ", name, " is ", size, "; it must be at least 1"));
  if (!(o.eps > 0))
    throw UserError(str("[", who, "] ", at.text(), ": eps is ", number_text(o.eps), "; it must be above 0"));
  if (!(o.dropout >= 0 && o.dropout < 1))
    throw UserError(str("[", who, "] ", at.text(), ": dropout is ", number_text(o.dropout),
                        "; it must be at least 0 and less than 1"));
}

GptOptions checked(const GptOptions& o, Here line) {
  check_sizes("gpt", line_of(line), o);
  check_heads("gpt", line_of(line), o.width, o.heads, o.heads, /*rotary=*/false);
  return o;
}

LlamaOptions checked(LlamaOptions o, Here line) {
  check_sizes("llama", line_of(line), o);
  if (o.kv_heads < 0 || o.hidden < 0)
    throw UserError(str("[llama] ", line_of(line).text(), ": kv_heads is ", o.kv_heads, " and hidden is ",
                        o.hidden, "; they must be at least 0"));
  if (!(o.rope_theta > 0))
    throw UserError(str("[llama] ", line_of(line).text(), ": rope_theta is ", number_text(o.rope_theta),
                        "; it must be above 0"));
  if (!o.kv_heads) o.kv_heads = o.heads;
  if (!o.hidden) o.hidden = (8 * o.width + 3 * 64 - 1) / (3 * 64) * 64;
  check_heads("llama", line_of(line), o.width, o.heads, o.kv_heads, /*rotary=*/true);
  return o;
}

void check_ids(std::string_view who, const Tensor& ids, int64_t context, Here at) {
  if (!ids.defined() || ids.ndim() != 2 || ids.dtype() != DType::i32)
    throw UserError(str("[", who, "] ", line_of(at).text(), ": the ids are ",
                        ids.defined() ? ids.text() : "an empty Tensor",
                        "; they must be i32[sequences, tokens]"));
  if (ids.size(1) > context)
    throw UserError(str("[", who, "] ", line_of(at).text(), ": sequences of ", ids.size(1),
                        " tokens are longer than the context of ", context,
                        "; raise context or cut the sequences"));
}
}  // namespace

GptBlock::GptBlock(Scope at, const GptOptions& o)
    : norm1(at / "norm1", o.width, o.eps),
      attn(at / "attn", o.width, o.heads, residual(o.depth)),
      norm2(at / "norm2", o.width, o.eps),
      up(at / "mlp" / "up", o.width, 4 * o.width),
      down(at / "mlp" / "down", 4 * o.width, o.width, true, residual(o.depth)),
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

Tensor Gpt::operator()(Tensor ids, bool training, Here at) const {
  check_ids("gpt", ids, options_.context, at);
  Evaluation evaluation(!training || Evaluation::active());
  Tensor tokens = token_(ids);                                         // [B,T,C]
  Tensor places = position_(iota(ids, {ids.size(1)}, 0, DType::i32));  // [T,C]
  return token_.logits(norm_(blocks_(dropout_(tokens + places))));
}

std::vector<PlacementRule> Gpt::placements() {
  return {{"tp", "blocks.*.attn.qkv.*", Shard(0, 3)},
          {"tp", "blocks.*.mlp.up.*", Shard(0)},
          {"tp", "blocks.*.{attn.out,mlp.down}.weight", Shard(1)}};
}

LlamaBlock::LlamaBlock(Scope at, const LlamaOptions& o)
    : norm1(at / "norm1", o.width, o.eps),
      attn(at / "attn", o.width, o.heads, o.kv_heads, o.rope_theta, residual(o.depth)),
      norm2(at / "norm2", o.width, o.eps),
      gate(at / "mlp" / "gate", o.width, o.hidden, false),
      up(at / "mlp" / "up", o.width, o.hidden, false),
      down(at / "mlp" / "down", o.hidden, o.width, false, residual(o.depth)),
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

Model model_from(Scope at, const ModelOptions& o, Here line) {
  if (o.kind == "gpt") {
    Gpt gpt(at,
            {.vocab = o.vocab,
             .context = o.context,
             .width = o.width,
             .depth = o.depth,
             .heads = o.heads,
             .eps = o.eps,
             .dropout = o.dropout},
            line);
    return {[gpt](Tensor ids, bool training) { return gpt(ids, training); }, Gpt::placements()};
  }
  if (o.kind == "llama") {
    Llama llama(at,
                {.vocab = o.vocab,
                 .context = o.context,
                 .width = o.width,
                 .depth = o.depth,
                 .heads = o.heads,
                 .kv_heads = o.kv_heads,
                 .hidden = o.hidden,
                 .rope_theta = o.rope_theta,
                 .eps = o.eps,
                 .dropout = o.dropout},
                line);
    return {[llama](Tensor ids, bool training) { return llama(ids, training); }, Llama::placements()};
  }
  std::string near = nearest(o.kind, {"gpt", "llama"});
  throw UserError(str("[model] no model is called \"", o.kind, "\"",
                      near.empty() ? "" : str("; did you mean \"", near, "\"?"), "; kinds: gpt, llama"));
}

}  // namespace lockstep::models
