// What the functions say that are no row of their own: the function, the user's line, both types, the way
// out.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/base/error.h"
#include "core/functions/functions.h"

namespace lockstep {
namespace {

constexpr auto F = DType::f32, H = DType::bf16, D = DType::f64, I = DType::i32, L = DType::i64,
               B = DType::boolean, U8 = DType::u8;

struct Traced {
  std::shared_ptr<Builder> builder = std::make_shared<Builder>();
  int made = 0;
  Tensor operator()(DType dtype, Shape shape) {
    return {builder, builder->graph.add_input(InputKind::value, str("x", made++), dtype, std::move(shape))};
  }
};
struct Refusal {
  const char* op;
  const char* words;
  std::function<void(Traced&)> call;
};

const std::vector<Refusal> kRefusals{
    {"tan", "input 0 is i32[2], needs floats; convert it?", [](auto& t) { tan(t(I, {2})); }},
    {"asin", "input 0 is an empty Tensor", [](auto&) { asin(Tensor{}); }},
    {"isnan", "input 0 is bool[2], needs floats; convert it?", [](auto& t) { isnan(t(B, {2})); }},
    {"hardtanh", "bounds are 2 and 1; the lower comes first", [](auto& t) { hardtanh(t(F, {2}), 2, 1); }},
    {"prelu", "slope is f32[2], needs [1] or [3], the channels of f32[4,3]",
     [](auto& t) { prelu(t(F, {4, 3}), t(F, {2})); }},
    {"prelu", "dtypes differ: input 0 f32[4,3], input 1 bf16[3]; convert one?",
     [](auto& t) { prelu(t(F, {4, 3}), t(H, {3})); }},
    {"celu", "alpha is 0, needs a positive number", [](auto& t) { celu(t(F, {2}), 0); }},
    {"softplus", "beta is -1, needs a positive number", [](auto& t) { softplus(t(F, {2}), -1); }},
    {"glu", "dim 1 of f32[4,3] is odd, and is cut in two halves", [](auto& t) { glu(t(F, {4, 3})); }},
    {"constant", "has no values", [](auto& t) { constant(t(F, {2}), {}); }},
    {"arange", "step is 0", [](auto& t) { arange(t(F, {2}), 0, 1, 0); }},
    {"arange", "from 3 to 1 by 1 there is nothing", [](auto& t) { arange(t(F, {2}), 3, 1); }},
    {"linspace", "count is 0, needs 1 or more", [](auto& t) { linspace(t(F, {2}), 0, 1, 0); }},
    {"linspace", "1e+300 as f32: it is beyond f32", [](auto& t) { linspace(t(F, {2}), 0, 1e300, 3); }},
    {"linspace", "1e-09 as f16: it becomes 0 in f16",
     [](auto& t) { linspace(t(F, {2}), 1e-9, 1, 3, DType::f16); }},
    {"sdpa", "1e-60 as f32: it becomes 0 in f32",
     [](auto& t) {
       const Tensor x = t(H, {1, 2, 1, 2});
       sdpa(x, x, x, AttentionOptions{.causal = true, .scale = 1e-60});
     }},
    {"linspace", "dtype is i32, needs floats", [](auto& t) { linspace(t(F, {2}), 0, 1, 3, I); }},
    {"one_hot", "ids are f32[2], need i32 or i64; convert them?", [](auto& t) { one_hot(t(F, {2}), 3); }},
    {"one_hot", "classes is 0, needs 1 or more", [](auto& t) { one_hot(t(I, {2}), 0); }},
    {"flatten", "dims 1 to 0 of f32[2,3]: none", [](auto& t) { flatten(t(F, {2, 3}), 1, 0); }},
    {"unflatten", "dim 1 of f32[2,6] has 6 elements, not those of [4,-1]",
     [](auto& t) { unflatten(t(F, {2, 6}), 1, {4, -1}); }},
    {"unsqueeze", "dim 4 of the result of f32[2,3]: it has 3 dims",
     [](auto& t) { unsqueeze(t(F, {2, 3}), 4); }},
    {"squeeze", "dim 2 is not a dim of f32[2,1]", [](auto& t) { squeeze(t(F, {2, 1}), 2); }},
    {"expand", "f32[3] to [-1,3]: dim 0 is new, and -1 is no size",
     [](auto& t) { expand(t(F, {3}), {-1, 3}); }},
    {"repeat", "times [2] for f32[2,3]: one number per dim, or more",
     [](auto& t) { repeat(t(F, {2, 3}), {2}); }},
    {"repeat", "times [-1] has a negative number", [](auto& t) { repeat(t(F, {2}), {-1}); }},
    {"repeat_interleave", "times is -2", [](auto& t) { repeat_interleave(t(F, {2}), -2, 0); }},
    {"meshgrid", "an input is f32[2,2], needs 1 dim", [](auto& t) { meshgrid({t(F, {2, 2})}); }},
    {"slice", "step is 0, needs 1 or more; flip turns a dim round",
     [](auto& t) { slice(t(F, {5}), 0, 0, 5, 0); }},
    {"slice", "range -7 .. 5 by 1 of dim 0 of f32[5] is not inside 0 .. 5",
     [](auto& t) { slice(t(F, {5}), 0, -12, 5); }},
    {"select", "index 5 of dim 0 of f32[5], which has 5", [](auto& t) { select(t(F, {5}), 0, 5); }},
    {"chunk", "count is 0, needs 1 or more", [](auto& t) { chunk(t(F, {5}), 0); }},
    {"stack", "takes 1 or more inputs, got 0", [](auto&) { stack({}); }},
    {"stack", "input 0 is f32[2], input 1 is f32[3]: all shapes are equal",
     [](auto& t) { stack({t(F, {2}), t(F, {3})}); }},
    {"pad", "dim 0 of f32[3] has 3 elements, for 2 at most",
     [](auto& t) { pad(t(F, {3}), {3}, {0}, PadMode::reflect); }},
    {"pad", "padding is not negative; slice instead",
     [](auto& t) { pad(t(F, {3}), {-1}, {0}, PadMode::circular); }},
    {"pad", "lo [1,1], hi [0] for f32[3]: one number per dim",
     [](auto& t) { pad(t(F, {3}), {1, 1}, {0}, PadMode::replicate); }},
    {"tril", "input is f32[3], needs 2 or more dims", [](auto& t) { tril(t(F, {3})); }},
    {"flip", "dims [0,0] names 0 twice", [](auto& t) { flip(t(F, {3}), {0, -1}); }},
    {"rot90", "dims 0 and -2 of f32[3,4] are one", [](auto& t) { rot90(t(F, {3, 4}), 1, 0, -2); }},
    {"softmin", "input 0 is i32[2], needs floats; convert it?", [](auto& t) { softmin(t(I, {2})); }},
    {"bincount", "count is 0, needs 1 or more", [](auto& t) { bincount(t(I, {3}), 0); }},
    {"bincount", "ids are f32[3], need i32 or i64; convert them?", [](auto& t) { bincount(t(F, {3}), 2); }},
    {"histogram", "0 bins from 0 to 1: 1 or more, and the lower bound comes first",
     [](auto& t) { histogram(t(F, {3}), 0, 0, 1); }},
    {"searchsorted",
     "sorted is f32[3], values are i32[2]: sorted has 1 dim, and both are numbers of one dtype",
     [](auto& t) { searchsorted(t(F, {3}), t(I, {2})); }},
    {"searchsorted", "sorted is f32[3,1], values are f32[2]: sorted has 1 dim",
     [](auto& t) { searchsorted(t(F, {3, 1}), t(F, {2})); }},
    {"var", "dims [1,1] names 1 twice", [](auto& t) { var(t(F, {3, 2}), {1, -1}); }},
    {"cumsum", "input 0 is bool[3], needs numbers; convert it to i64?",
     [](auto& t) { cumsum(t(B, {3}), 0); }},
    {"sort", "input 0 is f64[3], needs f32, bf16, f16 or integers of at most 32 bits",
     [](auto& t) { sort(t(D, {3})); }},
    {"topk", "k is 4, dim 0 of f32[3] has 3 elements", [](auto& t) { topk(t(F, {3}), 4); }},
    {"median", "dim 0 of f32[0] is empty", [](auto& t) { median(t(F, {0})); }},
    {"take", "ids are f32[2], need i32 or i64; convert them?", [](auto& t) { take(t(F, {4}), t(F, {2})); }},
    {"embedding_bag", "the table is f32[4,2], ids are i32[3], need [rows, width] and [bags, n]",
     [](auto& t) { embedding_bag(t(F, {4, 2}), t(I, {3})); }},
    {"embedding_bag", "weights are f32[3,1], ids i32[3,2]: one weight for each id, and only of a sum",
     [](auto& t) { embedding_bag(t(F, {4, 2}), t(I, {3, 2}), Bag::sum, -1, t(F, {3, 1})); }},
    {"embedding_bag", "weights are f32[3,2], ids i32[3,2]: one weight for each id, and only of a sum",
     [](auto& t) { embedding_bag(t(F, {4, 2}), t(I, {3, 2}), Bag::max, -1, t(F, {3, 2})); }},
    {"index_select", "ids are i32[2,2], need 1 dim",
     [](auto& t) { index_select(t(F, {4}), 0, t(I, {2, 2})); }},
    {"gather", "ids are i32[5,2] for dim 1 of f32[3,4]: as many dims, and in the others no more elements",
     [](auto& t) { gather(t(F, {3, 4}), 1, t(I, {5, 2})); }},
    {"take_along_dim", "ids are i32[3] for f32[3,4]: as many dims",
     [](auto& t) { take_along_dim(t(F, {3, 4}), t(I, {3}), 0); }},
    {"scatter_add", "values are f32[2], need f32[3], x's dtype and the ids' shape",
     [](auto& t) { scatter_add(t(F, {4}), 0, t(I, {3}), t(F, {2})); }},
    {"scatter", "values are bf16[3], need f32[3]",
     [](auto& t) { scatter(t(F, {4}), 0, t(I, {3}), t(H, {3})); }},
    {"matmul", "lhs f32[], rhs f32[2]: both need 1 or more dims",
     [](auto& t) { matmul(t(F, {}), t(F, {2})); }},
    {"bmm", "lhs f32[2,3,4], rhs f32[3,4,2]: need [batch, m, k] and [batch, k, n]",
     [](auto& t) { bmm(t(F, {2, 3, 4}), t(F, {3, 4, 2})); }},
    {"outer", "lhs f32[2,2], rhs f32[2]: both need 1 dim", [](auto& t) { outer(t(F, {2, 2}), t(F, {2})); }},
    {"einsum", "takes 1 or more operands, got 0", [](auto&) { einsum("ij", {}); }},
    {"einsum", "\"ij,jk\": 2 terms for 1 operands", [](auto& t) { einsum("ij,jk", {t(F, {2, 2})}); }},
    {"einsum", "\"i1\": '1' is neither a letter nor part of one \"...\"",
     [](auto& t) { einsum("i1->i", {t(F, {2, 2})}); }},
    {"einsum", "\"i.j\": '.' is neither a letter nor part of one \"...\"",
     [](auto& t) { einsum("i.j->i", {t(F, {2, 2})}); }},
    {"einsum", "\"ijk\" names 3 dims, operand 0 is f32[2,2]",
     [](auto& t) { einsum("ijk->i", {t(F, {2, 2})}); }},
    {"einsum", "\"ijk...\" names 3 dims, operand 0 is f32[2,2]",
     [](auto& t) { einsum("ijk...->i", {t(F, {2, 2})}); }},
    {"einsum", "'j' is 3 and 4 (operand 1, f32[4,2])",
     [](auto& t) { einsum("ij,jk->ik", {t(F, {2, 3}), t(F, {4, 2})}); }},
    {"einsum", "'x' of the result is in no operand", [](auto& t) { einsum("ij->ix", {t(F, {2, 2})}); }},
    {"einsum", "'i' occurs twice in the result", [](auto& t) { einsum("ij->ii", {t(F, {2, 2})}); }},
    {"group_norm", "3 groups do not divide the 4 channels of f32[2,4]",
     [](auto& t) { group_norm(t(F, {2, 4}), 3); }},
    {"batch_norm", "input is f32[4], needs [batch, C, ...]", [](auto& t) { batch_norm(t(F, {4})); }},
    {"batch_norm", "is f32[3], needs floats [4], one per channel of f32[2,4]",
     [](auto& t) { batch_norm(t(F, {2, 4}), t(F, {3})); }},
    {"pixel_shuffle", "input is f32[4,4], needs [batch, channels, height, width]",
     [](auto& t) { pixel_shuffle(t(F, {4, 4}), 2); }},
    {"pixel_shuffle", "the factor is 0, needs 1 or more",
     [](auto& t) { pixel_shuffle(t(F, {1, 4, 2, 2}), 0); }},
    {"pixel_shuffle", "3 channels of f32[1,3,2,2] do not divide by 4",
     [](auto& t) { pixel_shuffle(t(F, {1, 3, 2, 2}), 2); }},
    {"pixel_unshuffle", "height or width of f32[1,3,3,2] does not divide by 2",
     [](auto& t) { pixel_unshuffle(t(F, {1, 3, 3, 2}), 2); }},
    {"interpolate_linear", "size [0] for f32[1,3,2]: 1 or more for each of the last dims",
     [](auto& t) { interpolate_linear(t(F, {1, 3, 2}), {0}); }},
    {"interpolate_cubic", "size [0] for f32[1,3,2]: 1 or more for each of the last dims",
     [](auto& t) { interpolate_cubic(t(F, {1, 3, 2}), {0}); }},
    {"grid_sample", "x is f32[2,3,4,5], the grid f32[1,3,2,2], need [batch, C, h, w] and [batch, H, W, 2]",
     [](auto& t) { grid_sample(t(F, {2, 3, 4, 5}), t(F, {1, 3, 2, 2})); }},
    {"dropout_channels", "input is f32[4], needs 2 or more dims",
     [](auto& t) { dropout_channels(t(F, {4}), 0.5); }},
    {"masked_fill", "input 1 is an empty Tensor", [](auto& t) { masked_fill(t(F, {4}), {}, 0); }},
    {"lerp", "input 1 is i32[4], needs floats; convert it?",
     [](auto& t) { lerp(t(F, {4}), t(I, {4}), 0.5); }},
    {"uniform", "bounds are 2 and 1; the lower comes first", [](auto& t) { uniform(t(F, {1}), {3}, 2, 1); }},
    {"randn", "shape [] has no dim that counts samples", [](auto& t) { randn(t(F, {1}), {}); }},
    {"randn", "dtype is i32, needs floats", [](auto& t) { randn(t(F, {1}), {3}, I); }},
    {"randint", "from 3 to 3: needs 1 to 2^32 numbers", [](auto& t) { randint(t(F, {1}), {3}, 3, 3); }},
    {"randint", "dtype is f32, needs i32 or i64", [](auto& t) { randint(t(F, {1}), {3}, 0, 3, F); }},
    {"bernoulli", "p is 1.5, needs a probability between 0 and 1",
     [](auto& t) { bernoulli(t(F, {1}), {3}, 1.5); }},
    {"truncated_normal", "the lower comes first, and the deviation is positive",
     [](auto& t) { truncated_normal(t(F, {1}), {3}, 0, 0); }},
    {"truncated_normal", "mean 0, deviation 1, bounds 100000001 and 100000003: no number of f32 exists there",
     [](auto& t) { truncated_normal(t(F, {1}), {3}, 0, 1, 100000001, 100000003); }},
    {"uniform",
     "bounds are -3e+38 and 3e+38, hi - lo is 6e+38: numbers are drawn in f32, which does not hold 6e+38; "
     "draw "
     "between 0 and 1, convert it to f64, and scale it there",
     [](auto& t) { uniform(t(F, {1}), {3}, -3e38, 3e38); }},
    {"uniform", "hi - lo is 1e-50: numbers are drawn in f32, which does not hold 1e-50",
     [](auto& t) { uniform(t(F, {1}), {3}, 0, 1e-50); }},
    {"uniform", "no number of f32 exists from 100000001 to before 100000003",
     [](auto& t) { uniform(t(F, {1}), {3}, 100000001, 100000003); }},
    {"uniform", "bounds are 0 and inf; the lower comes first, and both are finite",
     [](auto& t) { uniform(t(F, {1}), {3}, 0, INFINITY); }},
    {"randint", "4294967295 as i32: i32 holds -2147483648 to 2147483647; take a dtype that does, as i64",
     [](auto& t) { randint(t(F, {1}), {3}, 0, int64_t{1} << 32); }},
    {"randint", "-2147483649 as i32", [](auto& t) { randint(t(F, {1}), {3}, -2147483649, 0); }},
    {"mul",
     "0.5 with i32[4]: i32 holds only whole numbers; convert the tensor: x.to(f32) in Python, convert(x, "
     "DType::f32) in C++",
     [](auto& t) { t(I, {4}) * 0.5; }},
    {"ge", "0.5 with i32[4]: i32 holds only whole numbers", [](auto& t) { t(I, {4}) >= 0.5; }},
    {"gt", "0.5 with i32[4]: i32 holds only whole numbers", [](auto& t) { 0.5 > t(I, {4}); }},
    {"ge", "dtypes differ: lhs i32[4], rhs f32[4]; convert one side?",
     [](auto& t) { t(I, {4}) >= t(F, {4}); }},
    {"gt", "shapes do not broadcast: lhs f32[4], rhs f32[3]; ", [](auto& t) { t(F, {4}) > t(F, {3}); }},
    {"add", "300 with u8[4]: u8 holds 0 to 255; convert the tensor: x.to(i32) in Python",
     [](auto& t) { t(U8, {4}) + 300; }},
    {"sub", "-1 with u8[4]: u8 holds 0 to 255", [](auto& t) { -1 - t(U8, {4}); }},
    {"sub", "127.5 with u8[4]: u8 holds only whole numbers", [](auto& t) { t(U8, {4}) - 127.5; }},
    {"mul", "NaN with i32[4]: i32 holds only whole numbers; convert the tensor: x.to(f32)",
     [](auto& t) { t(I, {4}) * std::nan(""); }},
    {"eq", "1099511627776 with i32[4]: i32 holds -2147483648 to 2147483647; convert the tensor: x.to(i64)",
     [](auto& t) { t(I, {4}) == (int64_t{1} << 40); }},
    {"remainder", "2.5 with i64[4]", [](auto& t) { t(L, {4}) % 2.5; }},
    {"floor_divide", "2.5 with i64[4]", [](auto& t) { floor_divide(t(L, {4}), 2.5); }},
    {"pow", "1.5 with i32[4]", [](auto& t) { pow(t(I, {4}), 1.5); }},
    {"and", "256 with u8[4]", [](auto& t) { t(U8, {4}) & 256; }},
    {"shl", "-1 with u8[4]", [](auto& t) { bitwise_left_shift(t(U8, {4}), -1); }},
    {"eq", "2 with bool[4]: bool holds 0 and 1; convert the tensor: x.to(i32)",
     [](auto& t) { t(B, {4}) == 2; }},
    {"mul",
     "1e+300 with f32[4]: it is beyond f32, whose largest number is 3.4028235e+38; convert the tensor: "
     "x.to(f64)",
     [](auto& t) { t(F, {4}) * 1e300; }},
    {"masked_fill", "-1e+09 with f16[4]: it is beyond f16, whose largest number is 65504",
     [](auto& t) { masked_fill(t(DType::f16, {4}), t(B, {4}), -1e9); }},
    {"mul",
     "1e-09 with f16[4]: it becomes 0 in f16, whose least number beyond 0 is 5.9604645e-08; convert the "
     "tensor: x.to(f32)",
     [](auto& t) { t(DType::f16, {4}) * 1e-9; }},
    {"add", "-1e-50 with f32[4]: it becomes 0 in f32, whose least number beyond 0 is 1.4012985e-45",
     [](auto& t) { t(F, {4}) + -1e-50; }},
    {"div", "1e-41 with bf16[4]: it becomes 0 in bf16, whose least number beyond 0 is 9.1835496e-41",
     [](auto& t) { t(H, {4}) / 1e-41; }},
    {"clamp", "1e-12 with f16[4]: it becomes 0 in f16", [](auto& t) { clamp(t(DType::f16, {4}), 1e-12, 1); }},
    {"full", "1e-04 as f8_e4m3: it becomes 0 in f8_e4m3, whose least number beyond 0 is 0.001953125",
     [](auto& t) { full(t(F, {4}), {2}, 1e-4, DType::f8_e4m3); }},
    {"full", "1e-06 as f8_e5m2: it becomes 0 in f8_e5m2, whose least number beyond 0 is 1.5258789e-05",
     [](auto& t) { full(t(F, {4}), {2}, 1e-6, DType::f8_e5m2); }},
    {"masked_fill", "-inf with i32[4]: i32 holds only whole numbers",
     [](auto& t) { masked_fill(t(I, {4}), t(B, {4}), -INFINITY); }},
    {"full", "0.5 as i32: i32 holds only whole numbers; take a dtype that does, as f32",
     [](auto& t) { full(t(F, {4}), {2}, 0.5, I); }},
    {"full", "300 with u8[4]", [](auto& t) { full_like(t(U8, {4}), 300); }},
    {"constant", "9223372036854775808 as i64", [](auto& t) { constant(t(F, {4}), {0x1p63}, L); }},
    {"constant", "300 as u8", [](auto& t) { constant(t(F, {4}), std::vector<double>{300}, U8); }},
    {"clamp", "0.5 with i32[4]", [](auto& t) { clamp(t(I, {4}), 0.5, 2); }},
    {"pad", "-1 with u8[4]", [](auto& t) { pad(t(U8, {4}), {1}, {0}, -1); }},
    {"scatter", "0.5 with i32[4]", [](auto& t) { scatter(t(I, {4}), 0, t(I, {2}), 0.5); }},
    {"arange", "0.5 as i32: i32 holds only whole numbers; take a dtype that does, as f32",
     [](auto& t) { arange(t(F, {2}), 0, 2, 0.5); }},
    {"arange", "300 as u8: u8 holds 0 to 255", [](auto& t) { arange(t(F, {2}), 0, 301, 100, U8); }},
    {"cross_entropy", "\"ignore_index\" is 4294967296 as i32",
     [](auto& t) { cross_entropy(t(F, {4, 3}), t(I, {4}), {.ignore_index = int64_t{1} << 32}); }},
    {"rrelu", "bounds are 0.5 and 0.1; the lower comes first", [](auto& t) { rrelu(t(F, {3}), 0.5, 0.1); }},
    {"multinomial", "4 of f32[2,3]: needs [samples, ..., n], and 1 to n places, or `again`",
     [](auto& t) { multinomial(t(F, {2, 3}), 4); }},
    {"multinomial", "a constant weight of f32[2,3] is -1, needs a finite number, 0 or more",
     [](auto& t) { multinomial(broadcast_to(constant(t(F, {2}), {1, 0, -1}), {2, 3}), 1); }},
    {"multinomial", "a constant weight of f32[2,3] is inf, needs a finite number, 0 or more",
     [](auto& t) { multinomial(full(t(F, {2}), {2, 3}, HUGE_VAL, F), 1); }},
    {"multinomial", "all weights of f32[2,3] are the constant 0; one of a row at least is above 0",
     [](auto& t) { multinomial(zeros(t(F, {2}), {2, 3}), 1, true); }},
    {"gumbel_softmax", "temperature is 0, needs a positive number",
     [](auto& t) { gumbel_softmax(t(F, {3}), 0); }},
    {"sum_counts", "the count is i32[], needs i64[] or floats of rank 0",
     [](auto& t) { sum_counts(t(I, {})); }},
    {"mse_loss", "input is f32[2], target f32[3]: one shape",
     [](auto& t) { mse_loss(t(F, {2}), t(F, {3})); }},
    {"mse_loss", "dtypes differ: input 0 f32[2], input 1 bf16[2]; convert one?",
     [](auto& t) { mse_loss(t(F, {2}), t(H, {2})); }},
    {"huber_loss", "delta is 0, needs a positive number",
     [](auto& t) { huber_loss(t(F, {2}), t(F, {2}), 0); }},
    {"smooth_l1_loss", "beta is -1, needs 0 or more",
     [](auto& t) { smooth_l1_loss(t(F, {2}), t(F, {2}), -1); }},
    {"cross_entropy", "weights are f32[2], need floats [3], one per class",
     [](auto& t) { cross_entropy(t(F, {4, 3}), t(I, {4}), {.weight = t(F, {2})}); }},
    {"cross_entropy", "logits are f32[4,3], targets are i32[3], need i32[4]",
     [](auto& t) { cross_entropy(t(F, {4, 3}), t(I, {3}), {.smoothing = 0.1}); }},
    {"cross_entropy", "smoothing is 2, needs a share between 0 and 1",
     [](auto& t) { cross_entropy(t(F, {4, 3}), t(I, {4}), {.smoothing = 2}); }},
    {"soft_cross_entropy", "logits are f32[4,3], probabilities f32[4], need [..., vocab] twice",
     [](auto& t) { soft_cross_entropy(t(F, {4, 3}), t(F, {4})); }},
    {"mean_loss", "weights are f32[3] for values f32[2]: one shape",
     [](auto& t) { mean_loss(t(F, {2}), t(F, {3})); }},
    {"multi_margin_loss", "p is 3, needs 1 or 2",
     [](auto& t) { multi_margin_loss(t(F, {4, 3}), t(I, {4}), 3); }},
    {"cosine_embedding_loss",
     "inputs are f32[4,3] and f32[4,2], targets f32[4], need [rows, n] twice and [rows]",
     [](auto& t) { cosine_embedding_loss(t(F, {4, 3}), t(F, {4, 2}), t(F, {4})); }},
    {"ctc_loss", "need [time, batch, classes], [batch, most], [batch], [batch]",
     [](auto& t) { ctc_loss(t(F, {5, 2, 3}), t(I, {3, 2}), t(I, {2}), t(I, {2})); }},
    {"ctc_loss", "blank is 3, classes are 0 ... 2",
     [](auto& t) { ctc_loss(t(F, {5, 2, 3}), t(I, {2, 2}), t(I, {2}), t(I, {2}), 3); }},
    {"kl_div", "input has no dim of rows", [](auto& t) { kl_div(t(F, {}), t(F, {})); }},
};

TEST(FunctionMessages, NameTheFunctionTheLineAndWhatDoesNotFit) {
  for (const Refusal& refusal : kRefusals) {
    SCOPED_TRACE(refusal.words);
    Traced traced;
    try {
      refusal.call(traced);
      ADD_FAILURE() << refusal.op << ": accepted";
    } catch (const UserError& error) {
      const std::string what = error.what();
      EXPECT_EQ(what.rfind(str("[", refusal.op, "] ops_functions_messages_test.cpp:"), 0), 0u) << what;
      EXPECT_NE(what.find(refusal.words), std::string::npos) << what;
    }
  }
}

// Every node that a function of several nodes writes has the user's line, and so have operators.
TEST(FunctionMessages, NodesHaveTheUsersLine) {
  Traced t;
  Tensor x = t(F, {4, 6}), y;
  auto lines = [&](size_t from) {
    std::set<int> out;
    for (size_t n = from; n < t.builder->graph.nodes.size(); ++n)
      out.insert(t.builder->graph.nodes[n].at.line);
    return out;
  };
  size_t from = t.builder->graph.nodes.size();
  y = log_softmax(group_norm(x, 2)), y = cumsum(sort(y).values, 1), y += 1, y -= x;
  EXPECT_EQ(lines(from), std::set<int>{__LINE__ - 1});
  from = t.builder->graph.nodes.size();
  y = where((x > 0 && !(x >= y)) || x == 1.0, x % 2.0, mean(x)), y = mse_loss(x, flip(y, {0})).sum;
  EXPECT_EQ(lines(from), std::set<int>{__LINE__ - 1});
}

}  // namespace
}  // namespace lockstep
