// Attention layers over the sdpa op.
#include "core/nn/attention.h"

#include "core/base/error.h"
#include "core/nn/document_rows.h"

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
UserError refused(const SourceLine& at, const std::string& what) {
  return UserError(str("[attention] ", at.text(), ": ", what));
}
// Checks the options before the first member records anything; returns them with defaults filled in.
AttentionLayerOptions checked(const Scope& at, int64_t width, int64_t heads, AttentionLayerOptions options,
                              Here line) {
  const SourceLine place = line_of(line, at.path());
  if (options.kv_heads == 0) options.kv_heads = heads;
  if (options.head_dim < 0 || options.memory_width < 0)
    throw refused(place, str("head_dim is ", options.head_dim, ", memory_width ", options.memory_width,
                             "; they must be at least 1, or 0 for what follows from width and heads"));
  check_heads("attention", place, options.head_dim ? options.head_dim * heads : width, heads,
              options.kv_heads, false);
  if (options.head_dim == 0) options.head_dim = width / heads;
  if (options.memory_width == 0) options.memory_width = width;
  if (options.window < 0 || (options.window && !options.causal))
    throw refused(place, str("window is ", options.window, options.causal ? "" : " without causal",
                             "; it must be at least 1, with causal, or 0 for none"));
  if (!(options.dropout >= 0 && options.dropout < 1))
    throw refused(
        place, str("dropout is ", number_text(options.dropout), "; it must be at least 0 and less than 1"));
  return options;
}
LlamaAttentionOptions checked_rotary(const Scope& at, int64_t width, int64_t heads, int64_t kv_heads,
                                     LlamaAttentionOptions options, Here line) {
  const SourceLine place = line_of(line, at.path());
  if (options.head_dim < 0)
    throw refused(place,
                  str("head_dim is ", options.head_dim, "; it must be at least 1, or 0 for width / heads"));
  check_heads("attention", place, options.head_dim ? options.head_dim * heads : width, heads, kv_heads,
              options.rope.dims == 0);
  if (options.head_dim == 0) options.head_dim = width / heads;
  if (options.window < 0)
    throw refused(place, str("window is ", options.window, "; it must be at least 1, or 0 for none"));
  return options;
}
// [B, T, heads * D] -> [B, T, heads, D]
Tensor to_heads(Tensor x, int64_t heads) {
  return reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads});
}
Tensor from_heads(Tensor x, Here at) { return reshape(x, {x.size(0), x.size(1), x.size(2) * x.size(3)}, at); }

void check_input(const Tensor& x, const std::string& path, int64_t width, Here at,
                 const char* role = "input") {
  if (x.defined() && (x.ndim() != 3 || x.size(2) != width))
    throw refused(line_of(at, path),
                  str("the ", role, " is ", x.text(), "; it must be [sequences, tokens, ", width, "]"));
}
// Combines the layer's options and the call's masks for sdpa; no dropout in evaluation.
AttentionOptions options_of(const AttentionLayerOptions& layer, const AttentionMasks& masks) {
  return {.causal = layer.causal,
          .scale = layer.scale,
          .mask = masks.mask,
          .bias = masks.bias,
          .window = layer.window,
          .dropout = Evaluation::active() ? 0 : layer.dropout,
          .documents = masks.documents,
          .lengths = masks.lengths};
}
}  // namespace

Attention::Attention(Scope at, int64_t width, int64_t heads, Init out_init, Here line)
    : Attention(at, width, heads, AttentionLayerOptions{.out_init = out_init}, line) {}
Attention::Attention(Scope at, int64_t width, int64_t heads, const AttentionLayerOptions& options, Here line)
    : path_(at.path()),
      width_(width),
      heads_(heads),
      options_(checked(at, width, heads, options, line)),
      qkv_(at / "qkv", width, (heads + 2 * options_.kv_heads) * options_.head_dim, options.bias,
           init::normal(kInitStd), line),
      out_(at / "out", heads * options_.head_dim, width, options.bias, options.out_init, line) {}

Tensor Attention::operator()(Tensor x, Here at) const {
  return (*this)(x, AttentionMasks{.documents = DocumentRows::documents()}, at);
}
Tensor Attention::operator()(Tensor x, const AttentionMasks& masks, Here at) const {
  check_input(x, path_, width_, at);
  InLayer layer(x, path_, at);
  const int64_t inner = heads_ * options_.head_dim, shared = options_.kv_heads * options_.head_dim;
  auto parts = split(qkv_(x, at), 2, {inner, shared, shared});
  for (size_t i = 0; i < 3; ++i) parts[i] = to_heads(parts[i], i == 0 ? heads_ : options_.kv_heads);
  return out_(from_heads(sdpa(parts[0], parts[1], parts[2], options_of(options_, masks), at), at), at);
}

MultiheadAttention::MultiheadAttention(Scope at, int64_t width, int64_t heads,
                                       const AttentionLayerOptions& options, Here line)
    : path_(at.path()),
      width_(width),
      heads_(heads),
      options_(checked(at, width, heads, options, line)),
      q_(at / "q", width, heads * options_.head_dim, options.bias, init::normal(kInitStd), line),
      k_(at / "k", options_.memory_width, options_.kv_heads * options_.head_dim, options.bias,
         init::normal(kInitStd), line),
      v_(at / "v", options_.memory_width, options_.kv_heads * options_.head_dim, options.bias,
         init::normal(kInitStd), line),
      out_(at / "out", heads * options_.head_dim, width, options.bias, options.out_init, line) {}

Tensor MultiheadAttention::operator()(Tensor query, Tensor memory, const AttentionMasks& masks,
                                      Here at) const {
  check_input(query, path_, width_, at, "query");
  check_input(memory, path_, options_.memory_width, at, "memory");
  InLayer layer(query, path_, at);
  Tensor q = to_heads(q_(query, at), heads_), k = to_heads(k_(memory, at), options_.kv_heads),
         v = to_heads(v_(memory, at), options_.kv_heads);
  return out_(from_heads(sdpa(q, k, v, options_of(options_, masks), at), at), at);
}

LlamaAttention::LlamaAttention(Scope at, int64_t width, int64_t heads, int64_t kv_heads, double rope_theta,
                               Init out_init, Here line)
    : LlamaAttention(at, width, heads, kv_heads,
                     LlamaAttentionOptions{.rope = {.theta = rope_theta}, .out_init = out_init}, line) {}
LlamaAttention::LlamaAttention(Scope at, int64_t width, int64_t heads, int64_t kv_heads,
                               const LlamaAttentionOptions& options, Here line)
    : path_(at.path()),
      width_(width),
      heads_(heads),
      kv_heads_(kv_heads),
      options_(checked_rotary(at, width, heads, kv_heads, options, line)),
      q_(at / "q", width, heads * options_.head_dim, options.qkv_bias, init::normal(kInitStd), line),
      k_(at / "k", width, kv_heads * options_.head_dim, options.qkv_bias, init::normal(kInitStd), line),
      v_(at / "v", width, kv_heads * options_.head_dim, options.qkv_bias, init::normal(kInitStd), line),
      out_(at / "out", heads * options_.head_dim, width, false, options.out_init, line) {}

Tensor LlamaAttention::operator()(Tensor x, Here at) const {
  return (*this)(x, AttentionMasks{.documents = DocumentRows::documents()}, DocumentRows::positions(), at);
}
Tensor LlamaAttention::operator()(Tensor x, const AttentionMasks& masks, Tensor positions, Here at) const {
  check_input(x, path_, width_, at);
  InLayer layer(x, path_, at);
  RopeOptions turn = options_.rope;
  if (positions.defined()) turn.positions = positions;
  Tensor q = rope(to_heads(q_(x, at), heads_), turn, at);
  Tensor k = rope(to_heads(k_(x, at), kv_heads_), turn, at);
  Tensor v = to_heads(v_(x, at), kv_heads_);
  AttentionOptions options = options_of({.causal = true, .window = options_.window}, masks);
  return out_(from_heads(sdpa(q, k, v, options, at), at), at);
}

}  // namespace lockstep
