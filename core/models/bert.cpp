// BERT for masked tokens: the encoder of bert.h with a head tied to the token table. Devlin et al., arXiv
// 1810.04805.
//
// FQNs, those of Hugging Face's BertForMaskedLM: those of bert.h, and
//
//   cls.predictions.transform.dense.{weight [C,C],bias [C]}
//   cls.predictions.transform.LayerNorm.{weight,bias} [C]      cls.predictions.bias [V]
#include "core/models/bert.h"

#include "core/models/families.h"

namespace lockstep::models {

namespace {
struct BertOptions : BertKeys {};

class Bert {
 public:
  Bert(const Scope& at, const BertOptions& o, Here line)
      : encoder_("bert", at / "bert", o, line),
        head_(at / "cls" / "predictions" / "transform" / "dense", o.width, o.width),
        head_norm_(at / "cls" / "predictions" / "transform" / "LayerNorm", o.width, o.eps),
        bias_((at / "cls" / "predictions").parameter("bias", {o.vocab}, init::zeros(), line)) {}
  Tensor features(Tensor ids, Here at = Here::current()) const { return encoder_(ids, {}, {}, at); }
  Tensor operator()(Tensor ids, Here at = Here::current()) const {
    Tensor x = features(ids, at);
    Tensor y = head_norm_(gelu_erf(head_(x)));
    Tensor table = encoder_.table().computed(y), bias = bias_.computed(y);
    return linear(y, table, bias);
  }

 private:
  BertEncoder encoder_;
  Linear head_;
  LayerNorm head_norm_;
  Parameter bias_;
};

Model make(Scope at, const BertOptions& o, Here line) {
  Bert net(at, o, line);
  return {token_inputs(o.context, o.vocab),
          [net](const std::vector<Tensor>& in) { return std::vector{net(in[0])}; },
          o.vocab,
          bert_placements(),
          {},
          false,
          {},
          [net](const std::vector<Tensor>& in) { return std::vector{net.features(in[0])}; }};
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
       .errors = [](const BertOptions& o) { return bert_errors(o); },
       .split_sizes = [](const BertOptions& o) { return bert_split_sizes(o); },
       .rough = [](const BertOptions& o) { return bert_rough(o); }});
  return row;
}

}  // namespace lockstep::models
