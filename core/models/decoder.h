// Code that token decoders share: checks, and fields of their Family rows.
#pragma once

#include "core/models/family.h"
#include "core/nn/attention.h"

namespace lockstep::models {

// The init of projections that add to the residual stream: normal 0.02 / sqrt(2 depth). Radford et al., 2019.
Init residual_init(int64_t depth);

// Throws UserError, naming `who` and the line, if a size is below 1, eps is not above 0, or dropout is not in
// [0, 1).
struct DecoderSizes {
  int64_t vocab, context, width, depth, heads;
  double eps, dropout;
};
void check_sizes(std::string_view who, const SourceLine& at, const DecoderSizes& sizes);
// UserError when ids are not i32 [sequences, tokens], or longer than the context.
void check_ids(std::string_view who, const Tensor& ids, int64_t context, Here at);

// {"ids" i32 [context]}, below `vocab`.
std::vector<Field> token_inputs(int64_t context, int64_t vocab);
// Estimates the size with `hidden` features in the MLP; each head keeps context^2 scores.
RoughSize rough_transformer(const DecoderSizes& sizes, int64_t hidden);

}  // namespace lockstep::models
