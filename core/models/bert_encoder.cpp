// BERT's encoder, and the parts that its families share.
#include "core/models/bert.h"

#include "core/models/heads.h"

namespace lockstep::models {

namespace {
int64_t hidden_of(const BertKeys& keys) { return keys.hidden ? keys.hidden : 4 * keys.width; }
}  // namespace

BertBlock::BertBlock(const Scope& at, const BertKeys& keys)
    : heads_(keys.heads),
      query_(at / "attention" / "self" / "query", keys.width, keys.width),
      key_(at / "attention" / "self" / "key", keys.width, keys.width),
      value_(at / "attention" / "self" / "value", keys.width, keys.width),
      out_(at / "attention" / "output" / "dense", keys.width, keys.width),
      norm1_(at / "attention" / "output" / "LayerNorm", keys.width, keys.eps),
      up_(at / "intermediate" / "dense", keys.width, hidden_of(keys)),
      down_(at / "output" / "dense", hidden_of(keys), keys.width),
      norm2_(at / "output" / "LayerNorm", keys.width, keys.eps),
      dropout_(at / "dropout", keys.dropout) {}

Tensor BertBlock::operator()(Tensor x, const Tensor& lengths) const {
  Tensor q = to_heads(query_(x), heads_), k = to_heads(key_(x), heads_), v = to_heads(value_(x), heads_);
  Tensor seen = from_heads(sdpa(q, k, v, AttentionOptions{.lengths = lengths}));
  x = norm1_(x + dropout_(out_(seen)));
  return norm2_(x + dropout_(down_(gelu_erf(up_(x)))));
}

BertEncoder::BertEncoder(std::string_view who, const Scope& at, const BertKeys& keys, Here line)
    : who_(who),
      context_(keys.context),
      token_(at / "embeddings" / "word_embeddings", keys.vocab, keys.width, init::normal(kInitStd), line),
      position_(at / "embeddings" / "position_embeddings", keys.context, keys.width),
      segment_(at / "embeddings" / "token_type_embeddings", 2, keys.width),
      norm_(at / "embeddings" / "LayerNorm", keys.width, keys.eps),
      dropout_(at / "embeddings" / "dropout", keys.dropout) {
  for (int64_t i = 0; i < keys.depth; ++i) blocks_.emplace_back(at / "encoder" / "layer" / i, keys);
}

Tensor BertEncoder::operator()(Tensor ids, const Tensor& lengths, const Tensor& segments, Here at) const {
  check_ids(who_, ids, context_, at);
  Tensor tokens = token_(ids), places = position_(iota(ids, {ids.size(1)}, 0, DType::i32)),
         segment = segments.defined() ? segment_(segments) : select(segment_.weight.computed(ids), 0, 0);
  Tensor x = dropout_(norm_(tokens + (places + segment)));
  for (const BertBlock& block : blocks_) x = block(x, lengths);
  return x;
}

std::vector<PlacementRule> bert_placements() {
  return {{"tp", "bert.encoder.layer.*.attention.self.*.*", Shard(0)},
          {"tp", "bert.encoder.layer.*.intermediate.dense.*", Shard(0)},
          {"tp", "bert.encoder.layer.*.{attention.output,output}.dense.weight", Shard(1)}};
}
std::vector<std::string> bert_errors(const BertKeys& keys) {
  std::vector<std::string> out;
  add_multiple(out, "model.width", keys.width, "model.heads", keys.heads);
  return out;
}
std::vector<SplitSize> bert_split_sizes(const BertKeys& keys) {
  return {{"model.heads", keys.heads},
          {keys.hidden ? "model.hidden" : "the MLP's features (4 x model.width)", hidden_of(keys)},
          {"model.context", keys.context}};
}
RoughSize bert_rough(const BertKeys& keys) {
  return rough_transformer(
      {keys.vocab, keys.context, keys.width, keys.depth, keys.heads, keys.eps, keys.dropout},
      hidden_of(keys));
}

}  // namespace lockstep::models
