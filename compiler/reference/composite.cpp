// Formulas of the composites over the last dim, in their textbook form: softmax, activations, norms,
// cross-entropy, dropout.
#include <cmath>

#include "compiler/reference/array.h"
#include "core/base/philox.h"

namespace lockstep::compiler::reference {

namespace {

constexpr double kRootTwoOverPi = 0.79788456080286535588, kCubic = 0.044715;
constexpr double kInverseRootTwo = 0.70710678118654752440, kInverseRootTwoPi = 0.39894228040143267794;

DenseArray like(const DenseArray& x) { return make(x.dtype, x.shape); }
Shape without_last(const Shape& shape) { return Shape(shape.begin(), shape.end() - 1); }

template <class F>
std::vector<DenseArray> each(const DenseArray& x, F&& f) {
  DenseArray out = like(x);
  for (size_t k = 0; k < out.f.size(); ++k) out.f[k] = f(x.f[k]);
  return {out};
}
template <class F>
std::vector<DenseArray> each(const DenseArray& a, const DenseArray& b, F&& f) {
  DenseArray out = like(a);
  for (size_t k = 0; k < out.f.size(); ++k) out.f[k] = f(a.f[k], b.f[k]);
  return {out};
}

std::vector<DenseArray> softmax(const Call& call) {
  const DenseArray& x = call.in[0];
  DenseArray out = like(x);
  auto [rows, columns] = rows_of(x.shape);
  for (int64_t r = 0; r < rows; ++r) {
    const double* from = x.f.data() + r * columns;
    double* to = out.f.data() + r * columns;
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t c = 0; c < columns; ++c) top = std::max(top, from[c]);
    for (int64_t c = 0; c < columns; ++c) sum += to[c] = std::exp(from[c] - top);
    for (int64_t c = 0; c < columns; ++c) to[c] /= sum;
  }
  return {out};
}

double gelu_tanh(double x) { return 0.5 * x * (1 + std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x))); }
double gelu_erf(double x) { return 0.5 * x * (1 + std::erf(x * kInverseRootTwo)); }
double gelu_tanh_slope(double x) {
  double t = std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kRootTwoOverPi * (1 + 3 * kCubic * x * x);
}
double gelu_erf_slope(double x) {
  return 0.5 * (1 + std::erf(x * kInverseRootTwo)) + x * kInverseRootTwoPi * std::exp(-0.5 * x * x);
}
bool tanh_form(const Call& call) {
  const std::string& form = call.attrs().word("form");
  LS_CHECK(form == "tanh" || form == "erf", "[", call.node.op, "] form \"", form, "\"; known: tanh, erf");
  return form == "tanh";
}

std::vector<DenseArray> gelu(const Call& call) {
  return tanh_form(call) ? each(call.in[0], gelu_tanh) : each(call.in[0], gelu_erf);
}
std::vector<DenseArray> gelu_grad(const Call& call) {
  bool tanh = tanh_form(call);
  return each(call.in[0], call.in[1],
              [&](double dy, double x) { return dy * (tanh ? gelu_tanh_slope(x) : gelu_erf_slope(x)); });
}
double logistic(double x) { return 1 / (1 + std::exp(-x)); }
std::vector<DenseArray> silu(const Call& call) {
  return each(call.in[0], [](double x) { return x * logistic(x); });
}
std::vector<DenseArray> silu_grad(const Call& call) {
  return each(call.in[0], call.in[1],
              [](double dy, double x) { return dy * logistic(x) * (1 + x * (1 - logistic(x))); });
}

// layer_norm(x, w, b) -> (y, mean, rstd): biased variance, eps under the root.
std::vector<DenseArray> layer_norm(const Call& call) {
  const DenseArray &x = call.in[0], &w = call.in[1], &b = call.in[2];
  const double eps = call.attrs().number("eps");
  auto [rows, columns] = rows_of(x.shape);
  DenseArray y = like(x), mean = make(statistics_dtype(x.dtype), without_last(x.shape)), rstd = mean;
  for (int64_t r = 0; r < rows; ++r) {
    const double* from = x.f.data() + r * columns;
    double total = 0, squares = 0;
    for (int64_t c = 0; c < columns; ++c) total += from[c];
    double middle = total / static_cast<double>(columns);
    for (int64_t c = 0; c < columns; ++c) squares += (from[c] - middle) * (from[c] - middle);
    double scale = 1 / std::sqrt(squares / static_cast<double>(columns) + eps);
    for (int64_t c = 0; c < columns; ++c) y.f[r * columns + c] = (from[c] - middle) * scale * w.f[c] + b.f[c];
    mean.f[r] = middle;
    rstd.f[r] = scale;
  }
  return {y, mean, rstd};
}

// With xhat = (x - mean) rstd and g = dy w: dx = rstd (g - mean(g) - xhat mean(g xhat)), without the term
// mean(g) unless `centred`.
std::vector<DenseArray> norm_grad(const DenseArray& dy, const DenseArray& x, const DenseArray& w,
                                  const DenseArray* mean, const DenseArray& rstd) {
  auto [rows, columns] = rows_of(x.shape);
  DenseArray dx = like(x), dw = like(w), db = like(w);
  for (int64_t r = 0; r < rows; ++r) {
    const double scale = rstd.f[r], middle = mean ? mean->f[r] : 0;
    const double *go = dy.f.data() + r * columns, *from = x.f.data() + r * columns;
    double g_sum = 0, gx_sum = 0;
    for (int64_t c = 0; c < columns; ++c) {
      double xhat = (from[c] - middle) * scale, g = go[c] * w.f[c];
      g_sum += g;
      gx_sum += g * xhat;
      dw.f[c] += go[c] * xhat;
      db.f[c] += go[c];
    }
    const double n = static_cast<double>(columns);
    for (int64_t c = 0; c < columns; ++c) {
      double xhat = (from[c] - middle) * scale, g = go[c] * w.f[c];
      dx.f[r * columns + c] = scale * (g - (mean ? g_sum / n : 0) - xhat * gx_sum / n);
    }
  }
  if (mean) return {dx, dw, db};
  return {dx, dw};
}
std::vector<DenseArray> layer_norm_grad(const Call& call) {
  return norm_grad(call.in[0], call.in[1], call.in[2], &call.in[3], call.in[4]);
}
std::vector<DenseArray> rms_norm_grad(const Call& call) {
  return norm_grad(call.in[0], call.in[1], call.in[2], nullptr, call.in[3]);
}

// rms_norm(x, w) -> (y, rstd)
std::vector<DenseArray> rms_norm(const Call& call) {
  const DenseArray &x = call.in[0], &w = call.in[1];
  const double eps = call.attrs().number("eps");
  auto [rows, columns] = rows_of(x.shape);
  DenseArray y = like(x), rstd = make(statistics_dtype(x.dtype), without_last(x.shape));
  for (int64_t r = 0; r < rows; ++r) {
    const double* from = x.f.data() + r * columns;
    double squares = 0;
    for (int64_t c = 0; c < columns; ++c) squares += from[c] * from[c];
    double scale = 1 / std::sqrt(squares / static_cast<double>(columns) + eps);
    for (int64_t c = 0; c < columns; ++c) y.f[r * columns + c] = from[c] * scale * w.f[c];
    rstd.f[r] = scale;
  }
  return {y, rstd};
}

int64_t target_of(const Call& call, const DenseArray& targets, int64_t r, int64_t classes) {
  int64_t target = targets.i[r], ignored = call.attrs().integer("ignore_index");
  if (target != ignored && (target < 0 || target >= classes))
    throw UserError(str("[", call.node.op, "] ", call.node.at.text(), ": target ", target, " at position ", r,
                        " is outside the ", classes, " classes; targets must lie in [0, ", classes,
                        ") or be ignore_index ", ignored));
  return target == ignored ? -1 : target;
}

// cross_entropy(logits[..., V], targets[...]) -> (sum of lse - logit of the target over rows that count,
// number of these rows, lse)
std::vector<DenseArray> cross_entropy(const Call& call) {
  const DenseArray &logits = call.in[0], &targets = call.in[1];
  auto [rows, classes] = rows_of(logits.shape);
  DType dtype = statistics_dtype(logits.dtype);
  DenseArray sum = make(dtype, {}), count = make(DType::i64, {}),
             lse = make(dtype, without_last(logits.shape));
  for (int64_t r = 0; r < rows; ++r) {
    const double* from = logits.f.data() + r * classes;
    double top = -std::numeric_limits<double>::infinity(), total = 0;
    for (int64_t c = 0; c < classes; ++c) top = std::max(top, from[c]);
    for (int64_t c = 0; c < classes; ++c) total += std::exp(from[c] - top);
    double log_sum = top + std::log(total);
    lse.f[r] = log_sum;
    int64_t target = target_of(call, targets, r, classes);
    if (target < 0) continue;
    sum.f[0] += log_sum - from[target];
    count.i[0] += 1;
  }
  return {sum, count, lse};
}

// cross_entropy_grad(dsum, logits, targets, lse): dsum (softmax - one-hot) in rows that count, 0 elsewhere.
std::vector<DenseArray> cross_entropy_grad(const Call& call) {
  const DenseArray &logits = call.in[1], &targets = call.in[2], &lse = call.in[3];
  const double dsum = call.in[0].f[0];
  auto [rows, classes] = rows_of(logits.shape);
  DenseArray out = like(logits);
  for (int64_t r = 0; r < rows; ++r) {
    int64_t target = target_of(call, targets, r, classes);
    if (target < 0) continue;
    for (int64_t c = 0; c < classes; ++c) {
      size_t k = r * classes + c;
      out.f[k] = dsum * (std::exp(logits.f[k] - lse.f[r]) - (c == target));
    }
  }
  return {out};
}

// dropout(x, seed, step, sample): keeps an element if its uniform number is at least p.
std::vector<DenseArray> dropout(const Call& call) {
  const DenseArray& x = call.in[0];
  const double p = call.attrs().number("p");
  const uint64_t stream = static_cast<uint64_t>(call.attrs().integer("stream"));
  const uint64_t seed = static_cast<uint64_t>(call.in[1].i[0]), step = static_cast<uint64_t>(call.in[2].i[0]);
  const int64_t per_sample = x.shape.empty() ? 1 : numel(Shape(x.shape.begin() + 1, x.shape.end()));
  DenseArray out = like(x);
  for (int64_t k = 0; k < x.size(); ++k) {
    uint64_t index = static_cast<uint64_t>(call.in[3].i[0] * per_sample + k);
    bool stays = philox::uniform(philox::bits(seed, stream, step, index)) >= static_cast<float>(p);
    out.f[k] = stays ? x.f[k] / (1 - p) : 0.0;
  }
  return {out};
}

const FormulaRow kCompositeRows[] = {
    {"softmax", softmax},
    {"gelu", gelu},
    {"gelu_grad", gelu_grad},
    {"silu", silu},
    {"silu_grad", silu_grad},
    {"layer_norm", layer_norm},
    {"rms_norm", rms_norm},
    {"layer_norm_grad", layer_norm_grad},
    {"dropout", dropout},
    {"stop_gradient", [](const Call& call) { return std::vector<DenseArray>{call.in[0]}; }},
    {"rms_norm_grad", rms_norm_grad},
    {"cross_entropy", cross_entropy},
    {"cross_entropy_grad", cross_entropy_grad},
};

}  // namespace

std::span<const FormulaRow> composite_formulas() { return kCompositeRows; }

}  // namespace lockstep::compiler::reference
