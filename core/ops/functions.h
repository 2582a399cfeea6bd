// The functions a model is written with. Shapes are in brackets; each throws UserError naming op, line and
// shapes when they do not fit.
#pragma once

#include <optional>

#include "core/ops/tensor.h"

namespace lockstep {

// Pointwise: same shape as the input.
Tensor abs(Tensor x, Here at = Here::current());
Tensor exp(Tensor x, Here at = Here::current());
Tensor log(Tensor x, Here at = Here::current());
Tensor sqrt(Tensor x, Here at = Here::current());
Tensor rsqrt(Tensor x, Here at = Here::current());
Tensor sin(Tensor x, Here at = Here::current());
Tensor cos(Tensor x, Here at = Here::current());
Tensor tanh(Tensor x, Here at = Here::current());
Tensor erf(Tensor x, Here at = Here::current());
Tensor sigmoid(Tensor x, Here at = Here::current());
Tensor pow(Tensor x, double exponent, Here at = Here::current());
Tensor maximum(Tensor a, Tensor b, Here at = Here::current());  // broadcasts
Tensor minimum(Tensor a, Tensor b, Here at = Here::current());
Tensor equal(Tensor a, Tensor b, Here at = Here::current());  // bool
Tensor not_equal(Tensor a, Tensor b, Here at = Here::current());
Tensor less(Tensor a, Tensor b, Here at = Here::current());
Tensor less_equal(Tensor a, Tensor b, Here at = Here::current());
Tensor where(Tensor condition, Tensor a, Tensor b,
             Here at = Here::current());  // condition is bool; all broadcast
Tensor clamp(Tensor x, double lo, double hi, Here at = Here::current());
Tensor convert(Tensor x, DType dtype,
               Here at = Here::current());  // rounds to nearest even; no node when the dtype is already right
Tensor relu(Tensor x, Here at = Here::current());
Tensor gelu(Tensor x,
            Here at = Here::current());  // tanh form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
Tensor gelu_erf(Tensor x, Here at = Here::current());
Tensor silu(Tensor x, Here at = Here::current());  // x sigmoid(x)

// Creation: they need a tensor of the graph to stand beside.
Tensor full_like(Tensor like, double value, Here at = Here::current());  // shape and dtype of `like`
Tensor full(Tensor beside, Shape shape, double value, DType dtype, Here at = Here::current());
Tensor iota(Tensor beside, Shape shape, int dim, DType dtype,
            Here at = Here::current());                                           // index along `dim`
Tensor iota_like(Tensor like, int dim, Here at = Here::current());                // i32, shape of `like`
Tensor scalar(Tensor beside, const std::string& name, DType dtype = DType::f32);  // a host scalar, rank 0

// Reductions over dims (negative from the end), which vanish unless `keep`. No dims: x itself.
Tensor sum(Tensor x, std::vector<int64_t> dims, bool keep = false, Here at = Here::current());
Tensor max(Tensor x, std::vector<int64_t> dims, bool keep = false, Here at = Here::current());
Tensor min(Tensor x, std::vector<int64_t> dims, bool keep = false, Here at = Here::current());
Tensor mean(Tensor x, std::vector<int64_t> dims, bool keep = false,
            Here at = Here::current());  // of floats; bf16 and f16 are rounded once

// Views.
Tensor reshape(Tensor x, Shape shape, Here at = Here::current());  // one size may be -1
Tensor permute(Tensor x, std::vector<int64_t> order, Here at = Here::current());
Tensor transpose(Tensor x, int a, int b, Here at = Here::current());
Tensor broadcast_to(Tensor x, Shape shape, Here at = Here::current());  // NumPy's rule
// Input dim i becomes output dim dims[i].
Tensor broadcast_dims(Tensor x, Shape shape, std::vector<int64_t> dims, Here at = Here::current());
Tensor slice(Tensor x, int dim, int64_t start, int64_t limit, Here at = Here::current());
Tensor pad(Tensor x, std::vector<int64_t> lo, std::vector<int64_t> hi, double value,
           Here at = Here::current());
Tensor concat(std::vector<Tensor> xs, int dim, Here at = Here::current());
std::vector<Tensor> split(Tensor x, int dim, std::vector<int64_t> sizes, Here at = Here::current());

// Index.
Tensor take(Tensor table, Tensor ids,
            Here at = Here::current());  // [rows, ...], i32 [...] -> [ids..., table...]
Tensor embedding(Tensor table, Tensor ids,
                 Here at = Here::current());  // [vocab, width], i32 [...] -> [..., width]

// Contractions.
Tensor matmul(Tensor a, Tensor b,
              Here at = Here::current());  // [..., m, k] [..., k, n] -> [..., m, n]; equal leading dims
Tensor linear(Tensor x, Tensor weight, Tensor bias = {},
              Here at = Here::current());  // [..., in] [out, in] [out] -> [..., out]
// Attention over q [batch, tokens, heads, head_dim], k and v [batch, tokens, kv_heads, head_dim] -> like q.
// heads % kv_heads == 0. Scores are scaled by 1 / sqrt(head_dim).
Tensor sdpa(Tensor q, Tensor k, Tensor v, bool causal = true, Here at = Here::current());
// Rotary positions over [batch, tokens, heads, head_dim], in half-split pairs (i, i + head_dim / 2).
Tensor rope(Tensor x, double theta, Here at = Here::current());

// Norms and probabilities over the last dim.
Tensor softmax(Tensor x, Here at = Here::current());
Tensor layer_norm(Tensor x, Tensor weight, Tensor bias, double eps = 1e-5, Here at = Here::current());
Tensor rms_norm(Tensor x, Tensor weight, double eps = 1e-5, Here at = Here::current());
// Zeroes elements with probability p and scales the rest by 1/(1-p). The mask is a function of (seed, stream,
// step, global sample, element): dim 0 counts samples, and the stream is a hash of the layer and of the
// dropout's number in the graph. p = 0 is x itself.
Tensor dropout(Tensor x, double p, Here at = Here::current());

// A loss is a sum and a count; the division happens once, after both are summed over all micro-batches.
struct Loss {
  Tensor sum;    // f32 [] (f64 for f64 logits)
  Tensor count;  // i64 []
};
inline constexpr int64_t kIgnoreIndex = -100;                                  // as in PyTorch
Loss cross_entropy(Tensor logits, Tensor targets, Here at = Here::current());  // [..., vocab], i32 [...]

}  // namespace lockstep
