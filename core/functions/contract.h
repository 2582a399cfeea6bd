// Contractions of floats. bf16 and f16: products are exact, sums are in f32, and the result is rounded once
// (after the bias). Under train.precision tf32 a GPU rounds f32 operands to TF32 (attention's stay). The
// gradients are contractions and round in the same way.
#pragma once

#include <string_view>

#include "core/ops/apply.h"

namespace lockstep {

// a b over the last two dims: [..., m, k], [..., k, n] -> [..., m, n]. Leading dims broadcast as in NumPy;
// [k] is a row as the left operand and a column as the right one; its dim is dropped from the result.
// Gradients: dy b^T and a^T dy, summed over what was broadcast. As PyTorch.
Tensor matmul(Tensor a, Tensor b, Here at = Here::current());
// [batch, m, k], [batch, k, n] -> [batch, m, n]. As PyTorch.
Tensor bmm(Tensor a, Tensor b, Here at = Here::current());
// [m], [n] -> [m, n], a_i b_j. As PyTorch.
Tensor outer(Tensor a, Tensor b, Here at = Here::current());
// Sums of products over dims a_dims of a with dims b_dims of b, pair by pair: the free dims of a, then those
// of b. As PyTorch.
Tensor tensordot(Tensor a, Tensor b, std::vector<int64_t> a_dims, std::vector<int64_t> b_dims,
                 Here at = Here::current());
// "ij,jk->ik": a letter names a dim; letters that are not in the result are summed. Without "->" the result
// has the letters that occur once, in alphabetical order. "..." is any dims, broadcast. A letter that occurs
// twice in one operand takes the diagonal. Dims of size 1 broadcast. Operands are combined from the left; a
// pair with a sum is one contraction. UserError for letters, dims or sizes that do not fit. As PyTorch.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands, Here at = Here::current());
// x weight^T + bias: [..., in], [out, in], [out] -> [..., out]; an empty Tensor is no bias. Gradients: of x
// dy weight, of the weight dy^T x over all leading dims, of the bias the sum of dy over them. As PyTorch.
Tensor linear(Tensor x, Tensor weight, Tensor bias = {}, Here at = Here::current());

}  // namespace lockstep
