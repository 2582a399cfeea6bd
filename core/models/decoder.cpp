// Checks and sizes of decoders.
#include "core/models/decoder.h"

#include <cmath>

#include "core/base/error.h"
#include "core/nn/layers.h"

namespace lockstep::models {

Init residual_init(int64_t depth) {
  return init::normal(kInitStd / std::sqrt(2.0 * static_cast<double>(depth)));
}

void check_sizes(std::string_view who, const SourceLine& at, const DecoderSizes& o) {
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
std::vector<Field> token_inputs(int64_t context, int64_t vocab) {
  return {{"ids", DType::i32, {context}, vocab}};
}

RoughSize rough_transformer(const DecoderSizes& o, int64_t hidden) {
  auto d = [](int64_t value) { return static_cast<double>(value); };
  const double features = d(hidden), t = d(o.context);
  return {2 * d(o.vocab) * d(o.width) + t * d(o.width) +
              d(o.depth) * d(o.width) * (4 * d(o.width) + 3 * features),
          t * (4 * d(o.vocab) + d(o.depth) * (16 * d(o.width) + 4 * features + 2 * d(o.heads) * t))};
}

}  // namespace lockstep::models
