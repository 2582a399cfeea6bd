// A library for compile.load_ops: a family of models and a task, which a config then names as those of
// trainrun.
#include "lockstep.h"

namespace {
using namespace lockstep;

struct PairOptions {
  int64_t vocab = key(&vocab, "vocab", 256, "number of token ids", between(1, 0x1p31 - 1));
  int64_t context = key(&context, "context", 16, "tokens per sequence", between(1, 0x1p20));
  int64_t features = key(&features, "features", 8, "features per token", between(1, 4096));
  int64_t pairs = key(&pairs, "pairs", 4, "hidden features for each of a token's", between(1, 64));
  double keep = key(&keep, "keep", 0.5, "share of the token before that is seen", between(0, 1));
};

// Logits of the next token from a token and the one before it, through one hidden layer.
//   table.weight [vocab,features], up.{weight,bias}, down.{weight,bias}
struct Pair {
  Pair(Scope at, const PairOptions& o)
      : table(at / "table", o.vocab, o.features),
        up(at / "up", o.features, o.features * o.pairs),
        down(at / "down", o.features * o.pairs, o.vocab),
        keep(o.keep) {}
  Tensor operator()(Tensor ids) const {
    Tensor x = table(ids);
    x = x + roll(x, 1, 1) * keep;
    return down(relu(up(x)));
  }
  Embedding table;
  Linear up, down;
  double keep;
};

models::Family pair() {
  return models::family_of<PairOptions>(
      {.kind = "pair",
       .about = "a token and the one before it, through one hidden layer",
       .output = models::Output::next_tokens,
       .task = "sharp_lm",
       .make =
           [](Scope at, const PairOptions& o, Here) {
             Pair net(at, o);
             return models::Model{
                 .inputs = {{"ids", DType::i32, {o.context}, o.vocab}},
                 .forward = [net](const std::vector<Tensor>& in) { return std::vector{net(in[0])}; },
                 .classes = o.vocab,
                 .placements = {{"tp", "up.*", Shard(0)}, {"tp", "down.weight", Shard(1)}}};
           },
       .errors =
           [](const PairOptions& o) {
             return o.features % 2 ? std::vector<std::string>{str("model.features is ", o.features,
                                                                  ", which is odd; choose an even number")}
                                   : std::vector<std::string>{};
           },
       .split_sizes =
           [](const PairOptions& o) {
             return std::vector<models::SplitSize>{{"model.features x model.pairs", o.features * o.pairs},
                                                   {"model.context", o.context}};
           }});
}

struct SharpOptions {
  double temperature = key(&temperature, "temperature", 1.0, "logits are divided by it", above(0));
};

tasks::Task sharp_lm() {
  return tasks::task_of<SharpOptions>(
      {.kind = "sharp_lm",
       .about = "the next token at a temperature",
       .takes = {models::Output::next_tokens},
       .unit = "token",
       .perplexity = true,
       .fields =
           [](const models::Model& model, const SharpOptions&) {
             std::vector<models::Field> out = model.inputs;
             out.push_back({"targets", DType::i32, model.inputs[0].shape, model.classes});
             return out;
           },
       .objectives =
           [](const models::Model& model, const tasks::Batch& batch, const SharpOptions& o) {
             const Tensor logits = model.forward({batch["ids"]})[0] / o.temperature;
             metric("right", mean_loss(convert(argmax(logits, -1) == batch["targets"], DType::f32)));
             return std::vector<tasks::Objective>{{cross_entropy(logits, batch["targets"])}};
           }});
}
}  // namespace

LOCKSTEP_OP_LIBRARY {
  models::register_model(pair());
  tasks::register_task(sharp_lm());
}
