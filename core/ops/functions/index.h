// Elements chosen by integers. Ids lie inside the dim that they count, from 0; data sets check their tokens.
// An id outside is a UserError where it is constant, or stands in a batch field that is read as it is or
// after sums and products with numbers. Other ids that a function computes are not looked at: clamp those
// that may lie outside. One outside reads the nearest row in take, embedding, embedding_bag and index_select.
// In gather, take_along_dim and the scatters it stands for a place in x's row-major order, in another row;
// beyond x, gather reads its first or last element. What adds rows by ids (gradients, index_add, bincount,
// scatters) leaves out a row that is not there on CUDA; on the CPU it is a UserError. The reference backend
// refuses all.
// Ids are i32, or i64, which are converted. Gradients of a table are rows of dy added in the order of ids (on
// CUDA in fixed pieces of them), without atomics; bf16 and f16 in f32, rounded once.
#pragma once

#include "core/ops/apply.h"
#include "core/types/number.h"

namespace lockstep {

// Row ids[i] of the table: [rows, r...] of any dtype, [i...] -> [i..., r...].
Tensor take(Tensor table, Tensor ids, Here at = Here::current());
// The same for tokens: [vocab, width], [...] -> [..., width]. As PyTorch's embedding(ids, table).
Tensor embedding(Tensor table, Tensor ids, Here at = Here::current());
// The same without a gradient to row `padding`, which is not read in another way. As PyTorch's padding_idx.
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
// Turned by `quarters` of 90 degrees from dim a towards dim b. As PyTorch's rot90(x, quarters, (a, b)).
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
// x with the elements of `values` in the places of the ids; where several ids name one place, their values
// are added (PyTorch keeps any one of them). Gradients: dy elsewhere, and dy gathered. As PyTorch.
Tensor scatter(Tensor x, int dim, Tensor ids, Tensor values, Here at = Here::current());
Tensor scatter(Tensor x, int dim, Tensor ids, Number value, Here at = Here::current());

// How often each of 0 ... count - 1 stands among the ids [...]: i32 [count]. No gradient. As PyTorch's
// bincount, whose count follows from the ids.
Tensor bincount(Tensor ids, int64_t count, Here at = Here::current());
// How many elements of floats [...] lie in each of `bins` equal parts of [lo, hi], the last one with its end:
// i32 [bins]; others, and NaN, are not counted. No gradient. As PyTorch's histc, which gives floats.
Tensor histogram(Tensor x, int64_t bins, double lo, double hi, Here at = Here::current());
// How many elements of `sorted` [n], which ascend, are less than each of the values [...], with `right` those
// that are equal, too: i32 like the values. Both are numbers of one dtype. log2(n) reads a value. No
// gradient. As PyTorch; bucketize has the arguments in the other order.
Tensor searchsorted(Tensor sorted, Tensor values, bool right = false, Here at = Here::current());

}  // namespace lockstep
