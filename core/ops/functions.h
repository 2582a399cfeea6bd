// The functions a model is written with: for each its shapes, dtypes, rounding, gradient and source.
//
// Shapes stand in brackets, "..." is any number of dims. Dims count from 0, negative ones from the end. A
// function appends nodes to the graph that is traced and computes nothing; `at` is the caller's line, which
// errors name. UserError, with op, line and types, when the inputs do not fit, and for an empty Tensor.
//
// Dtypes. floats: f64, f32, bf16, f16. numbers: these, and the integers i32, i64, u8, u16, u32, u64. All
// inputs of a call have one dtype, unless said otherwise; none is converted silently. The result has it, too.
//
// Rounding. A function of bf16 or f16 computes in f32 and rounds its result once, to the nearest, ties to
// even. f64 computes in f64. Integers wrap. Fusion moves no rounding. exp, log, sin and the like are within 3
// units in the last place of f32 on the CPU; those of a GPU are other approximations, with other last bits.
//
// Gradients flow into float inputs alone and have the input's dtype. Below, y is the result, dy its gradient,
// and a "gradient" without more is that of x. The gradients of a value that is read several times are added
// in its dtype, the last reader's first. Where a rule divides by 0, infinity or NaN comes out.
//
// Source. "As PyTorch" means the function of that name in torch or torch.nn.functional. Every function is
// compared with a plain formula (compiler/reference), its gradient with a finite difference (tests/sweep).
#pragma once

#include <optional>

#include "core/ops/apply.h"

namespace lockstep {

// ---- Functions of one element: [...] -> [...] ----

// |x| of numbers; the smallest signed integer stays itself. Gradient: dy sign(x), 0 at 0. As PyTorch.
inline Tensor abs(Tensor x, Here at = Here::current()) { return apply1(ops::abs, {x}, {}, at); }
// e^x of floats. Gradient: dy y.
inline Tensor exp(Tensor x, Here at = Here::current()) { return apply1(ops::exp, {x}, {}, at); }
// Natural logarithm of floats: -infinity at 0, NaN below. Gradient: dy / x.
inline Tensor log(Tensor x, Here at = Here::current()) { return apply1(ops::log, {x}, {}, at); }
// Square root of floats, correctly rounded in f32 and f64; NaN below 0. Gradient: dy / (2 y), infinite at 0.
inline Tensor sqrt(Tensor x, Here at = Here::current()) { return apply1(ops::sqrt, {x}, {}, at); }
// 1 / sqrt(x) of floats: the root is rounded, then the quotient. Gradient: -dy y / (2 x).
inline Tensor rsqrt(Tensor x, Here at = Here::current()) { return apply1(ops::rsqrt, {x}, {}, at); }
// Sine of floats, x in radians. Gradient: dy cos(x).
inline Tensor sin(Tensor x, Here at = Here::current()) { return apply1(ops::sin, {x}, {}, at); }
// Cosine of floats, x in radians. Gradient: -dy sin(x).
inline Tensor cos(Tensor x, Here at = Here::current()) { return apply1(ops::cos, {x}, {}, at); }
// Hyperbolic tangent of floats. Gradient: dy (1 - y^2).
inline Tensor tanh(Tensor x, Here at = Here::current()) { return apply1(ops::tanh, {x}, {}, at); }
// Error function of floats. Gradient: dy 2 / sqrt(pi) e^(-x^2).
inline Tensor erf(Tensor x, Here at = Here::current()) { return apply1(ops::erf, {x}, {}, at); }
// 1 / (1 + e^-x) of floats, without overflow. Gradient: dy y (1 - y).
inline Tensor sigmoid(Tensor x, Here at = Here::current()) { return apply1(ops::sigmoid, {x}, {}, at); }
// x^exponent. 1 gives x itself and 2 gives x * x, of numbers; any other exponent takes floats and is rounded
// to x's dtype. NaN for x < 0 unless the exponent is whole. Gradient: dy exponent x^(exponent - 1); for
// exponent 0 it is NaN at x = 0, where PyTorch gives 0.
Tensor pow(Tensor x, double exponent, Here at = Here::current());
// x limited to [lo, hi], of numbers; for integers the bounds are truncated towards 0. NaN stays NaN.
// UserError unless lo <= hi. Gradient: dy where lo <= x <= hi, bounds included, else 0. As PyTorch.
Tensor clamp(Tensor x, double lo, double hi, Here at = Here::current());
// x in another dtype, any to any; x itself where the dtype is right already. To a float: to the nearest, ties
// to even; to bf16 and f16 by way of f32. Float to integer: towards 0, beyond the range to its end, NaN to 0.
// Integer to integer wraps. To bool: x != 0, true for NaN. Gradient: dy converted back, between floats alone.
Tensor convert(Tensor x, DType dtype, Here at = Here::current());

// Activations, [...] -> [...]. gelu and silu take floats and are one op each: f32 inside (f64 for f64), one
// rounding at the end; their gradients compute the slope from x in the same way.

// max(x, 0), of numbers; NaN stays NaN. Gradient: dy where x > 0, dy / 2 at x = 0 (a tie of `maximum`), where
// PyTorch gives 0.
Tensor relu(Tensor x, Here at = Here::current());
// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). As PyTorch's gelu(approximate="tanh"); Hendrycks and
// Gimpel, arXiv 1606.08415.
Tensor gelu(Tensor x, Here at = Here::current());
// 0.5 x (1 + erf(x / sqrt(2))). As PyTorch's gelu(); the same paper.
Tensor gelu_erf(Tensor x, Here at = Here::current());
// x sigmoid(x). As PyTorch; Elfwing et al., arXiv 1702.03118.
inline Tensor silu(Tensor x, Here at = Here::current()) { return apply1(ops::silu, {x}, {}, at); }

// ---- Functions of two elements: shapes broadcast as in NumPy ----
// Dims are matched from the last and must be equal or 1; the gradient of a broadcast input is summed over the
// dims that were made.

// Arithmetic of numbers.
// Shapes broadcast as in NumPy; UserError naming both when they do not, or when the dtypes differ. A C++
// number takes the tensor's dtype. Integers wrap, a quotient of them is truncated towards 0, and x / 0 is 0.
// Gradients: a + b: dy, dy; a - b: dy, -dy; a * b: dy b, dy a; a / b: dy / b, -dy y / b; -a: -dy.
Tensor operator+(TensorAt a, Tensor b);
Tensor operator-(TensorAt a, Tensor b);
Tensor operator*(TensorAt a, Tensor b);
Tensor operator/(TensorAt a, Tensor b);
Tensor operator-(TensorAt a);
Tensor operator+(TensorAt a, double b);
Tensor operator-(TensorAt a, double b);
Tensor operator*(TensorAt a, double b);
Tensor operator/(TensorAt a, double b);
Tensor operator+(double a, TensorAt b);
Tensor operator-(double a, TensorAt b);
Tensor operator*(double a, TensorAt b);
Tensor operator/(double a, TensorAt b);

// The larger one, of numbers; a NaN wins. Gradient: dy to the larger one, half to each at a tie; with a NaN,
// all to b. As PyTorch, but for the gradient at a NaN.
Tensor maximum(Tensor a, Tensor b, Here at = Here::current());
// The smaller one; NaN, ties and gradient as in maximum.
Tensor minimum(Tensor a, Tensor b, Here at = Here::current());
// a == b as bool, of any dtype. NaN equals nothing; 0 equals -0. No gradient.
Tensor equal(Tensor a, Tensor b, Here at = Here::current());
// a != b as bool, of any dtype; true where one is NaN. No gradient.
Tensor not_equal(Tensor a, Tensor b, Here at = Here::current());
// a < b as bool, of numbers; false where one is NaN. No gradient.
Tensor less(Tensor a, Tensor b, Here at = Here::current());
// a <= b as bool, of numbers; false where one is NaN. No gradient.
Tensor less_equal(Tensor a, Tensor b, Here at = Here::current());
// a where the condition (bool) holds, else b; a and b have any one dtype. Gradient: dy where the input was
// taken, else 0. As in PyTorch, NaN comes out where a 0 meets an infinite slope of the branch not taken.
Tensor where(Tensor condition, Tensor a, Tensor b, Here at = Here::current());

// ---- Creation ----
// `like` and `beside` say which graph the tensor belongs to; their elements are not read. No gradient.

// `value` everywhere, in shape and dtype of `like`; integers truncate it towards 0, bool is value != 0.
Tensor full_like(Tensor like, double value, Here at = Here::current());
// `value` everywhere, in this shape and dtype.
Tensor full(Tensor beside, Shape shape, double value, DType dtype, Here at = Here::current());
// The index along `dim`: 0, 1, 2, ...; equal along the other dims. Any dtype but bool.
Tensor iota(Tensor beside, Shape shape, int dim, DType dtype, Here at = Here::current());
// The same as i32 in the shape of `like`.
Tensor iota_like(Tensor like, int dim, Here at = Here::current());
// A host scalar [], given anew before every step without compiling again: "rng.step", or what an optimizer
// adds to the state ("optim.lr"; State::add_optimizer). UserError where a name is read with two dtypes.
Tensor scalar(Tensor beside, const std::string& name, DType dtype = DType::f32);

// ---- Reductions ----
// Over `dims`, each named once, which vanish or, with `keep`, become 1. No dims: x itself. The order of
// additions follows from the sizes; it does not depend on threads, data ranks or fusion.

// Sum of numbers, in x's dtype; 0 of nothing. bf16 and f16 are added in f32 and rounded once; integers wrap
// (PyTorch widens them to i64). Gradient: dy along the dims.
Tensor sum(Tensor x, std::vector<int64_t> dims, bool keep = false, Here at = Here::current());
// Largest element, of any dtype (bool: any). A NaN wins. UserError over a dim of size 0. Gradient: dy shared
// equally by the elements that tie, as PyTorch's amax; none to a NaN.
Tensor max(Tensor x, std::vector<int64_t> dims, bool keep = false, Here at = Here::current());
// Smallest element (bool: all); the rest as in max.
Tensor min(Tensor x, std::vector<int64_t> dims, bool keep = false, Here at = Here::current());
// Mean of floats: the sum in f32 (f64 for f64) over the count, rounded once; NaN of nothing. Gradient:
// dy / count along the dims. As PyTorch.
Tensor mean(Tensor x, std::vector<int64_t> dims, bool keep = false, Here at = Here::current());

// ---- Views: the same elements elsewhere, of any dtype, exactly ----

// The elements in row-major order in another shape of as many; one size may be -1 and follows from the rest.
// Gradient: dy in x's shape. As PyTorch.
Tensor reshape(Tensor x, Shape shape, Here at = Here::current());
// Dim i of the result is dim order[i] of x: [a, b, c] with {2, 0, 1} -> [c, a, b]. `order` names every dim
// once. Gradient: dy permuted back. As PyTorch.
Tensor permute(Tensor x, std::vector<int64_t> order, Here at = Here::current());
// Dims a and b exchanged. Gradient: dy with the same dims exchanged. As PyTorch.
Tensor transpose(Tensor x, int a, int b, Here at = Here::current());
// x repeated along new leading dims and along dims of size 1, NumPy's rule. Gradient: dy summed over what was
// repeated (bf16, f16: in f32, rounded once). As PyTorch.
Tensor broadcast_to(Tensor x, Shape shape, Here at = Here::current());
// Dim i of x becomes dim dims[i] of the result, in any order, and is as large or was 1; x is repeated along
// the dims of the result that none becomes. Gradient: as in broadcast_to. As XLA's BroadcastInDim.
Tensor broadcast_dims(Tensor x, Shape shape, std::vector<int64_t> dims, Here at = Here::current());
// Elements start, start + 1, ..., limit - 1 along `dim`: 0 <= start <= limit <= its size, and neither counts
// from the end. Gradient: dy there, 0 elsewhere. As PyTorch's narrow.
Tensor slice(Tensor x, int dim, int64_t start, int64_t limit, Here at = Here::current());
// lo[d] times `value` before and hi[d] times after the elements of dim d: one number per dim, none negative.
// `value` is rounded to x's dtype. Gradient: the part of dy that x fills.
Tensor pad(Tensor x, std::vector<int64_t> lo, std::vector<int64_t> hi, double value,
           Here at = Here::current());
// One after another along `dim`; the other dims are equal. Gradient: to each its part of dy. As torch.cat.
Tensor concat(std::vector<Tensor> xs, int dim, Here at = Here::current());
// Neighbouring parts along `dim`, of these sizes, which add up to the whole. Gradient: 0 beside the part. As
// PyTorch.
std::vector<Tensor> split(Tensor x, int dim, std::vector<int64_t> sizes, Here at = Here::current());

// ---- Rows by index ----

// Row ids[i] of the table: [rows, r...] of any dtype, i32 [i...] -> [i..., r...]. Ids lie in [0, rows); data
// sets check their tokens. Kernels do not: they read the nearest row, and the gradient leaves the id out on
// CUDA and is a UserError on the CPU. The reference backend refuses it. Gradient of the table: rows of dy
// added in the order of ids (on CUDA in fixed pieces of them), without atomics; bf16 and f16 in f32, rounded
// once.
Tensor take(Tensor table, Tensor ids, Here at = Here::current());
// The same for tokens: [vocab, width], i32 [...] -> [..., width]. As PyTorch's embedding(ids, table).
Tensor embedding(Tensor table, Tensor ids, Here at = Here::current());

// ---- Contractions of floats ----
// bf16 and f16: products are exact, sums are in f32, and the result is rounded once (after the bias). Under
// train.precision tf32 a GPU rounds f32 operands to TF32 (attention's stay). The gradients are contractions
// and round in the same way.

// a b over the last two dims: [..., m, k], [..., k, n] -> [..., m, n]. The leading dims are equal: they are
// not broadcast. Gradients: dy b^T and a^T dy. As PyTorch, but for broadcasting.
Tensor matmul(Tensor a, Tensor b, Here at = Here::current());
// x weight^T + bias: [..., in], [out, in], [out] -> [..., out]; an empty Tensor is no bias. Gradients: of x
// dy weight, of the weight dy^T x over all leading dims, of the bias the sum of dy over them. As PyTorch.
Tensor linear(Tensor x, Tensor weight, Tensor bias = {}, Here at = Here::current());
// Attention, softmax(q k^T / sqrt(head_dim)) v per head: q [batch, tokens, heads, head_dim], k and v [batch,
// keys, kv_heads, head_dim] -> like q. kv_heads divides heads: query head h reads key head h / (heads /
// kv_heads). Causal: token i sees keys 0 ... i, and there are as many keys as tokens. Scores, softmax and
// sums are f32 (f64 for f64); cuDNN, which a GPU uses for bf16 and f16, rounds the probabilities before it
// multiplies by v, and the scores' gradients before those of q and k. Forward keeps the log-sum-exp, not the
// scores. Gradients of q, k, v: scores anew, sums in a fixed order.
// Vaswani et al., arXiv 1706.03762; heads in groups: Ainslie et al., arXiv 2305.13245; the gradient: Dao et
// al., arXiv 2205.14135. PyTorch's scaled_dot_product_attention has heads before tokens.
Tensor sdpa(Tensor q, Tensor k, Tensor v, bool causal = true, Here at = Here::current());
// Rotary positions: x [batch, tokens, heads, head_dim] -> same, head_dim even. At token t the pair of
// elements (i, i + head_dim / 2) turns by t theta^(-2 i / head_dim), theta > 0; tokens count from 0.
// Frequencies are computed in f64, angles and products in f32 (f64 for f64). Gradient: dy turned back. Su et
// al., arXiv 2104.09864, in the half-split pairs of GPT-NeoX and Hugging Face's Llama.
Tensor rope(Tensor x, double theta, Here at = Here::current());

// ---- Norms and probabilities over the last dim, of floats ----
// Statistics and sums are f32 (f64 for f64); the result is rounded once.

// e^x / sum(e^x), after the row's largest element is subtracted: [..., n] -> same, n >= 1. A row of
// -infinity, and one with a NaN, gives NaN. Gradient: y (dy - sum(dy y)). As PyTorch.
inline Tensor softmax(Tensor x, Here at = Here::current()) { return apply1(ops::softmax, {x}, {}, at); }
// (x - mean) / sqrt(variance + eps) weight + bias: [..., n], [n], [n] -> [..., n]. The variance is biased.
// Weight and bias have x's dtype, or both that of the statistics. Gradients of x, weight and bias; those of
// the parameters are sums over all rows, rounded once to their dtype. As PyTorch; Ba et al., arXiv
// 1607.06450.
Tensor layer_norm(Tensor x, Tensor weight, Tensor bias, double eps = 1e-5, Here at = Here::current());
// x / sqrt(mean(x^2) + eps) weight: [..., n], [n] -> [..., n]; dtypes and gradients as in layer_norm. As
// PyTorch, whose eps is the dtype's own by default; Zhang and Sennrich, arXiv 1910.07467.
Tensor rms_norm(Tensor x, Tensor weight, double eps = 1e-5, Here at = Here::current());
// Each element of floats is 0 with probability p, else x / (1 - p): [samples, ...] -> same, 0 <= p <= 1. The
// element is kept where a uniform number of f32 is p or more. Philox4x32-10 (Salmon et al., 2011) makes it
// from (seed, stream, step, global index of the element): dim 0 counts samples of the global batch, so a mask
// belongs to a sample, whatever rank has it; the stream is a hash of the layer and of the dropout's number in
// the graph. p = 0 is x itself. Gradient: the same mask and scale. It drops in evaluation, too; the layer
// Dropout (core/nn/layers.h) does not.
Tensor dropout(Tensor x, double p, Here at = Here::current());

// ---- Losses ----

// A loss is a sum and a count; the division happens once, after both are summed over all micro-batches.
struct Loss {
  Tensor sum;    // f32 [] (f64 for f64 logits)
  Tensor count;  // i64 []
};
// Targets of this value do not count, as in PyTorch.
inline constexpr int64_t kIgnoreIndex = -100;
// -log(softmax(logits)[target]), summed over the rows that count: logits [..., vocab] of floats, targets i32
// [...] -> {sum, count of rows}. In f32 (f64 for f64) from the log-sum-exp, which forward keeps. Targets lie
// in [0, vocab) or are kIgnoreIndex; a kernel does not check (another one counts as a logit of 0), the
// reference backend does. Gradient of the logits: dsum (softmax - 1 at the target) in rows that count, 0 in
// the others, rounded once to their dtype. As PyTorch's cross_entropy(reduction="sum").
Loss cross_entropy(Tensor logits, Tensor targets, Here at = Here::current());

}  // namespace lockstep
