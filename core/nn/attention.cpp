// Attention layers over the sdpa op.
#include "core/nn/attention.h"

#include "core/base/error.h"

namespace lockstep {

void check_heads(std::string_view who, const SourceLine& at, int64_t width, int64_t heads, int64_t kv_heads,
                 bool rotary) {
  auto fail = [&](const std::string& what) { throw UserError(str("[", who, "] ", at.text(), ": ", what)); };
  if (width < 1 || heads < 1 || kv_heads < 1)
    fail(str("width ", width, ", heads ", heads, " and kv_heads ", kv_heads, " must be at least 1"));
  if (width % heads) {
    int64_t below = width / heads * heads;
    fail(str("width ", width, " is not divisible by heads ", heads, "; ",
             below ? str("widths near it: ", below, " and ", below + heads)
                   : str("the smallest width is ", heads)));
  }
  if (heads % kv_heads)
    fail(str("heads ", heads, " is not divisible by kv_heads ", kv_heads,
             "; each head of keys and values serves the same number of heads"));
  if (rotary && width / heads % 2)
    fail(str("width ", width, " / heads ", heads, " gives a head dim of ", width / heads,
             ", which is odd; the rotary embedding turns pairs of features"));
}

namespace {
// Checks before the first member records anything.
int64_t checked_width(const Scope& at, int64_t width, int64_t heads, int64_t kv_heads, bool rotary,
                      Here line) {
  check_heads("attention", line_of(line, at.path()), width, heads, kv_heads, rotary);
  return width;
}
// [B, T, heads * D] -> [B, T, heads, D]
Tensor to_heads(Tensor x, int64_t heads) {
  return reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads});
}

void check_input(const Tensor& x, const std::string& path, int64_t width, Here at) {
  if (x.defined() && (x.ndim() != 3 || x.size(2) != width))
    throw UserError(str("[attention] ", line_of(at, path).text(), ": the input is ", x.text(),
                        "; it must be [sequences, tokens, ", width, "]"));
}
}  // namespace

Attention::Attention(Scope at, int64_t width, int64_t heads, Init out_init, Here line)
    : path_(at.path()),
      width_(checked_width(at, width, heads, heads, false, line)),
      heads_(heads),
      qkv_(at / "qkv", width, 3 * width, true, init::normal(kInitStd), line),
      out_(at / "out", width, width, true, out_init, line) {}

Tensor Attention::operator()(Tensor x, Here at) const {
  check_input(x, path_, width_, at);
  InLayer layer(x, path_, at);
  auto parts = split(qkv_(x, at), 2, {width_, width_, width_});
  for (Tensor& part : parts) part = to_heads(part, heads_);
  Tensor mixed = sdpa(parts[0], parts[1], parts[2], /*causal=*/true, at);
  return out_(reshape(mixed, x.shape()), at);
}

LlamaAttention::LlamaAttention(Scope at, int64_t width, int64_t heads, int64_t kv_heads, double rope_theta,
                               Init out_init, Here line)
    : path_(at.path()),
      width_(checked_width(at, width, heads, kv_heads, true, line)),
      heads_(heads),
      kv_heads_(kv_heads),
      rope_theta_(rope_theta),
      q_(at / "q", width, width, false, init::normal(kInitStd), line),
      k_(at / "k", width, width / heads * kv_heads, false, init::normal(kInitStd), line),
      v_(at / "v", width, width / heads * kv_heads, false, init::normal(kInitStd), line),
      out_(at / "out", width, width, false, out_init, line) {}

Tensor LlamaAttention::operator()(Tensor x, Here at) const {
  check_input(x, path_, width_, at);
  InLayer layer(x, path_, at);
  Tensor q = rope(to_heads(q_(x, at), heads_), rope_theta_, at);
  Tensor k = rope(to_heads(k_(x, at), kv_heads_), rope_theta_, at);
  Tensor v = to_heads(v_(x, at), kv_heads_);
  Tensor mixed = sdpa(q, k, v, /*causal=*/true, at);
  return out_(reshape(mixed, x.shape()), at);
}

}  // namespace lockstep
