// Formulas of attention and rotary embedding, one score at a time.
#include <cmath>

#include "compiler/reference/array.h"

namespace lockstep::compiler::reference {

namespace {

// x [batch, tokens, heads, head_dim]: pairs (i, i + head_dim / 2) turn by token * theta^(-2 i / head_dim);
// `inverse` turns back.
std::vector<DenseArray> rope(const Call& call) {
  const DenseArray& x = call.in[0];
  const double theta = call.attrs().number("theta"), side = call.attrs().flag("inverse") ? -1 : 1;
  const int64_t tokens = x.dim(1), heads = x.dim(2), width = x.dim(3), half = width / 2;
  DenseArray out = make(x.dtype, x.shape);
  for (int64_t row = 0; row < x.dim(0) * tokens * heads; ++row) {
    const double token = static_cast<double>(row / heads % tokens);
    for (int64_t i = 0; i < half; ++i) {
      const double angle =
          token * std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
      const double cosine = std::cos(angle), sine = side * std::sin(angle);
      const size_t a = static_cast<size_t>(row * width + i), b = a + static_cast<size_t>(half);
      out.f[a] = x.f[a] * cosine - x.f[b] * sine;
      out.f[b] = x.f[b] * cosine + x.f[a] * sine;
    }
  }
  return {out};
}

// q [B,T,H,D], k and v [B,S,Hk,D]: head h reads key head h / (H / Hk). Causal: query i sees keys up to i + S
// - T.
struct Attention {
  const DenseArray &q, &k, &v;
  const double scale;
  const bool causal;
  const int64_t batch, queries, keys, heads, key_heads, width;
  Attention(const Call& call, size_t first)
      : q(call.in[first]),
        k(call.in[first + 1]),
        v(call.in[first + 2]),
        scale(call.attrs().number("scale")),
        causal(call.attrs().flag("causal")),
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
  int64_t seen(int64_t t) const {
    return causal ? std::min(keys, std::max<int64_t>(0, t + 1 + keys - queries)) : keys;
  }
  double score(int64_t b, int64_t t, int64_t s, int64_t h) const {
    const double *a = q.f.data() + query_at(b, t, h), *c = k.f.data() + key_at(b, s, h);
    double sum = 0;
    for (int64_t d = 0; d < width; ++d) sum += a[d] * c[d];
    return sum * scale;
  }
  template <class F>
  void each_row(F&& f) const {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t t = 0; t < queries; ++t) f(b, h, t);
  }
};

std::vector<DenseArray> sdpa(const Call& call) {
  const Attention at(call, 0);
  DenseArray out = make(at.q.dtype, at.q.shape),
             lse = make(statistics_dtype(at.q.dtype), {at.batch, at.heads, at.queries});
  std::vector<double> scores(at.keys);
  at.each_row([&](int64_t b, int64_t h, int64_t t) {
    const int64_t seen = at.seen(t);
    double top = -std::numeric_limits<double>::infinity(), total = 0;
    for (int64_t s = 0; s < seen; ++s) top = std::max(top, scores[s] = at.score(b, t, s, h));
    for (int64_t s = 0; s < seen; ++s) total += std::exp(scores[s] - top);
    lse.f[(b * at.heads + h) * at.queries + t] = top + std::log(total);
    double* to = out.f.data() + at.query_at(b, t, h);
    for (int64_t s = 0; s < seen; ++s) {
      const double weight = std::exp(scores[s] - top) / total;
      const double* value = at.v.f.data() + at.key_at(b, s, h);
      for (int64_t d = 0; d < at.width; ++d) to[d] += weight * value[d];
    }
  });
  return {out, lse};
}

// sdpa_grad(do, q, k, v, o, lse). With p = exp(score - lse) and ds = p (do.v - do.o):  dq = scale ds k, dk =
// scale ds q, dv = p do.
std::vector<DenseArray> sdpa_grad(const Call& call) {
  const Attention at(call, 1);
  const DenseArray &go = call.in[0], &out = call.in[4], &lse = call.in[5];
  DenseArray dq = make(at.q.dtype, at.q.shape), dk = make(at.k.dtype, at.k.shape),
             dv = make(at.v.dtype, at.v.shape);
  at.each_row([&](int64_t b, int64_t h, int64_t t) {
    const int64_t row = at.query_at(b, t, h);
    const double log_sum = lse.f[(b * at.heads + h) * at.queries + t];
    double shared = 0;
    for (int64_t d = 0; d < at.width; ++d) shared += go.f[row + d] * out.f[row + d];
    for (int64_t s = 0; s < at.seen(t); ++s) {
      const int64_t key = at.key_at(b, s, h);
      const double p = std::exp(at.score(b, t, s, h) - log_sum);
      double dp = 0;
      for (int64_t d = 0; d < at.width; ++d) dp += go.f[row + d] * at.v.f[key + d];
      const double ds = p * (dp - shared) * at.scale;
      for (int64_t d = 0; d < at.width; ++d) {
        dq.f[row + d] += ds * at.k.f[key + d];
        dk.f[key + d] += ds * at.q.f[row + d];
        dv.f[key + d] += p * go.f[row + d];
      }
    }
  });
  return {dq, dk, dv};
}

const FormulaRow kRows[] = {{"rope", rope}, {"sdpa", sdpa}, {"sdpa_grad", sdpa_grad}};

}  // namespace

std::span<const FormulaRow> attention_formulas() { return kRows; }

}  // namespace lockstep::compiler::reference
