// BERT for classes of texts, and of pairs of texts. The first token's output of the encoder of bert.h passes
// a dense layer with tanh (the pooler) and dropout, then a linear layer gives a logit per class. Devlin et
// al., arXiv 1810.04805.
//
// K = classes. FQNs, those of Hugging Face's BertForSequenceClassification: those of bert.h, and
//
//   bert.pooler.dense.{weight [C,C],bias [C]}      classifier.{weight [K,C],bias [K]}
//
// Initialisation: as bert.h.
#include "core/models/bert.h"
#include "core/models/families.h"

namespace lockstep::models {

namespace {
struct BertClassifierOptions : BertKeys {
  int64_t classes = key(&classes, "classes", 2, "classes of a text", between(1, 0x1p24));
};

class BertClassifier {
 public:
  BertClassifier(const Scope& at, const BertClassifierOptions& o, Here line)
      : encoder_("bert_classifier", at / "bert", o, line),
        pooler_(at / "bert" / "pooler" / "dense", o.width, o.width),
        dropout_(at / "dropout", o.dropout),
        classifier_(at / "classifier", o.width, o.classes) {}
  Tensor features(Tensor ids, const Tensor& lengths, const Tensor& segments,
                  Here at = Here::current()) const {
    return encoder_(ids, lengths, segments, at);
  }
  Tensor operator()(Tensor ids, const Tensor& lengths, const Tensor& segments,
                    Here at = Here::current()) const {
    Tensor first = select(features(ids, lengths, segments, at), 1, 0);
    return classifier_(dropout_(tanh(pooler_(first))));
  }

 private:
  BertEncoder encoder_;
  Linear pooler_;
  Dropout dropout_;
  Linear classifier_;
};

Model make(Scope at, const BertClassifierOptions& o, Here line) {
  BertClassifier net(at, o, line);
  std::vector<Field> inputs = token_inputs(o.context, o.vocab);
  inputs.push_back({"lengths", DType::i32, {}, o.context + 1});
  inputs.push_back({"token_type_ids", DType::i32, {o.context}, 2, true});
  return {inputs,
          [net](const std::vector<Tensor>& in) { return std::vector{net(in[0], in[1], in[2])}; },
          o.classes,
          bert_placements(),
          {},
          false,
          {},
          [net](const std::vector<Tensor>& in) {
            return std::vector{net.features(in[0], in[1], in[2])}; }};
}
}  // namespace

const Family& bert_classifier() {
  static const Family row = family_of<BertClassifierOptions>(
      {.kind = "bert_classifier",
       .about = "BERT for classes of texts and of pairs: its encoder, a pooler of the first token (Devlin et "
                "al., 2018)",
       .output = Output::classes,
       .task = "classification",
       .make = make,
       .errors = [](const BertClassifierOptions& o) { return bert_errors(o); },
       .split_sizes = [](const BertClassifierOptions& o) { return bert_split_sizes(o); },
       .rough = [](const BertClassifierOptions& o) { return bert_rough(o); }});
  return row;
}

}  // namespace lockstep::models
