// Loops over one row of attention scores, in f32 with a fixed order of sums.
#pragma once

#include <cstdint>

namespace lockstep::compiler::rows {

// row = exp(scale * row - max); returns the max of scale * row, and the sum.
void softmax_row(float* row, int64_t count, float scale, float* max_out, float* sum_out);
void scale_row(float* row, int64_t count, float by);
// p = exp(scale * s - lse) in place of s; ds = p * (dp - delta) * scale in place of dp.
void backward_row(float* s, float* dp, int64_t count, float scale, float lse, float delta);
// The same for scores that are already scaled; dbias = p * (dp - delta), unless it is null.
void backward_biased_row(float* s, float* dp, float* dbias, int64_t count, float scale, float lse,
                         float delta);
float dot_row(const float* a, const float* b, int64_t count);
void fill_zero(float* row, int64_t count);

// row = scale * row + bias; `step` is 0 if one number is the bias of all. Null: no bias.
void bias_row(float* row, int64_t count, float scale, const float* bias, int64_t step);
// Sets -inf for keys of another document, or where the mask is false.
void keep_document(float* row, int64_t count, const int32_t* documents, int32_t mine);
void keep_masked(float* row, int64_t count, const uint8_t* mask, int64_t step);
bool sees_nothing(const float* row, int64_t count);  // all -inf

}  // namespace lockstep::compiler::rows
