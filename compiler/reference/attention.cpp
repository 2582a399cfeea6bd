// Formulas of attention and rotary embedding, one score at a time.
#include <cmath>
#include <numbers>

#include "compiler/reference/array.h"
#include "core/base/philox.h"
#include "core/table/attention.h"

namespace lockstep::compiler::reference {

namespace {

// The angle per token of pair i. With `original`, frequencies are scaled by their wavelength in tokens: those
// above original / low turn slower by the factor, those below original / high are unchanged, and those
// between are interpolated.
double frequency(const Attrs& attrs, int64_t i, int64_t dims) {
  const double f = std::pow(attrs.number("theta"), -2.0 * static_cast<double>(i) / static_cast<double>(dims));
  if (!attrs.has("factor")) return f;
  const double factor = attrs.number("factor");
  if (!attrs.has("original")) return f / factor;
  const double low = attrs.number("low"), high = attrs.number("high"),
               turns = static_cast<double>(attrs.integer("original")) * f / (2 * std::numbers::pi);
  if (turns < low) return f / factor;
  if (turns > high) return f;
  const double share = (turns - low) / (high - low);
  return share * f + (1 - share) * f / factor;
}
// x [batch, tokens, heads, head_dim]. Pair i of the first `dims` elements, (i, i + dims / 2) or neighbours,
// is rotated by its frequency times the token or its position. `inverse` rotates back.
std::vector<DenseArray> rope(const Call& call) {
  const DenseArray& x = call.in[0];
  const Attrs& attrs = call.attrs();
  const bool neighbours = attrs.flag("interleaved");
  const double side = attrs.flag("inverse") ? -1 : 1;
  const int64_t tokens = x.dim(1), heads = x.dim(2), width = x.dim(3),
                dims = attrs.has("dims") ? attrs.integer("dims") : width;
  DenseArray out = x;
  for (int64_t row = 0; row < x.dim(0) * tokens * heads; ++row) {
    int64_t token = row / heads % tokens;
    if (attrs.flag("positions")) {
      const std::vector<int64_t>& given = call.in[1].i;
      token = given[(row / heads) % given.size()];  // [T], or [B, T]
    }
    for (int64_t i = 0; i < dims / 2; ++i) {
      const double angle = static_cast<double>(token) * frequency(attrs, i, dims);
      const double cosine = std::cos(angle), sine = side * std::sin(angle);
      const size_t a = row * width + (neighbours ? 2 * i : i),
                   b = a + static_cast<size_t>(neighbours ? 1 : dims / 2);
      out.f[a] = x.f[a] * cosine - x.f[b] * sine;
      out.f[b] = x.f[b] * cosine + x.f[a] * sine;
    }
  }
  return {out};
}

// q [B,T,H,D], k and v [B,S,Hk,D]: head h reads key head h / (H / Hk).
struct Attention {
  const Call& call;
  const AttentionReads reads;
  const DenseArray &q, &k, &v;
  const double scale;
  const int64_t batch, queries, keys, heads, key_heads, width;
  explicit Attention(const Call& made)
      : call(made),
        reads(attention_reads(made.node)),
        q(call.in[reads.first]),
        k(call.in[reads.first + 1]),
        v(call.in[reads.first + 2]),
        scale(call.attrs().number("scale")),
        batch(q.dim(0)),
        queries(q.dim(1)),
        keys(k.dim(1)),
        heads(q.dim(2)),
        key_heads(k.dim(2)),
        width(q.dim(3)) {}
  int64_t query_at(int64_t b, int64_t t, int64_t h) const { return ((b * queries + t) * heads + h) * width; }
  int64_t key_at(int64_t b, int64_t s, int64_t h) const {
    return ((b * keys + s) * key_heads + h / (heads / key_heads)) * width;
  }
  int64_t score_at(int64_t b, int64_t h, int64_t t, int64_t s) const {
    return ((b * heads + h) * queries + t) * keys + s;
  }
  // Index into a tensor over the scores whose dims may be 1.
  static size_t over(const DenseArray& x, int64_t b, int64_t h, int64_t t, int64_t s) {
    const int64_t at[] = {b, h, t, s};
    int64_t place = 0;
    for (int d = 0; d < 4; ++d) place = place * x.dim(d) + (x.dim(d) == 1 ? 0 : at[d]);
    return static_cast<size_t>(place);
  }
  bool seen(int64_t b, int64_t h, int64_t t, int64_t s) const {
    if (reads.causal && s > t) return false;
    if (reads.window && s <= t - reads.window) return false;
    if (reads.lengths && s >= call.in[reads.lengths].i[b]) return false;
    if (reads.documents) {
      const std::vector<int64_t>& ids = call.in[reads.documents].i;
      if (ids[b * keys + t] != ids[b * keys + s]) return false;
    }
    return !reads.mask || call.in[reads.mask].i[over(call.in[reads.mask], b, h, t, s)] != 0;
  }
  double score(int64_t b, int64_t t, int64_t s, int64_t h) const {
    const double *a = q.f.data() + query_at(b, t, h), *c = k.f.data() + key_at(b, s, h);
    double sum = 0;
    for (int64_t d = 0; d < width; ++d) sum += a[d] * c[d];
    const double bias = reads.bias ? call.in[reads.bias].f[over(call.in[reads.bias], b, h, t, s)] : 0;
    return sum * scale + bias;
  }
  // 1 / (1 - p) if dropout keeps a probability, else 0.
  double kept(int64_t b, int64_t h, int64_t t, int64_t s) const {
    if (!reads.seed) return 1;
    const auto key = [&](size_t i) { return call.in[reads.seed + i].i[0]; };
    const int64_t index = key(2) * heads * queries * keys + score_at(b, h, t, s);
    const uint32_t bits =
        philox::bits(static_cast<uint64_t>(key(0)), static_cast<uint64_t>(call.attrs().integer("stream")),
                     static_cast<uint64_t>(key(1)), static_cast<uint64_t>(index));
    return philox::uniform(bits) >= static_cast<float>(reads.dropout) ? 1 / (1 - reads.dropout) : 0;
  }
  template <class F>
  void each_row(F&& f) const {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t t = 0; t < queries; ++t) f(b, h, t);
  }
};

std::vector<DenseArray> sdpa(const Call& call) {
  const Attention at(call);
  DenseArray out = make(at.q.dtype, at.q.shape),
             lse = make(statistics_dtype(at.q.dtype), {at.batch, at.heads, at.queries});
  at.each_row([&](int64_t b, int64_t h, int64_t t) {
    std::vector<std::pair<int64_t, double>> scores;  // of the keys that the row attends to
    double top = -std::numeric_limits<double>::infinity(), total = 0;
    for (int64_t s = 0; s < at.keys; ++s)
      if (at.seen(b, h, t, s)) scores.emplace_back(s, at.score(b, t, s, h));
    for (auto [s, score] : scores) top = std::max(top, score);
    if (top == -std::numeric_limits<double>::infinity()) return;  // it attends to no key: 0
    for (auto [s, score] : scores) total += std::exp(score - top);
    lse.f[(b * at.heads + h) * at.queries + t] = top + std::log(total);
    double* to = out.f.data() + at.query_at(b, t, h);
    for (auto [s, score] : scores) {
      const double weight = std::exp(score - top) / total * at.kept(b, h, t, s);
      const double* value = at.v.f.data() + at.key_at(b, s, h);
      for (int64_t d = 0; d < at.width; ++d) to[d] += weight * value[d];
    }
  });
  return {out, lse};
}

// sdpa_grad(do, q, k, v, o, lse). With p = exp(score - lse), m the dropout factor, and g = p (m do.v - do.o):
// dbias = g, dq = scale g k, dk = scale g q, dv = m p do.
std::vector<DenseArray> sdpa_grad(const Call& call) {
  const Attention at(call);
  const DenseArray &go = call.in[0], &out = call.in[4], &lse = call.in[5];
  DenseArray dq = make(at.q.dtype, at.q.shape), dk = make(at.k.dtype, at.k.shape),
             dv = make(at.v.dtype, at.v.shape),
             dbias = make(statistics_dtype(at.q.dtype), {at.batch, at.heads, at.queries, at.keys});
  at.each_row([&](int64_t b, int64_t h, int64_t t) {
    const int64_t row = at.query_at(b, t, h);
    const double log_sum = lse.f[(b * at.heads + h) * at.queries + t];
    double shared = 0;
    for (int64_t d = 0; d < at.width; ++d) shared += go.f[row + d] * out.f[row + d];
    for (int64_t s = 0; s < at.keys; ++s) {
      if (!at.seen(b, h, t, s)) continue;
      const int64_t key = at.key_at(b, s, h);
      const double p = std::exp(at.score(b, t, s, h) - log_sum), kept = at.kept(b, h, t, s);
      double dp = 0;
      for (int64_t d = 0; d < at.width; ++d) dp += go.f[row + d] * at.v.f[key + d];
      const double g = p * (dp * kept - shared);
      dbias.f[at.score_at(b, h, t, s)] = g;
      for (int64_t d = 0; d < at.width; ++d) {
        dq.f[row + d] += g * at.scale * at.k.f[key + d];
        dk.f[key + d] += g * at.scale * at.q.f[row + d];
        dv.f[key + d] += p * kept * go.f[row + d];
      }
    }
  });
  if (at.reads.bias_gradient) return {dq, dk, dv, dbias};
  return {dq, dk, dv};
}

const FormulaRow kAttentionRows[] = {{"rope", rope}, {"sdpa", sdpa}, {"sdpa_grad", sdpa_grad}};

}  // namespace

std::span<const FormulaRow> attention_formulas() { return kAttentionRows; }

}  // namespace lockstep::compiler::reference
