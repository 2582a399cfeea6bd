// Loops over one row of attention scores: softmax, its gradient, masks.
#include "compiler/codegen/library/attention_rows.h"

#include <bit>
#include <cmath>
#include <limits>

#include "core/base/clones.h"

namespace lockstep::compiler::rows {

namespace {
constexpr int kLanes = 16;  // accumulators of a row sum
constexpr float kNothing = -std::numeric_limits<float>::infinity();

// exp for x up to 88 (and -inf): 2^n * p(r) with the Cephes coefficients; exactly 0 below the smallest normal
// number.
inline float exp_f32(float x) {
  float clipped = x < -87.3f ? -87.3f : x > 88.0f ? 88.0f : x;
  float n = (clipped * 1.44269504088896341f + 12582912.0f) - 12582912.0f;
  float r = clipped - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  float scale = std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
  return x < -87.3f ? 0.0f : p * scale;
}

inline float lane_total(const float* lanes) {
  float t[kLanes];
  for (int i = 0; i < kLanes; ++i) t[i] = lanes[i];
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) t[i] += t[i + half];
  return t[0];
}

}  // namespace

LS_CLONES void softmax_row(float* row, int64_t count, float scale, float* max_out, float* sum_out) {
  float best[kLanes], lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) best[i] = kNothing, lanes[i] = 0;
  int64_t whole = count / kLanes * kLanes;
  for (int64_t j = 0; j < whole; j += kLanes)
    for (int i = 0; i < kLanes; ++i) {
      float v = row[j + i] * scale;
      row[j + i] = v;
      best[i] = v > best[i] ? v : best[i];
    }
  for (int64_t j = whole; j < count; ++j) {
    row[j] *= scale;
    best[j - whole] = row[j] > best[j - whole] ? row[j] : best[j - whole];
  }
  float max = best[0];
  for (int i = 1; i < kLanes; ++i) max = best[i] > max ? best[i] : max;
  for (int64_t j = 0; j < whole; j += kLanes)
    for (int i = 0; i < kLanes; ++i) {
      float e = exp_f32(row[j + i] - max);
      row[j + i] = e;
      lanes[i] += e;
    }
  for (int64_t j = whole; j < count; ++j) {
    row[j] = exp_f32(row[j] - max);
    lanes[j - whole] += row[j];
  }
  *max_out = max;
  *sum_out = lane_total(lanes);
}

LS_CLONES void scale_row(float* row, int64_t count, float by) {
  for (int64_t j = 0; j < count; ++j) row[j] *= by;
}
LS_CLONES void backward_row(float* s, float* dp, int64_t count, float scale, float lse, float delta) {
  for (int64_t j = 0; j < count; ++j) {
    float x = s[j] * scale - lse;
    float p = exp_f32(x);
    s[j] = p;
    dp[j] = p * (dp[j] - delta) * scale;
  }
}
LS_CLONES float dot_row(const float* a, const float* b, int64_t count) {
  float lanes[kLanes] = {};
  int64_t whole = count / kLanes * kLanes;
  for (int64_t j = 0; j < whole; j += kLanes)
    for (int i = 0; i < kLanes; ++i) lanes[i] += a[j + i] * b[j + i];
  for (int64_t j = whole; j < count; ++j) lanes[j - whole] += a[j] * b[j];
  return lane_total(lanes);
}
LS_CLONES void fill_zero(float* row, int64_t count) {
  for (int64_t j = 0; j < count; ++j) row[j] = 0.0f;
}

LS_CLONES void backward_biased_row(float* s, float* dp, float* dbias, int64_t count, float scale, float lse,
                                   float delta) {
  for (int64_t j = 0; j < count; ++j) {
    float p = exp_f32(s[j] - lse);
    s[j] = p;
    float g = p * (dp[j] - delta);
    dp[j] = g * scale;
    if (dbias) dbias[j] = g;
  }
}
LS_CLONES void bias_row(float* row, int64_t count, float scale, const float* bias, int64_t step) {
  if (!bias || step == 0) {
    const float all = bias ? *bias : 0.0f;
    for (int64_t j = 0; j < count; ++j) row[j] = row[j] * scale + all;
    return;
  }
  for (int64_t j = 0; j < count; ++j) row[j] = row[j] * scale + bias[j];
}
LS_CLONES void keep_document(float* row, int64_t count, const int32_t* documents, int32_t mine) {
  for (int64_t j = 0; j < count; ++j) row[j] = documents[j] == mine ? row[j] : kNothing;
}
LS_CLONES void keep_masked(float* row, int64_t count, const uint8_t* mask, int64_t step) {
  if (step == 0) {
    for (int64_t j = 0; !*mask && j < count; ++j) row[j] = kNothing;
    return;
  }
  for (int64_t j = 0; j < count; ++j) row[j] = mask[j] ? row[j] : kNothing;
}
LS_CLONES bool sees_nothing(const float* row, int64_t count) {
  int seen = 0;
  for (int64_t j = 0; j < count; ++j) seen |= row[j] != kNothing;
  return !seen;
}

}  // namespace lockstep::compiler::rows
