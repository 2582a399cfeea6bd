// The list of families.
#include "core/models/families.h"

#include "core/nn/layers.h"

namespace lockstep::models {

std::span<const Family* const> families() {
  static const Family* const all[] = {
      &gpt(),  &llama(), &qwen(), &gemma(),  &mistral(),  &bert(), &bert_classifier(),
      &t5(),   &lstm(),  &vit(),  &resnet(), &convnext(), &unet(), &mixer(),
      &dlrm(), &vae(),   &dcgan()};
  return all;
}

std::vector<std::string> family_names() {
  std::vector<std::string> out;
  for (const Family* row : families()) out.emplace_back(row->kind);
  return out;
}

const Family& family(std::string_view kind) {
  for (const Family* row : families())
    if (row->kind == kind) return *row;
  const std::string near = nearest(kind, family_names());
  throw UserError(str("[model] no model is called \"", shortened(std::string(kind), 120), "\"",
                      near.empty() ? "" : str("; did you mean \"", near, "\"?"),
                      "; kinds: ", join(family_names(), ", ")));
}

Model build(Scope at, std::string_view kind, const Json& options, Here line) {
  return family(kind).make(at, options, line);
}

Tensor Model::logits(Tensor ids, bool training) const {
  Evaluation evaluation(!training || Evaluation::active());
  return forward({ids})[0];
}

std::string_view words(Output output) {
  switch (output) {
    case Output::next_tokens:
      return "logits of the next token";
    case Output::tokens:
      return "logits of each token, which sees all";
    case Output::sequences:
      return "logits of a decoder's next token";
    case Output::classes:
      return "logits of classes";
    case Output::values:
      return "values";
    case Output::pixels:
      return "logits of each pixel";
    case Output::reconstruction:
      return "its input again";
    case Output::adversaries:
      return "a generator and a discriminator";
  }
  return "";
}

}  // namespace lockstep::models
