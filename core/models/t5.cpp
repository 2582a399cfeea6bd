// T5: an encoder and a decoder that reads it. Learned biases of the distance between tokens replace
// positions, RMSNorm precedes each part, scores have no scale, and the head is the token table with a scaled
// input. Raffel et al., arXiv 1910.10683.
//
// Shapes: B pairs of a micro-batch, S source tokens (at most `source_context`), T tokens (at most `context`),
// C = width, H heads of D = head_dim, F = hidden, V = vocab. FQNs are those of Hugging Face's
// T5ForConditionalGeneration; below E is encoder.block.I, R decoder.block.I.
//
//   shared.weight [V,C] (of both sides, and the head)
//   {E,R}.layer.0.SelfAttention.{q,k,v}.weight [H D,C]    {E,R}.layer.0.SelfAttention.o.weight [C,H D]
//   {encoder,decoder}.block.0.layer.0.SelfAttention.relative_attention_bias.weight [buckets,H]
//   R.layer.1.EncDecAttention.{q,k,v,o}.weight, as in layer.0
//   E.layer.1.DenseReluDense.{wi [F,C],wo [C,F]}.weight   R.layer.2.DenseReluDense.{wi,wo}.weight
//   {E,R}.layer.J.layer_norm.weight [C]                   {encoder,decoder}.final_layer_norm.weight [C]
//
// Initialisation: normal, of shared 1, q (C D)^-0.5, k, v, wi and the biases C^-0.5, o (H D)^-0.5, wo F^-0.5;
// norms 1.
#include <cmath>

#include "core/base/error.h"
#include "core/models/decoder.h"
#include "core/models/families.h"
#include "core/models/heads.h"

namespace lockstep::models {

namespace {
struct T5Options {
  int64_t vocab =
      key(&vocab, "vocab", 256, "number of token ids; text as bytes has 256", between(1, 0x1p31 - 1));
  int64_t source_context = key(&source_context, "source_context", 128,
                               "tokens of a sequence that the encoder reads", between(1, 0x1p24));
  int64_t context =
      key(&context, "context", 128, "tokens of a sequence that the decoder writes", between(1, 0x1p24));
  int64_t width = key(&width, "width", 128, "features per token", between(1, 0x1p20));
  int64_t depth =
      key(&depth, "depth", 4, "number of blocks, of the encoder and of the decoder", between(1, 1024));
  int64_t heads = key(&heads, "heads", 4, "attention heads", between(1, 0x1p20));
  int64_t head_dim = key(&head_dim, "head_dim", 0, "features of a head; 0 means model.width / model.heads",
                         between(0, 0x1p16));
  int64_t hidden =
      key(&hidden, "hidden", 0, "features inside the MLP; 0 means 4 times the width", between(0, 0x1p24));
  int64_t buckets =
      key(&buckets, "buckets", 32, "classes of distances between tokens, an even number", between(4, 4096));
  int64_t max_distance =
      key(&max_distance, "max_distance", 128, "distances from this on are one class", between(2, 0x1p20));
  double eps = key(&eps, "eps", 1e-6, "epsilon of the norms", above(0));
  double dropout =
      key(&dropout, "dropout", 0.0, "share of activations that is dropped in training", from_below(0, 1));
};
DecoderSizes sizes(const T5Options& o) {
  return {o.vocab, o.context, o.width, o.depth, o.heads, o.eps, o.dropout};
}
// Replaces zeros by default sizes.
T5Options whole(T5Options o) {
  if (!o.head_dim) o.head_dim = o.width / std::max<int64_t>(o.heads, 1);
  if (!o.hidden) o.hidden = 4 * o.width;
  return o;
}
Init spread(int64_t inverse_variance) {
  return init::normal(1 / std::sqrt(static_cast<double>(inverse_variance)));
}

// The smallest distance of each class but the first: the first half of the classes have one distance each,
// the others grow in equal ratios.
std::vector<int64_t> class_starts(int64_t classes, int64_t max_distance) {
  const int64_t exact = classes / 2;
  std::vector<int64_t> starts;
  auto class_of = [&](int64_t distance) {
    if (distance < exact) return distance;
    const float ratio =
        std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
        static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact)));
    return std::min(classes - 1, exact + static_cast<int64_t>(ratio * static_cast<float>(classes - exact)));
  };
  for (int64_t distance = 1; static_cast<int64_t>(starts.size()) < classes - 1 && distance <= max_distance;
       ++distance)
    while (static_cast<int64_t>(starts.size()) < class_of(distance)) starts.push_back(distance);
  return starts;
}

// The bias of each head by the distance from token to key: [1,H,T,T]. In a decoder all later tokens, which
// are masked, share one class.
class DistanceBias {
 public:
  DistanceBias(const Scope& at, const T5Options& o, bool decoder)
      : options_(o),
        decoder_(decoder),
        table_(at / "relative_attention_bias", o.buckets, o.heads, spread(o.width)) {}
  Tensor operator()(Tensor beside, int64_t tokens) const {
    const Shape square{tokens, tokens};
    Tensor ahead = iota(beside, square, 1, DType::i32) - iota(beside, square, 0, DType::i32);
    const int64_t classes = decoder_ ? options_.buckets : options_.buckets / 2;
    Tensor distance = decoder_ ? -ahead : abs(ahead);
    Tensor found =
        decoder_ ? full_like(ahead, 0) : convert(ahead > 0, DType::i32) * static_cast<double>(classes);
    for (int64_t start : class_starts(classes, options_.max_distance))
      found = found + convert(distance >= static_cast<double>(start), DType::i32);
    return unsqueeze(permute(table_(found), {2, 0, 1}), 0);
  }

 private:
  T5Options options_;
  bool decoder_;
  Embedding table_;
};

class Attention {
 public:
  Attention(const Scope& at, const T5Options& o)
      : heads_(o.heads),
        q_(at / "q", o.width, o.heads * o.head_dim, false, spread(o.width * o.head_dim)),
        k_(at / "k", o.width, o.heads * o.head_dim, false, spread(o.width)),
        v_(at / "v", o.width, o.heads * o.head_dim, false, spread(o.width)),
        out_(at / "o", o.heads * o.head_dim, o.width, false, spread(o.heads * o.head_dim)) {}
  Tensor operator()(Tensor x, Tensor of, Tensor bias, bool causal) const {
    Tensor q = to_heads(q_(x), heads_), k = to_heads(k_(of), heads_), v = to_heads(v_(of), heads_);
    AttentionOptions how;
    how.causal = causal, how.scale = 1;
    if (bias.defined()) how.bias = convert(bias, DType::f32);
    return out_(from_heads(sdpa(q, k, v, how)));
  }

 private:
  int64_t heads_;
  Linear q_, k_, v_, out_;
};

// x + part(norm(x)) for attention, in a decoder attention to the source, and an MLP of relu.
class T5Block {
 public:
  T5Block(const Scope& at, const T5Options& o, bool decoder)
      : self_(at / "layer" / 0 / "SelfAttention", o),
        self_norm_(at / "layer" / 0 / "layer_norm", o.width, o.eps) {
    if (decoder) {
      cross_.emplace_back(at / "layer" / 1 / "EncDecAttention", o);
      cross_norm_.emplace_back(at / "layer" / 1 / "layer_norm", o.width, o.eps);
    }
    const Scope mlp = at / "layer" / (decoder ? 2 : 1);
    mlp_.emplace_back(mlp / "DenseReluDense" / "wi", o.width, o.hidden, false, spread(o.width));
    mlp_.emplace_back(mlp / "DenseReluDense" / "wo", o.hidden, o.width, false, spread(o.hidden));
    mlp_norm_.emplace_back(mlp / "layer_norm", o.width, o.eps);
    dropout_.emplace_back(at / "dropout", o.dropout);
  }
  // `source` is empty in an encoder.
  Tensor operator()(Tensor x, Tensor source, Tensor bias) const {
    const Dropout& dropout = dropout_[0];
    Tensor y = self_norm_(x);
    x = x + dropout(self_(y, y, std::move(bias), /*causal=*/!cross_.empty()));
    if (!cross_.empty()) x = x + dropout(cross_[0](cross_norm_[0](x), source, {}, false));
    return x + dropout(mlp_[1](dropout(relu(mlp_[0](mlp_norm_[0](x))))));
  }

 private:
  Attention self_;
  RmsNorm self_norm_;
  std::vector<Attention> cross_;  // one in a decoder
  std::vector<RmsNorm> cross_norm_;
  std::vector<Linear> mlp_;
  std::vector<RmsNorm> mlp_norm_;
  std::vector<Dropout> dropout_;
};

class Side {
 public:
  Side(const Scope& at, const T5Options& o, bool decoder)
      : bias_(at / "block" / 0 / "layer" / 0 / "SelfAttention", o, decoder),
        norm_(at / "final_layer_norm", o.width, o.eps),
        dropout_(at / "dropout", o.dropout) {
    for (int64_t i = 0; i < o.depth; ++i) blocks_.emplace_back(at / "block" / i, o, decoder);
  }
  Tensor operator()(Tensor x, Tensor source) const {
    Tensor bias = bias_(x, x.size(1));
    x = dropout_(x);
    for (const T5Block& block : blocks_) x = block(x, source, bias);
    return dropout_(norm_(x));
  }

 private:
  DistanceBias bias_;
  std::vector<T5Block> blocks_;
  RmsNorm norm_;
  Dropout dropout_;
};

class T5 {
 public:
  T5(const Scope& at, const T5Options& o, Here line)
      : options_(o),
        token_(at / "shared", o.vocab, o.width, init::normal(1), line),
        encoder_(at / "encoder", o, false),
        decoder_(at / "decoder", o, true) {}
  Tensor operator()(Tensor source, Tensor ids, Here at = Here::current()) const {
    check_ids("t5", source, options_.source_context, at);
    check_ids("t5", ids, options_.context, at);
    Tensor read = encoder_(token_(source), {});
    Tensor x = decoder_(token_(ids), read);
    return token_.logits(x * (1 / std::sqrt(static_cast<double>(options_.width))));
  }

 private:
  T5Options options_;
  Embedding token_;
  Side encoder_, decoder_;
};

std::vector<std::string> errors(const T5Options& o) {
  std::vector<std::string> out;
  if (!o.head_dim) add_multiple(out, "model.width", o.width, "model.heads", o.heads);
  add_multiple(out, "model.buckets", o.buckets, "two sides of a token", 2);
  if (o.max_distance <= o.buckets / 2)
    out.push_back(str("model.max_distance is ", o.max_distance, ", with ", o.buckets,
                      " model.buckets it must be above ", o.buckets / 2));
  return out;
}
Model make(Scope at, const T5Options& given, Here line) {
  const T5Options o = whole(given);
  T5 net(at, o, line);
  std::vector<PlacementRule> tp = {
      {"tp", "*.block.*.layer.*.*.{q,k,v,wi}.weight", Shard(0)},
      {"tp", "*.block.*.layer.*.*.{o,wo}.weight", Shard(1)},
      {"tp", "*.block.0.layer.0.SelfAttention.relative_attention_bias.weight", Shard(1)}};
  return {
      {{"ids", DType::i32, {o.source_context}, o.vocab}, {"decoder_ids", DType::i32, {o.context}, o.vocab}},
      [net](const std::vector<Tensor>& in) { return std::vector{net(in[0], in[1])}; },
      o.vocab,
      tp};
}
}  // namespace

const Family& t5() {
  static const Family row = family_of<T5Options>(
      {.kind = "t5",
       .about = "T5: an encoder and a decoder that reads it, biases of distances (Raffel et al., 2019)",
       .output = Output::sequences,
       .task = "seq2seq",
       .make = make,
       .errors = errors,
       .split_sizes =
           [](const T5Options& o) {
             return std::vector<SplitSize>{
                 {"model.heads", o.heads},
                 {o.hidden ? "model.hidden" : "the MLP's features (4 x model.width)", whole(o).hidden},
                 {"model.source_context", o.source_context},
                 {"model.context", o.context}};
           },
       .rough =
           [](const T5Options& o) {
             // The encoder and the decoder with its second attention: about three stacks of one's size.
             DecoderSizes size = sizes(o);
             size.depth *= 3, size.context = std::max(o.context, o.source_context);
             return rough_transformer(size, whole(o).hidden);
           }});
  return row;
}

}  // namespace lockstep::models
