// Losses as a sum and a count: the division happens once, after both are summed over all micro-batches and
// ranks. Each is PyTorch's loss of that name with reduction="mean", with sums over many ranks. Inputs are
// floats, unless integers are named; sums are f32 (f64 for f64).
#pragma once

#include <vector>

#include "core/ops/apply.h"

namespace lockstep {

struct Loss {
  Tensor sum;    // f32 [] (f64 for f64 values)
  Tensor count;  // i64 []; or floats [], the sum of weights, which must not depend on the state
  // For a sum of losses, 0.5 * a + b (loss_sums.h): two or more losses, each divided by its own count. `sum`
  // and `count` above are then empty.
  std::vector<Loss> terms = {};
};
// A loss of your own from values [...] of floats: their sum and number; or sum(values weights) and
// sum(weights). Weights have the values' shape and are floats, bool or integers (a mask gives an i64 count).
Loss mean_loss(Tensor values, Here at = Here::current());
Loss mean_loss(Tensor values, Tensor weights, Here at = Here::current());

// Targets of this value do not count, as in PyTorch.
inline constexpr int64_t kIgnoreIndex = -100;
// -log(softmax(logits)[target]), summed over the rows that count: logits [..., vocab] of floats, targets i32
// [...] -> {sum, count of rows}. In f32 (f64 for f64) from the log-sum-exp, which forward keeps. Targets are
// in [0, vocab) or kIgnoreIndex. The reference backend checks this; kernels do not and take a logit of 0 for
// other targets. Gradient of the logits: dsum (softmax - 1 at the target) in rows that count, 0 in the
// others, rounded once to their dtype. As PyTorch's cross_entropy(reduction="sum").
Loss cross_entropy(Tensor logits, Tensor targets, Here at = Here::current());
struct CrossEntropyOptions {
  Tensor weight = {};  // of each class, floats [vocab]: the count is the sum of the targets' weights
  // share of the target spread equally over all classes: Szegedy et al., arXiv 1512.00567
  double smoothing = 0;
  // weight of log(sum(e^logits))^2 of each counted row: Chowdhery et al., arXiv 2204.02311
  double z_loss = 0;
  int64_t ignore_index = kIgnoreIndex;
};
Loss cross_entropy(Tensor logits, Tensor targets, const CrossEntropyOptions& options,
                   Here at = Here::current());
// The same against probabilities [..., vocab] of the logits' type: -sum(p log(softmax(logits))) for each row.
// Weights scale the classes; the count is the number of rows. As PyTorch's cross_entropy with soft targets.
Loss soft_cross_entropy(Tensor logits, Tensor probabilities, const CrossEntropyOptions& options = {},
                        Here at = Here::current());
// -log_probabilities[target]: as cross_entropy, after log_softmax.
Loss nll_loss(Tensor log_probabilities, Tensor targets, const CrossEntropyOptions& options = {},
              Here at = Here::current());

// Of each element, x and target of one shape and dtype.
Loss mse_loss(Tensor x, Tensor target, Here at = Here::current());  // (x - target)^2
Loss l1_loss(Tensor x, Tensor target, Here at = Here::current());   // |x - target|
// d^2 / 2 where |d| < delta, else delta (|d| - delta / 2). The second is the first over beta.
Loss huber_loss(Tensor x, Tensor target, double delta = 1, Here at = Here::current());
Loss smooth_l1_loss(Tensor x, Tensor target, double beta = 1, Here at = Here::current());
// -(t log p + (1 - t) log(1 - p)), each logarithm at least -100; p in [0, 1]. Gradient: 0 where a logarithm
// is limited (PyTorch: about 1e12).
Loss binary_cross_entropy(Tensor p, Tensor target, Here at = Here::current());
// The same with p = sigmoid(x), without overflow. pos_weight, if any, broadcasts against x and scales the
// first term.
Loss binary_cross_entropy_with_logits(Tensor x, Tensor target, Tensor pos_weight = {},
                                      Here at = Here::current());
// log(1 + e^(-target x)), target -1 or 1.
Loss soft_margin_loss(Tensor x, Tensor target, Here at = Here::current());
// x where the target is 1, max(0, margin - x) where it is -1.
Loss hinge_embedding_loss(Tensor x, Tensor target, double margin = 1, Here at = Here::current());
// max(0, margin - target (a - b)), target -1 or 1.
Loss margin_ranking_loss(Tensor a, Tensor b, Tensor target, double margin = 0, Here at = Here::current());
// x - target log(x), or e^x - target x of log(x): without Stirling's term.
Loss poisson_nll_loss(Tensor x, Tensor target, bool log_input = true, double eps = 1e-8,
                      Here at = Here::current());
// (log(v) + (x - target)^2 / v) / 2 with v = max(variance, eps); no gradient flows into a variance below eps.
Loss gaussian_nll_loss(Tensor x, Tensor target, Tensor variance, double eps = 1e-6,
                       Here at = Here::current());
// target (log(target) - x), or, for a target that is also a logarithm, e^target (target - x). The count is
// the size of dim 0, as in PyTorch's reduction="batchmean".
Loss kl_div(Tensor log_probabilities, Tensor target, bool log_target = false, Here at = Here::current());

// Of each row, [rows, n].
// sum of max(0, margin - x[target] + x[i])^p over i != target, over n; p is 1 or 2, targets i32 [rows].
Loss multi_margin_loss(Tensor x, Tensor targets, int p = 1, double margin = 1, Here at = Here::current());
// 1 - cos(a, b) where the target is 1, max(0, cos(a, b) - margin) where it is -1; targets [rows] of any
// dtype.
Loss cosine_embedding_loss(Tensor a, Tensor b, Tensor targets, double margin = 0, Here at = Here::current());
// max(0, |anchor - positive| - |anchor - negative| + margin) with the p-norm of differences, to which eps is
// added.
Loss triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, double margin = 1, double p = 2,
                         double eps = 1e-6, Here at = Here::current());
// a b / (max(|a|, eps) max(|b|, eps)) along `dim`, and |a - b + eps| along the last dim. As PyTorch.
Tensor cosine_similarity(Tensor a, Tensor b, int dim = 1, double eps = 1e-8, Here at = Here::current());
Tensor pairwise_distance(Tensor a, Tensor b, double p = 2, double eps = 1e-6, Here at = Here::current());

// Connectionist temporal classification (Graves et al., 2006): log-probabilities [time, batch, classes],
// targets i32 [batch, most], lengths i32 [batch]. Sum over samples of the loss over the target's length (at
// least 1); the count is the batch. A target that is too long for its input costs 1e30 (PyTorch: infinity),
// or 0 with `zero_infinity`. The graph holds one step per time. As PyTorch's reduction="mean".
Loss ctc_loss(Tensor log_probabilities, Tensor targets, Tensor input_lengths, Tensor target_lengths,
              int64_t blank = 0, bool zero_infinity = false, Here at = Here::current());

}  // namespace lockstep
