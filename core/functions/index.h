// Elements chosen by integers. Ids count from 0 and must be inside their dim; data sets check their tokens.
// An id outside is a UserError if it is constant, or in a batch field that is read directly or after sums and
// products with numbers. Other computed ids are not checked: clamp those that may be outside. In take,
// embedding, embedding_bag and index_select an id outside reads the nearest row. In gather, take_along_dim
// and the scatters it addresses another row in x's row-major order; beyond x, gather reads the first or last
// element. Functions that add rows by ids (gradients, index_add, bincount, scatters) skip a missing row on
// CUDA and throw UserError on the CPU. The reference backend refuses every id outside. Ids are i32, or i64,
// which are converted. Gradients of a table are rows of dy added in the order of ids (on CUDA in fixed pieces
// of them), without atomics; bf16 and f16 in f32, rounded once.
#pragma once

#include "core/ops/apply.h"
#include "core/types/number.h"

namespace lockstep {

// Row ids[i] of the table: [rows, r...] of any dtype, [i...] -> [i..., r...].
Tensor take(Tensor table, Tensor ids, Here at = Here::current());
// The same for tokens: [vocab, width], [...] -> [..., width]. As PyTorch's embedding(ids, table).
Tensor embedding(Tensor table, Tensor ids, Here at = Here::current());
// The same, but row `padding` has no gradient; it is read like any other row. As PyTorch's padding_idx.
Tensor embedding(Tensor table, Tensor ids, int64_t padding, Here at = Here::current());
// The sum, the mean or the largest elements of the rows of each bag: [vocab, width], ids [bags, n] -> [bags,
// width]. Ids equal to `padding` belong to no bag; an empty one is 0. `weights` [bags, n], if any, scale the
// rows (of a sum). Rows are added in f32 (f64 for f64) and rounded once. As PyTorch's embedding_bag with a
// rectangle of ids.
enum class Bag { sum, mean, max };
Tensor embedding_bag(Tensor table, Tensor ids, Bag mode = Bag::mean, int64_t padding = -1,
                     Tensor weights = {}, Here at = Here::current());
// Row i of `rows` is added to row ids[i] of zeros [count, r...]: ids [i...], rows [i..., r...] of numbers.
// Gradient: rows of dy. As PyTorch's index_add on zeros.
Tensor index_add(Tensor ids, Tensor rows, int64_t count, Here at = Here::current());

// Elements ids [n] along `dim`, of any dtype. Gradient: as index_add. As PyTorch.
Tensor index_select(Tensor x, int dim, Tensor ids, Here at = Here::current());
// Elements in reverse order along `dims`. Gradient: dy in reverse order. As PyTorch.
Tensor flip(Tensor x, std::vector<int64_t> dims, Here at = Here::current());
// Rotated `quarters` times by 90 degrees from dim a towards dim b. As PyTorch's rot90(x, quarters, (a, b)).
Tensor rot90(Tensor x, int quarters = 1, int a = 0, int b = 1, Here at = Here::current());
// y[i][j][k] = x[i][ids[i][j][k]][k] for dim 1: ids have as many dims as x, and no more elements in the
// others. x has fewer than 2^31 elements. Gradient: dy added at the ids. As PyTorch; take_along_dim
// broadcasts first.
Tensor gather(Tensor x, int dim, Tensor ids, Here at = Here::current());
Tensor take_along_dim(Tensor x, Tensor ids, int dim, Here at = Here::current());
// x with the elements of `values` added at the ids along `dim`, as gather reads them: ids and values have one
// shape. bf16 and f16 are added in f32, rounded once, and then to x. Gradients: dy, and dy gathered. As
// PyTorch.
Tensor scatter_add(Tensor x, int dim, Tensor ids, Tensor values, Here at = Here::current());
// x with its elements at the ids replaced by `values`; values of equal ids are added (PyTorch keeps any one
// of them). Gradients: dy elsewhere, and dy gathered. As PyTorch.
Tensor scatter(Tensor x, int dim, Tensor ids, Tensor values, Here at = Here::current());
Tensor scatter(Tensor x, int dim, Tensor ids, Number value, Here at = Here::current());

// How often each of 0 ... count - 1 occurs in the ids [...]: i32 [count]. No gradient. As PyTorch's bincount,
// whose count follows from the ids.
Tensor bincount(Tensor ids, int64_t count, Here at = Here::current());
// How many elements of floats [...] are in each of `bins` equal parts of [lo, hi], the last one with its end:
// i32 [bins]. Elements outside, and NaN, are not counted. No gradient. As PyTorch's histc, which gives
// floats.
Tensor histogram(Tensor x, int64_t bins, double lo, double hi, Here at = Here::current());
// How many elements of the ascending `sorted` [n] are less than each of the values [...], or, with `right`,
// less or equal: i32 in the shape of the values. Both are numbers of one dtype. Each value takes log2(n)
// reads. No gradient. As PyTorch; bucketize has the arguments in the other order.
Tensor searchsorted(Tensor sorted, Tensor values, bool right = false, Here at = Here::current());

}  // namespace lockstep
