// Tensors computed from indices: sequences of numbers, one-hot and identity, triangles. Only tril and triu
// have a gradient. `beside` is any tensor of the graph.
#pragma once

#include "core/ops/apply.h"
#include "core/types/number.h"

namespace lockstep {

// start, start + step, ... before `end`: [ceil((end - start) / step)]. UserError for step 0, for no element,
// and when the dtype cannot represent start, step or the last number.
Tensor arange(Tensor beside, Number start, Number end, Number step = 1, DType dtype = DType::i32,
              Here at = Here::current());
// `count` equidistant floats from `first` to `last`, both included and representable in the dtype. As
// PyTorch.
Tensor linspace(Tensor beside, double first, double last, int64_t count, DType dtype = DType::f32,
                Here at = Here::current());
// 1 on the diagonal, else 0: [rows, columns]; columns = rows if not given.
Tensor eye(Tensor beside, int64_t rows, int64_t columns = -1, DType dtype = DType::f32,
           Here at = Here::current());
// ids [...] of i32 or i64 -> [..., classes]: 1 at the id, else 0; all 0 for an id outside [0, classes). As
// PyTorch, whose result is i64.
Tensor one_hot(Tensor ids, int64_t classes, DType dtype = DType::f32, Here at = Here::current());
// Of numbers, over the last two dims: x on and below (above) the diagonal that is `diagonal` places right of
// the main one, else 0. Gradient: dy there. As PyTorch.
Tensor tril(Tensor x, int64_t diagonal = 0, Here at = Here::current());
Tensor triu(Tensor x, int64_t diagonal = 0, Here at = Here::current());

}  // namespace lockstep
