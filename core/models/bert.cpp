// BERT: an encoder of tokens that see all others, learned positions, norms behind the residual sums, a head
// tied to the token table. Devlin et al., arXiv 1810.04805.
//
// Shapes: B sequences of a micro-batch, T tokens (at most `context`), C = width, F = hidden, V = vocab. FQNs
// are those of Hugging Face's BertForMaskedLM; the segment of every token is 0.
//
//   bert.embeddings.word_embeddings.weight [V,C] (also the head)
//   bert.embeddings.position_embeddings.weight [context,C]
//   bert.embeddings.token_type_embeddings.weight [2,C]
//   bert.embeddings.LayerNorm.{weight,bias} [C]
//   bert.encoder.layer.I.attention.self.{query,key,value}.{weight [C,C],bias [C]}
//   bert.encoder.layer.I.attention.output.dense.{weight [C,C],bias [C]}
//   bert.encoder.layer.I.attention.output.LayerNorm.{weight,bias} [C]
//   bert.encoder.layer.I.intermediate.dense.{weight [F,C],bias [F]}
//   bert.encoder.layer.I.output.dense.{weight [C,F],bias [C]}
//   bert.encoder.layer.I.output.LayerNorm.{weight,bias} [C]
//   cls.predictions.transform.dense.{weight [C,C],bias [C]}
//   cls.predictions.transform.LayerNorm.{weight,bias} [C]      cls.predictions.bias [V]
//
// Initialisation: normal 0.02; biases 0; norms 1.
#include "core/base/error.h"
#include "core/models/decoder.h"
#include "core/models/families.h"
#include "core/models/heads.h"

namespace lockstep::models {

namespace {
struct BertOptions {
  int64_t vocab =
      key(&vocab, "vocab", 256, "number of token ids; text as bytes has 256", between(1, 0x1p31 - 1));
  int64_t context = key(&context, "context", 128, "tokens per sequence", between(1, 0x1p24));
  int64_t width =
      key(&width, "width", 128, "features per token; a multiple of model.heads", between(1, 0x1p20));
  int64_t depth = key(&depth, "depth", 4, "number of blocks", between(1, 1024));
  int64_t heads = key(&heads, "heads", 4, "attention heads", between(1, 0x1p20));
  int64_t hidden =
      key(&hidden, "hidden", 0, "features inside the MLP; 0 means 4 times the width", between(0, 0x1p24));
  double eps = key(&eps, "eps", 1e-12, "epsilon of the norms", above(0));
  double dropout =
      key(&dropout, "dropout", 0.0, "share of activations that is dropped in training", from_below(0, 1));
};
DecoderSizes sizes(const BertOptions& o) {
  return {o.vocab, o.context, o.width, o.depth, o.heads, o.eps, o.dropout};
}
int64_t hidden_of(const BertOptions& o) { return o.hidden ? o.hidden : 4 * o.width; }

// norm(x + attn(x)), then norm(x + dense(gelu(dense(x)))). [B,T,C] -> same
class Block {
 public:
  Block(const Scope& at, const BertOptions& o)
      : heads_(o.heads),
        query_(at / "attention" / "self" / "query", o.width, o.width),
        key_(at / "attention" / "self" / "key", o.width, o.width),
        value_(at / "attention" / "self" / "value", o.width, o.width),
        out_(at / "attention" / "output" / "dense", o.width, o.width),
        norm1_(at / "attention" / "output" / "LayerNorm", o.width, o.eps),
        up_(at / "intermediate" / "dense", o.width, hidden_of(o)),
        down_(at / "output" / "dense", hidden_of(o), o.width),
        norm2_(at / "output" / "LayerNorm", o.width, o.eps),
        dropout_(at / "dropout", o.dropout) {}
  Tensor operator()(Tensor x) const {
    Tensor q = to_heads(query_(x), heads_), k = to_heads(key_(x), heads_), v = to_heads(value_(x), heads_);
    x = norm1_(x + dropout_(out_(from_heads(sdpa(q, k, v, /*causal=*/false)))));
    return norm2_(x + dropout_(down_(gelu_erf(up_(x)))));
  }

 private:
  int64_t heads_;
  Linear query_, key_, value_, out_;
  LayerNorm norm1_;
  Linear up_, down_;
  LayerNorm norm2_;
  Dropout dropout_;
};

class Bert {
 public:
  Bert(const Scope& at, const BertOptions& o, Here line)
      : context_(o.context),
        token_(at / "bert" / "embeddings" / "word_embeddings", o.vocab, o.width, init::normal(kInitStd),
               line),
        position_(at / "bert" / "embeddings" / "position_embeddings", o.context, o.width),
        segment_(at / "bert" / "embeddings" / "token_type_embeddings", 2, o.width),
        norm_(at / "bert" / "embeddings" / "LayerNorm", o.width, o.eps),
        dropout_(at / "bert" / "embeddings" / "dropout", o.dropout),
        blocks_(at / "bert" / "encoder" / "layer", o.depth, o),
        head_(at / "cls" / "predictions" / "transform" / "dense", o.width, o.width),
        head_norm_(at / "cls" / "predictions" / "transform" / "LayerNorm", o.width, o.eps),
        bias_((at / "cls" / "predictions").parameter("bias", {o.vocab}, init::zeros(), line)) {}
  Tensor operator()(Tensor ids, Here at = Here::current()) const {
    check_ids("bert", ids, context_, at);
    Tensor tokens = token_(ids), places = position_(iota(ids, {ids.size(1)}, 0, DType::i32)),
           segment = select(segment_.weight.computed(ids), 0, 0);
    Tensor x = blocks_(dropout_(norm_(tokens + (places + segment))));
    Tensor y = head_norm_(gelu_erf(head_(x)));
    Tensor table = token_.weight.computed(y), bias = bias_.computed(y);
    return linear(y, table, bias);
  }

 private:
  int64_t context_;
  Embedding token_, position_, segment_;
  LayerNorm norm_;
  Dropout dropout_;
  Stack<Block> blocks_;
  Linear head_;
  LayerNorm head_norm_;
  Parameter bias_;
};

Model make(Scope at, const BertOptions& o, Here line) {
  Bert net(at, o, line);
  std::vector<PlacementRule> tp = {
      {"tp", "bert.encoder.layer.*.attention.self.*.*", Shard(0)},
      {"tp", "bert.encoder.layer.*.intermediate.dense.*", Shard(0)},
      {"tp", "bert.encoder.layer.*.{attention.output,output}.dense.weight", Shard(1)}};
  return {token_inputs(o.context), [net](const std::vector<Tensor>& in) { return std::vector{net(in[0])}; },
          o.vocab, tp};
}
}  // namespace

const Family& bert() {
  static const Family row = family_of<BertOptions>(
      {.kind = "bert",
       .about = "BERT: an encoder of tokens that see all others, learned positions, post-norm (Devlin et "
                "al., 2018)",
       .output = Output::tokens,
       .task = "masked_lm",
       .make = make,
       .errors =
           [](const BertOptions& o) {
             std::vector<std::string> out;
             add_multiple(out, "model.width", o.width, "model.heads", o.heads);
             return out;
           },
       .split_sizes =
           [](const BertOptions& o) {
             return std::vector<SplitSize>{
                 {"model.heads", o.heads},
                 {o.hidden ? "model.hidden" : "the MLP's features (4 x model.width)", hidden_of(o)},
                 {"model.context", o.context}};
           },
       .rough = [](const BertOptions& o) { return rough_transformer(sizes(o), hidden_of(o)); }});
  return row;
}

}  // namespace lockstep::models
