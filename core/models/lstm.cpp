// A language model of stacked LSTMs. Hochreiter and Schmidhuber, 1997; Zaremba et al., arXiv 1409.2329. The
// state of a sequence starts with zeros.
//
// Shapes: C = width, H = hidden, V = vocab. FQNs are those of PyTorch's word_language_model.
//
//   encoder.weight [V,C]
//   rnn.weight_ih_lI [4H,C or H]    rnn.weight_hh_lI [4H,H]    rnn.{bias_ih,bias_hh}_lI [4H]
//   decoder.{weight [V,H],bias [V]}
//
// Initialisation: encoder and decoder uniform in +-0.1, the decoder's bias 0; rnn uniform in +-1 / sqrt(H).
#include "core/base/error.h"
#include "core/models/decoder.h"
#include "core/models/families.h"
#include "core/nn/recurrent.h"

namespace lockstep::models {

namespace {
struct LstmOptions {
  int64_t vocab =
      key(&vocab, "vocab", 256, "number of token ids; text as bytes has 256", between(1, 0x1p31 - 1));
  int64_t context =
      key(&context, "context", 32, "tokens per sequence; compile time grows with them", between(1, 0x1p24));
  int64_t width = key(&width, "width", 128, "features per token", between(1, 0x1p20));
  int64_t hidden =
      key(&hidden, "hidden", 0, "features of an LSTM's state; 0 means the width", between(0, 0x1p20));
  int64_t depth = key(&depth, "depth", 2, "number of LSTMs, one on another", between(1, 64));
  double dropout =
      key(&dropout, "dropout", 0.0, "share of activations that is dropped in training", from_below(0, 1));
};
int64_t hidden_of(const LstmOptions& o) { return o.hidden ? o.hidden : o.width; }

class LstmModel {
 public:
  LstmModel(const Scope& at, const LstmOptions& o)
      : context_(o.context),
        encoder_(at / "encoder", o.vocab, o.width, init::uniform(-0.1, 0.1)),
        dropout_(at / "dropout", o.dropout),
        rnn_(at / "rnn", o.width, hidden_of(o), o.depth, o.dropout),
        decoder_(at / "decoder", hidden_of(o), o.vocab, true, init::uniform(-0.1, 0.1)) {}
  Tensor operator()(Tensor ids, Here at = Here::current()) const {
    check_ids("lstm", ids, context_, at);
    return decoder_(dropout_(rnn_(dropout_(encoder_(ids)))));
  }

 private:
  int64_t context_;
  Embedding encoder_;
  Dropout dropout_;
  Lstm rnn_;
  Linear decoder_;
};
}  // namespace

const Family& lstm() {
  static const Family row = family_of<LstmOptions>(
      {.kind = "lstm",
       .about = "stacked LSTMs over tokens (Hochreiter and Schmidhuber, 1997)",
       .output = Output::next_tokens,
       .task = "causal_lm",
       .make =
           [](Scope at, const LstmOptions& o, Here) {
             LstmModel net(at, o);
             return Model{token_inputs(o.context, o.vocab),
                          [net](const std::vector<Tensor>& in) { return std::vector{net(in[0])}; }, o.vocab};
           },
       .rough =
           [](const LstmOptions& o) {
             auto d = [](int64_t value) { return static_cast<double>(value); };
             const double h = d(hidden_of(o)), c = d(o.width), v = d(o.vocab), t = d(o.context);
             return RoughSize{v * (c + h + 1) + d(o.depth) * 4 * h * (std::max(c, h) + h + 2),
                              t * (4 * v + d(o.depth) * 12 * h)};
           }});
  return row;
}

}  // namespace lockstep::models
