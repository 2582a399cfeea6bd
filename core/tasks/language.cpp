// Tasks on token ids: causal_lm, masked_lm, seq2seq.
#include <algorithm>
#include <cmath>
#include <optional>

#include "core/functions/functions.h"
#include "core/nn/document_rows.h"
#include "core/nn/layers.h"
#include "core/nn/metric.h"
#include "core/tasks/all.h"

namespace lockstep::tasks {

namespace {
struct LanguageOptions {
  double label_smoothing =
      key(&label_smoothing, "label_smoothing", 0.0,
          "share of the target that is spread equally over all classes", from_below(0, 1));
  double z_loss = key(&z_loss, "z_loss", 0.0,
                      "weight of log(sum(e^logits))^2 of each target, added to the loss", at_least(0));
};

struct MaskedOptions {
  double mask_share =
      key(&mask_share, "mask_share", 0.15, "share of the tokens to predict", between(0.01, 0.9));
  int64_t mask_id = key(&mask_id, "mask_id", -1, "the id that hides a token; -1: the last of model.vocab",
                        between(-1, 0x1p31 - 1));
};

Loss language_loss(const Tensor& logits, const Tensor& targets, const LanguageOptions& o) {
  if (o.label_smoothing == 0 && o.z_loss == 0) return cross_entropy(logits, targets);
  return cross_entropy(logits, targets, {.smoothing = o.label_smoothing, .z_loss = o.z_loss});
}

std::vector<Field> with_targets(const Model& model) {
  std::vector<Field> out = model.inputs;
  out.push_back({"targets", DType::i32, model.inputs.back().shape, model.classes});
  return out;
}

// In evaluation the positions are fixed: equally spaced, from the fourth on.
Tensor chosen(const Tensor& ids, double share) {
  if (!Evaluation::active()) return uniform(ids, ids.shape()) < share;
  const auto every = static_cast<int64_t>(std::llround(1 / share));
  Tensor place = iota(ids, ids.shape(), 1, DType::i32);
  return place % every == std::min<int64_t>(3, every - 1);
}

// The model's inputs and the mask of special tokens, with the name and values of Hugging Face transformers.
std::vector<Field> with_special_tokens(const Model& model) {
  std::vector<Field> out = model.inputs;
  out.push_back({"special_tokens_mask", DType::i32, model.inputs[0].shape, 2, true});
  return out;
}

std::vector<Objective> masked(const Model& model, const Batch& batch, const MaskedOptions& o) {
  Tensor ids = batch["ids"];
  Tensor told = chosen(ids, o.mask_share) & (batch["special_tokens_mask"] == 0);
  const bool training = !Evaluation::active();
  // 8 of 10 are hidden, one is another token, one stays: Devlin et al., arXiv 1810.04805.
  auto trace = [&](int64_t vocab) {
    Tensor mask = full_like(ids, static_cast<double>(o.mask_id < 0 ? vocab - 1 : o.mask_id));
    if (!training) return where(told, mask, ids);
    Tensor draw = uniform(ids, ids.shape());
    Tensor other = randint(ids, ids.shape(), 0, vocab);
    return where(told, where(draw < 0.8, mask, where(draw < 0.9, other, ids)), ids);
  };
  Tensor logits = model.forward({trace(model.classes)})[0];
  Tensor targets = where(told, ids, full_like(ids, static_cast<double>(kIgnoreIndex)));
  metric("accuracy", mean_loss(convert(argmax(logits, -1) == ids, DType::f32), told));
  return {{cross_entropy(logits, targets)}};
}
}  // namespace

const Task& causal_lm() {
  static const Task row = task_of<LanguageOptions>(
      {.kind = "causal_lm",
       .about = "the next token of a text, at each position: cross-entropy, perplexity",
       .takes = {Output::next_tokens},
       .unit = "token",
       .perplexity = true,
       .fields = [](const Model& model, const LanguageOptions&) { return with_targets(model); },
       .objectives =
           [](const Model& model, const Batch& batch, const LanguageOptions& o) {
             std::optional<DocumentRows> rows;
             if (batch.has("documents")) rows.emplace(batch["documents"], batch["positions"]);
             return std::vector<Objective>{
                 {language_loss(model.forward({batch["ids"]})[0], batch["targets"], o)}};
           }});
  return row;
}

const Task& masked_lm() {
  static const Task row = task_of<MaskedOptions>(
      {.kind = "masked_lm",
       .about = "hidden tokens of a text: cross-entropy, accuracy (Devlin et al., 2018)",
       .takes = {Output::tokens},
       .unit = "token",
       .perplexity = true,
       .fields = [](const Model& model, const MaskedOptions&) { return with_special_tokens(model); },
       .objectives = masked});
  return row;
}

const Task& seq2seq() {
  static const Task row = task_of<LanguageOptions>(
      {.kind = "seq2seq",
       .about = "a sequence after a sequence: cross-entropy of the second one, perplexity",
       .takes = {Output::sequences},
       .unit = "token",
       .perplexity = true,
       .fields = [](const Model& model, const LanguageOptions&) { return with_targets(model); },
       .objectives =
           [](const Model& model, const Batch& batch, const LanguageOptions& o) {
             return std::vector<Objective>{
                 {language_loss(model.forward(batch.of(model.inputs))[0], batch["targets"], o)}};
           }});
  return row;
}

}  // namespace lockstep::tasks
