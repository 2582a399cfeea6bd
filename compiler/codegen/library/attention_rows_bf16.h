// Loops over one row of attention scores whose probabilities are rounded to bf16, with AVX-512 bf16: internal
// arithmetic in f32, sums in a fixed order.
#pragma once

#include <cstdint>

namespace lockstep::compiler::rows {

// A softmax whose keys come in chunks (online softmax: Milakov and Gimelshein, 2018).
struct RunningSoftmax {
  float max, sum;  // of the chunks so far; -inf and 0 at first
};
// p = exp(scale * s - max) in bf16, where max is that of all chunks so far. Returns the factor for previous
// sums.
float softmax_chunk(const float* s, int64_t count, float scale, uint16_t* p, RunningSoftmax* running);
// p = exp(scale * s - lse), g = p * (dp - delta), ds = g * by; p and ds in bf16; dbias = g, unless it is
// null.
struct BackwardRow {
  float scale, lse, delta, by;
};
void backward_chunk(const float* s, const float* dp, int64_t count, const BackwardRow& row, uint16_t* p,
                    uint16_t* ds, float* dbias);
float dot_bf16(const uint16_t* a, const uint16_t* b, int64_t count);
void round_row(const float* row, int64_t count, float by, uint16_t* to);  // to = row * by

}  // namespace lockstep::compiler::rows
