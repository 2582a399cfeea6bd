// Muon (Jordan et al., 2024, kellerjordan.github.io/posts/muon): orthogonalises the momentum of a matrix. As
// torch.optim.Muon of PyTorch, in f32; AdamW updates everything that is not a matrix of a hidden layer.
#pragma once

#include <array>

#include "core/optim/adamw.h"

namespace lockstep {

// How the rate follows the shape [a, b]. original: lr sqrt(max(1, a / b)). match_rms_adamw: lr 0.2
// sqrt(max(a, b)), so that updates are as large as AdamW's and both can share a rate (Liu et al., arXiv
// 2502.16982).
enum class MuonRate { original, match_rms_adamw };

struct MuonOptions {
  Schedule lr = 1e-3;
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> coefficients = {3.4445, -4.7750, 2.0315};  // of the Newton-Schulz iteration
  double eps = 1e-7;
  int64_t iterations = 5;
  MuonRate rate = MuonRate::original;
  double clip = 0;                         // largest global norm of all gradients; 0: no clipping
  std::vector<Parameter> parameters = {};  // empty: all trained ones of two dims that are not in `others`
};

// With g the clipped gradient, as a matrix [a, b] (dim 0 by all others):
//   m = momentum m + (1 - momentum) g;  u = momentum m + (1 - momentum) g with nesterov, else m;
//   x = u / max(|u|, eps), transposed where a > b;  `iterations` times, with s = x x^T:
//   x = c0 x + (c1 s + c2 s s) x;  p = (1 - lr wd) p - rate x
// A rank computes m and u for the rows that it owns, u is gathered over the data dims, and every rank
// computes x. This needs memory for all u and for the products of one matrix. Moment
// PATH.FQN.momentum_buffer; host scalar PATH.lr. AdamW's scalars are PATH.lr.1, PATH.bias1.1 and
// PATH.bias2.1.
class Muon : public RuleOptimizer {
 public:
  // AdamW with the options `others` updates `others.parameters` (usually embeddings and the head) and all
  // that Muon does not; its clip is ignored. UserError when an option is out of range, when a matrix has
  // fewer than two dims or there is none, and as RuleOptimizer. A matrix that tp splits is gathered over tp
  // once per step.
  explicit Muon(Scope at, MuonOptions options = {}, AdamWOptions others = {}, Here line = Here::current());
};

}  // namespace lockstep
