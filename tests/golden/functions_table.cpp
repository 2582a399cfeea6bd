// The calls of functions/make.py in this language.
#include "tests/golden/functions_table.h"

#include <limits>

namespace lockstep::golden {

namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
using Table = std::map<std::string, std::function<Tensors(const Tensors&)>>;

Tensors both(const ValuesAndIndices& made) { return {made.values, made.indices}; }
Tensor mean_of(const Loss& loss) { return loss.sum / convert(loss.count, loss.sum.dtype()); }

// Functions of elements, reductions, order.
Table elements() {
  return {
      {"abs", [](const Tensors& x) -> Tensors { return {abs(x[0])}; }},
      {"sign", [](const Tensors& x) -> Tensors { return {sign(x[0])}; }},
      {"floor", [](const Tensors& x) -> Tensors { return {floor(x[0])}; }},
      {"ceil", [](const Tensors& x) -> Tensors { return {ceil(x[0])}; }},
      {"round", [](const Tensors& x) -> Tensors { return {round(x[0])}; }},
      {"trunc", [](const Tensors& x) -> Tensors { return {trunc(x[0])}; }},
      {"square", [](const Tensors& x) -> Tensors { return {square(x[0])}; }},
      {"exp", [](const Tensors& x) -> Tensors { return {exp(x[0])}; }},
      {"expm1", [](const Tensors& x) -> Tensors { return {expm1(x[0])}; }},
      {"exp2", [](const Tensors& x) -> Tensors { return {exp2(x[0])}; }},
      {"sin", [](const Tensors& x) -> Tensors { return {sin(x[0])}; }},
      {"cos", [](const Tensors& x) -> Tensors { return {cos(x[0])}; }},
      {"tan", [](const Tensors& x) -> Tensors { return {tan(x[0])}; }},
      {"atan", [](const Tensors& x) -> Tensors { return {atan(x[0])}; }},
      {"sinh", [](const Tensors& x) -> Tensors { return {sinh(x[0])}; }},
      {"cosh", [](const Tensors& x) -> Tensors { return {cosh(x[0])}; }},
      {"tanh", [](const Tensors& x) -> Tensors { return {tanh(x[0])}; }},
      {"asinh", [](const Tensors& x) -> Tensors { return {asinh(x[0])}; }},
      {"erf", [](const Tensors& x) -> Tensors { return {erf(x[0])}; }},
      {"sigmoid", [](const Tensors& x) -> Tensors { return {sigmoid(x[0])}; }},
      {"reciprocal", [](const Tensors& x) -> Tensors { return {reciprocal(x[0])}; }},
      {"sqrt", [](const Tensors& x) -> Tensors { return {sqrt(x[0])}; }},
      {"rsqrt", [](const Tensors& x) -> Tensors { return {rsqrt(x[0])}; }},
      {"log", [](const Tensors& x) -> Tensors { return {log(x[0])}; }},
      {"log2", [](const Tensors& x) -> Tensors { return {log2(x[0])}; }},
      {"log10", [](const Tensors& x) -> Tensors { return {log10(x[0])}; }},
      {"log1p", [](const Tensors& x) -> Tensors { return {log1p(x[0])}; }},
      {"asin", [](const Tensors& x) -> Tensors { return {asin(x[0])}; }},
      {"acos", [](const Tensors& x) -> Tensors { return {acos(x[0])}; }},
      {"atanh", [](const Tensors& x) -> Tensors { return {atanh(x[0])}; }},
      {"erfinv", [](const Tensors& x) -> Tensors { return {erfinv(x[0])}; }},
      {"acosh", [](const Tensors& x) -> Tensors { return {acosh(x[0])}; }},
      {"isnan", [](const Tensors& x) -> Tensors { return {isnan(x[0])}; }},
      {"isinf", [](const Tensors& x) -> Tensors { return {isinf(x[0])}; }},
      {"isfinite", [](const Tensors& x) -> Tensors { return {isfinite(x[0])}; }},
      {"relu", [](const Tensors& x) -> Tensors { return {relu(x[0])}; }},
      {"relu6", [](const Tensors& x) -> Tensors { return {relu6(x[0])}; }},
      {"selu", [](const Tensors& x) -> Tensors { return {selu(x[0])}; }},
      {"mish", [](const Tensors& x) -> Tensors { return {mish(x[0])}; }},
      {"hardswish", [](const Tensors& x) -> Tensors { return {hardswish(x[0])}; }},
      {"softsign", [](const Tensors& x) -> Tensors { return {softsign(x[0])}; }},
      {"tanhshrink", [](const Tensors& x) -> Tensors { return {tanhshrink(x[0])}; }},
      {"logsigmoid", [](const Tensors& x) -> Tensors { return {logsigmoid(x[0])}; }},
      {"silu", [](const Tensors& x) -> Tensors { return {silu(x[0])}; }},
      {"hardsigmoid", [](const Tensors& x) -> Tensors { return {hardsigmoid(x[0])}; }},
      {"logical_not", [](const Tensors& x) -> Tensors { return {logical_not(x[0])}; }},
      {"bitwise_not", [](const Tensors& x) -> Tensors { return {bitwise_not(x[0])}; }},
      {"gelu", [](const Tensors& x) -> Tensors { return {gelu(x[0])}; }},
      {"gelu_erf", [](const Tensors& x) -> Tensors { return {gelu_erf(x[0])}; }},
      {"pow_0", [](const Tensors& x) -> Tensors { return {pow(x[0], 0)}; }},
      {"pow_0.5", [](const Tensors& x) -> Tensors { return {pow(x[0], 0.5)}; }},
      {"pow_1", [](const Tensors& x) -> Tensors { return {pow(x[0], 1)}; }},
      {"pow_2", [](const Tensors& x) -> Tensors { return {pow(x[0], 2)}; }},
      {"pow_3", [](const Tensors& x) -> Tensors { return {pow(x[0], 3)}; }},
      {"pow_-1", [](const Tensors& x) -> Tensors { return {pow(x[0], -1)}; }},
      {"pow_-0.5", [](const Tensors& x) -> Tensors { return {pow(x[0], -0.5)}; }},
      {"pow_2.7", [](const Tensors& x) -> Tensors { return {pow(x[0], 2.7)}; }},
      {"pow_0_at_0", [](const Tensors& x) -> Tensors { return {pow(x[0], 0)}; }},
      {"pow_tensor", [](const Tensors& x) -> Tensors { return {pow(x[0], x[1])}; }},
      {"pow_base", [](const Tensors& x) -> Tensors { return {pow(1.7, x[0])}; }},
      {"clamp", [](const Tensors& x) -> Tensors { return {clamp(x[0], -0.5, 1)}; }},
      {"nan_to_num", [](const Tensors& x) -> Tensors { return {nan_to_num(x[0], 0.25)}; }},
      {"stop_gradient", [](const Tensors& x) -> Tensors { return {x[0] * stop_gradient(x[0])}; }},
      {"add", [](const Tensors& x) -> Tensors { return {x[0] + x[1]}; }},
      {"sub", [](const Tensors& x) -> Tensors { return {x[0] - x[1]}; }},
      {"mul", [](const Tensors& x) -> Tensors { return {x[0] * x[1]}; }},
      {"div", [](const Tensors& x) -> Tensors { return {x[0] / x[1]}; }},
      {"remainder", [](const Tensors& x) -> Tensors { return {remainder(x[0], x[1])}; }},
      {"remainder_i32", [](const Tensors& x) -> Tensors { return {x[0] % x[1]}; }},
      {"floor_divide_i32", [](const Tensors& x) -> Tensors { return {floor_divide(x[0], x[1])}; }},
      {"floor_divide", [](const Tensors& x) -> Tensors { return {floor_divide(x[0], x[1])}; }},
      {"maximum", [](const Tensors& x) -> Tensors { return {maximum(x[0], x[1])}; }},
      {"minimum", [](const Tensors& x) -> Tensors { return {minimum(x[0], x[1])}; }},
      {"eq", [](const Tensors& x) -> Tensors { return {x[0] == x[1]}; }},
      {"eq_number", [](const Tensors& x) -> Tensors { return {x[0] == 1}; }},
      {"ne", [](const Tensors& x) -> Tensors { return {x[0] != x[1]}; }},
      {"ne_number", [](const Tensors& x) -> Tensors { return {x[0] != 1}; }},
      {"lt", [](const Tensors& x) -> Tensors { return {x[0] < x[1]}; }},
      {"lt_number", [](const Tensors& x) -> Tensors { return {x[0] < 1}; }},
      {"le", [](const Tensors& x) -> Tensors { return {x[0] <= x[1]}; }},
      {"le_number", [](const Tensors& x) -> Tensors { return {x[0] <= 1}; }},
      {"gt", [](const Tensors& x) -> Tensors { return {x[0] > x[1]}; }},
      {"gt_number", [](const Tensors& x) -> Tensors { return {x[0] > 1}; }},
      {"ge", [](const Tensors& x) -> Tensors { return {x[0] >= x[1]}; }},
      {"ge_number", [](const Tensors& x) -> Tensors { return {x[0] >= 1}; }},
      {"logical_and", [](const Tensors& x) -> Tensors { return {x[0] && x[1]}; }},
      {"bitwise_and", [](const Tensors& x) -> Tensors { return {x[0] & x[1]}; }},
      {"logical_or", [](const Tensors& x) -> Tensors { return {x[0] || x[1]}; }},
      {"bitwise_or", [](const Tensors& x) -> Tensors { return {x[0] | x[1]}; }},
      {"logical_xor", [](const Tensors& x) -> Tensors { return {logical_xor(x[0], x[1])}; }},
      {"bitwise_xor", [](const Tensors& x) -> Tensors { return {x[0] ^ x[1]}; }},
      {"shifts",
       [](const Tensors& x) -> Tensors {
         return {bitwise_left_shift(x[0], x[1]), bitwise_right_shift(x[0], x[1])};
       }},
      {"where", [](const Tensors& x) -> Tensors { return {where(x[0], x[1], x[2])}; }},
      {"masked_fill", [](const Tensors& x) -> Tensors { return {masked_fill(x[0], x[1], -7)}; }},
      {"lerp", [](const Tensors& x) -> Tensors { return {lerp(x[0], x[1], 0.3)}; }},
      {"hardtanh", [](const Tensors& x) -> Tensors { return {hardtanh(x[0], -1, 1.5)}; }},
      {"leaky_relu", [](const Tensors& x) -> Tensors { return {leaky_relu(x[0], 0.1)}; }},
      {"prelu", [](const Tensors& x) -> Tensors { return {prelu(x[0], x[1])}; }},
      {"prelu_one", [](const Tensors& x) -> Tensors { return {prelu(x[0], x[1])}; }},
      {"elu", [](const Tensors& x) -> Tensors { return {elu(x[0], 0.7)}; }},
      {"celu", [](const Tensors& x) -> Tensors { return {celu(x[0], 0.7)}; }},
      {"softplus", [](const Tensors& x) -> Tensors { return {softplus(x[0])}; }},
      {"softplus_beta", [](const Tensors& x) -> Tensors { return {softplus(x[0], 2, 5)}; }},
      {"hardshrink", [](const Tensors& x) -> Tensors { return {hardshrink(x[0])}; }},
      {"softshrink", [](const Tensors& x) -> Tensors { return {softshrink(x[0])}; }},
      {"glu", [](const Tensors& x) -> Tensors { return {glu(x[0], 1)}; }},
      {"sum", [](const Tensors& x) -> Tensors { return {sum(x[0], {0, 2})}; }},
      {"prod", [](const Tensors& x) -> Tensors { return {prod(x[0], {0, 2})}; }},
      {"amax", [](const Tensors& x) -> Tensors { return {max(x[0], {0, 2})}; }},
      {"amin", [](const Tensors& x) -> Tensors { return {min(x[0], {0, 2})}; }},
      {"sum_all", [](const Tensors& x) -> Tensors { return {sum(x[0])}; }},
      {"mean_keep", [](const Tensors& x) -> Tensors { return {mean(x[0], {1}, true)}; }},
      {"mean_all", [](const Tensors& x) -> Tensors { return {mean(x[0])}; }},
      {"max_ties", [](const Tensors& x) -> Tensors { return {max(x[0])}; }},
      {"any_all", [](const Tensors& x) -> Tensors { return {any(x[0], {1}), all(x[0], {1})}; }},
      {"argmax", [](const Tensors& x) -> Tensors { return {argmax(x[0], 1), argmin(x[0], 0)}; }},
      {"var", [](const Tensors& x) -> Tensors { return {var(x[0], {1, 2})}; }},
      {"var_0", [](const Tensors& x) -> Tensors { return {var(x[0], {1}, 0, true)}; }},
      {"std", [](const Tensors& x) -> Tensors { return {stddev(x[0], {-1})}; }},
      {"std_flat", [](const Tensors& x) -> Tensors { return {stddev(x[0])}; }},
      {"norm_0", [](const Tensors& x) -> Tensors { return {norm(x[0], 0, {1})}; }},
      {"norm_1", [](const Tensors& x) -> Tensors { return {norm(x[0], 1, {1})}; }},
      {"norm_2", [](const Tensors& x) -> Tensors { return {norm(x[0], 2, {1})}; }},
      {"norm_3", [](const Tensors& x) -> Tensors { return {norm(x[0], 3, {1})}; }},
      {"norm_0.5", [](const Tensors& x) -> Tensors { return {norm(x[0], 0.5, {1})}; }},
      {"norm_inf", [](const Tensors& x) -> Tensors { return {norm(x[0], kInf, {1})}; }},
      {"norm_-inf", [](const Tensors& x) -> Tensors { return {norm(x[0], -kInf, {1})}; }},
      {"norm_at_0", [](const Tensors& x) -> Tensors { return {norm(x[0], 2)}; }},
      {"logsumexp", [](const Tensors& x) -> Tensors { return {logsumexp(x[0], {0, 2})}; }},
      {"logsumexp_keep", [](const Tensors& x) -> Tensors { return {logsumexp(x[0], {1}, true)}; }},
      {"cumsum", [](const Tensors& x) -> Tensors { return {cumsum(x[0], 1)}; }},
      {"cumsum_i32", [](const Tensors& x) -> Tensors { return {cumsum(x[0], 0)}; }},
      {"cumprod", [](const Tensors& x) -> Tensors { return {cumprod(x[0], 1)}; }},
      {"cumprod_0", [](const Tensors& x) -> Tensors { return {cumprod(x[0], 0)}; }},
      {"max_with_index", [](const Tensors& x) -> Tensors { return both(max_with_index(x[0], 1)); }},
      {"min_with_index", [](const Tensors& x) -> Tensors { return both(min_with_index(x[0], 0, true)); }},
      {"sort", [](const Tensors& x) -> Tensors { return both(sort(x[0])); }},
      {"sort_down", [](const Tensors& x) -> Tensors { return both(sort(x[0], 0, true)); }},
      {"sort_up", [](const Tensors& x) -> Tensors { return both(sort(x[0])); }},
      {"sort_nan", [](const Tensors& x) -> Tensors { return both(sort(x[0])); }},
      {"sort_nan_down", [](const Tensors& x) -> Tensors { return both(sort(x[0], 0, true)); }},
      {"median_nan", [](const Tensors& x) -> Tensors { return both(median(x[0], 1)); }},
      {"sort_dim0", [](const Tensors& x) -> Tensors { return both(sort(x[0], 0)); }},
      {"sort_i32", [](const Tensors& x) -> Tensors { return both(sort(x[0], 1, true)); }},
      {"argsort", [](const Tensors& x) -> Tensors { return {argsort(x[0])}; }},
      {"topk", [](const Tensors& x) -> Tensors { return both(topk(x[0], 2)); }},
      {"topk_many", [](const Tensors& x) -> Tensors { return both(topk(x[0], 6, 1, false)); }},
      {"median", [](const Tensors& x) -> Tensors { return both(median(x[0], 1)); }},
      {"median_even", [](const Tensors& x) -> Tensors { return both(median(x[0], 0, true)); }},
  };
}
// Shapes, indices, contractions, norms, images.
Table shapes() {
  Table table{
      {"flatten", [](const Tensors& x) -> Tensors { return {flatten(x[0], 1, 2)}; }},
      {"unflatten", [](const Tensors& x) -> Tensors { return {unflatten(x[0], 1, {-1, 2})}; }},
      {"squeeze",
       [](const Tensors& x) -> Tensors { return {squeeze(x[0]), squeeze(x[0], 1), squeeze(x[0], 0)}; }},
      {"unsqueeze",
       [](const Tensors& x) -> Tensors {
         return {unsqueeze(x[0], 0), unsqueeze(x[0], -1), unsqueeze(x[0], 1)};
       }},
      {"movedim", [](const Tensors& x) -> Tensors { return {movedim(x[0], 0, 2)}; }},
      {"expand", [](const Tensors& x) -> Tensors { return {expand(x[0], {2, -1, 4})}; }},
      {"repeat", [](const Tensors& x) -> Tensors { return {repeat(x[0], {2, 1, 3})}; }},
      {"tile", [](const Tensors& x) -> Tensors { return {tile(x[0], {3})}; }},
      {"repeat_interleave", [](const Tensors& x) -> Tensors { return {repeat_interleave(x[0], 3, 0)}; }},
      {"meshgrid", [](const Tensors& x) -> Tensors { return meshgrid({x[0], x[1]}); }},
      {"slice_negative", [](const Tensors& x) -> Tensors { return {slice(x[0], 1, -3, -1)}; }},
      {"slice_step", [](const Tensors& x) -> Tensors { return {slice(x[0], 0, 1, 7, 2)}; }},
      {"slice_far", [](const Tensors& x) -> Tensors { return {slice(x[0], 0, -3, 99, 1)}; }},
      {"select", [](const Tensors& x) -> Tensors { return {select(x[0], 1, -2)}; }},
      {"chunk", [](const Tensors& x) -> Tensors { return chunk(x[0], 3, 0); }},
      {"unbind", [](const Tensors& x) -> Tensors { return unbind(x[0], 1); }},
      {"stack", [](const Tensors& x) -> Tensors { return {stack({x[0], x[1]}), stack({x[0], x[1]}, -1)}; }},
      {"roll", [](const Tensors& x) -> Tensors { return {roll(x[0], 2, 1), roll(x[0], -1, 0)}; }},
      {"flip", [](const Tensors& x) -> Tensors { return {flip(x[0], {0, 2})}; }},
      {"tril", [](const Tensors& x) -> Tensors { return {tril(x[0]), tril(x[0], 1), triu(x[0], -1)}; }},
      {"pad_reflect",
       [](const Tensors& x) -> Tensors { return {pad(x[0], {0, 0, 0, 2}, {0, 0, 1, 1}, PadMode::reflect)}; }},
      {"pad_replicate",
       [](const Tensors& x) -> Tensors {
         return {pad(x[0], {0, 0, 0, 2}, {0, 0, 1, 3}, PadMode::replicate)};
       }},
      {"pad_circular",
       [](const Tensors& x) -> Tensors {
         return {pad(x[0], {0, 0, 3, 2}, {0, 0, 1, 1}, PadMode::circular)};
       }},
      {"arange",
       [](const Tensors& x) -> Tensors {
         return {arange(x[0], 2, 11, 3), arange(x[0], 1, 2, 0.25, DType::f32)};
       }},
      {"linspace", [](const Tensors& x) -> Tensors { return {linspace(x[0], -1, 2, 7)}; }},
      {"eye", [](const Tensors& x) -> Tensors { return {eye(x[0], 3), eye(x[0], 2, 4)}; }},
      {"one_hot", [](const Tensors& x) -> Tensors { return {one_hot(x[0], 5)}; }},
      {"constant", [](const Tensors& x) -> Tensors { return {constant(x[0], {1.5, -2, 0.25})}; }},
      {"embedding", [](const Tensors& x) -> Tensors { return {embedding(x[0], x[1])}; }},
      {"embedding_padding", [](const Tensors& x) -> Tensors { return {embedding(x[0], x[1], 1)}; }},
      {"bag_sum", [](const Tensors& x) -> Tensors { return {embedding_bag(x[0], x[1], Bag::sum, 1)}; }},
      {"bag_mean", [](const Tensors& x) -> Tensors { return {embedding_bag(x[0], x[1], Bag::mean, 1)}; }},
      {"bag_weights",
       [](const Tensors& x) -> Tensors { return {embedding_bag(x[0], x[1], Bag::sum, -1, x[2])}; }},
      {"index_add", [](const Tensors& x) -> Tensors { return {index_add(x[0], x[1], 5)}; }},
      {"index_select", [](const Tensors& x) -> Tensors { return {index_select(x[0], 1, x[1])}; }},
      {"gather", [](const Tensors& x) -> Tensors { return {gather(x[0], 1, x[1])}; }},
      {"gather_0", [](const Tensors& x) -> Tensors { return {gather(x[0], 0, x[1])}; }},
      {"take_along_dim", [](const Tensors& x) -> Tensors { return {take_along_dim(x[0], x[1], 1)}; }},
      {"scatter_add", [](const Tensors& x) -> Tensors { return {scatter_add(x[0], 1, x[1], x[2])}; }},
      {"scatter", [](const Tensors& x) -> Tensors { return {scatter(x[0], 1, x[1], x[2])}; }},
      {"scatter_value", [](const Tensors& x) -> Tensors { return {scatter(x[0], 0, x[1], 1.5)}; }},
      {"matmul_3_2", [](const Tensors& x) -> Tensors { return {matmul(x[0], x[1])}; }},
      {"matmul_broadcast", [](const Tensors& x) -> Tensors { return {matmul(x[0], x[1])}; }},
      {"matmul_2_3", [](const Tensors& x) -> Tensors { return {matmul(x[0], x[1])}; }},
      {"matmul_vectors", [](const Tensors& x) -> Tensors { return {matmul(x[0], x[1])}; }},
      {"matmul_row", [](const Tensors& x) -> Tensors { return {matmul(x[0], x[1])}; }},
      {"matmul_column", [](const Tensors& x) -> Tensors { return {matmul(x[0], x[1])}; }},
      {"bmm", [](const Tensors& x) -> Tensors { return {bmm(x[0], x[1])}; }},
      {"outer", [](const Tensors& x) -> Tensors { return {outer(x[0], x[1])}; }},
      {"tensordot", [](const Tensors& x) -> Tensors { return {tensordot(x[0], x[1], {2, 0}, {0, 1})}; }},
      {"softmax_0", [](const Tensors& x) -> Tensors { return {softmax(x[0], 0)}; }},
      {"softmax_1", [](const Tensors& x) -> Tensors { return {softmax(x[0], 1)}; }},
      {"softmax_last", [](const Tensors& x) -> Tensors { return {softmax(x[0], -1)}; }},
      {"log_softmax", [](const Tensors& x) -> Tensors { return {log_softmax(x[0], 1), log_softmax(x[0])}; }},
      {"normalize", [](const Tensors& x) -> Tensors { return {normalize(x[0])}; }},
      {"normalize_1", [](const Tensors& x) -> Tensors { return {normalize(x[0], 1, 0)}; }},
      {"group_norm", [](const Tensors& x) -> Tensors { return {group_norm(x[0], 2, x[1], x[2])}; }},
      {"group_norm_plain", [](const Tensors& x) -> Tensors { return {group_norm(x[0], 3)}; }},
      {"instance_norm", [](const Tensors& x) -> Tensors { return {instance_norm(x[0], x[1], x[2])}; }},
      {"batch_norm",
       [](const Tensors& x) -> Tensors {
         BatchNorm made = batch_norm(x[0], x[1], x[2]);
         return {made.y, made.mean, made.variance};
       }},
      {"batch_norm_by",
       [](const Tensors& x) -> Tensors {
         return {batch_norm_by(x[0], stop_gradient(x[1]), stop_gradient(x[2]), x[3], x[4])};
       }},
      {"layer_norm", [](const Tensors& x) -> Tensors { return {layer_norm(x[0], x[1], x[2])}; }},
      {"rms_norm", [](const Tensors& x) -> Tensors { return {rms_norm(x[0], x[1])}; }},
      {"pixel_shuffle", [](const Tensors& x) -> Tensors { return {pixel_shuffle(x[0], 2)}; }},
      {"pixel_unshuffle", [](const Tensors& x) -> Tensors { return {pixel_unshuffle(x[0], 2)}; }},
      {"nearest_0", [](const Tensors& x) -> Tensors { return {interpolate_nearest(x[0], {6, 8})}; }},
      {"linear_0_0", [](const Tensors& x) -> Tensors { return {interpolate_linear(x[0], {6, 8})}; }},
      {"linear_0_1", [](const Tensors& x) -> Tensors { return {interpolate_linear(x[0], {6, 8}, true)}; }},
      {"nearest_1", [](const Tensors& x) -> Tensors { return {interpolate_nearest(x[0], {4, 2})}; }},
      {"linear_1_0", [](const Tensors& x) -> Tensors { return {interpolate_linear(x[0], {4, 2})}; }},
      {"linear_1_1", [](const Tensors& x) -> Tensors { return {interpolate_linear(x[0], {4, 2}, true)}; }},
      {"nearest_2", [](const Tensors& x) -> Tensors { return {interpolate_nearest(x[0], {5, 3})}; }},
      {"linear_2_0", [](const Tensors& x) -> Tensors { return {interpolate_linear(x[0], {5, 3})}; }},
      {"linear_2_1", [](const Tensors& x) -> Tensors { return {interpolate_linear(x[0], {5, 3}, true)}; }},
      {"nearest_3", [](const Tensors& x) -> Tensors { return {interpolate_nearest(x[0], {2, 7})}; }},
      {"linear_3_0", [](const Tensors& x) -> Tensors { return {interpolate_linear(x[0], {2, 7})}; }},
      {"linear_3_1", [](const Tensors& x) -> Tensors { return {interpolate_linear(x[0], {2, 7}, true)}; }},
      {"cosine_similarity", [](const Tensors& x) -> Tensors { return {cosine_similarity(x[0], x[1])}; }},
      {"pairwise_distance", [](const Tensors& x) -> Tensors { return {pairwise_distance(x[0], x[1])}; }},
  };
  for (const char* equation : {"ij,jk->ik", "bij,bjk->bik", "ij->ji", "ii->i", "ii", "ij,ij->i", "ij,ij->ij",
                               "i,j->ij", "bthd,bshd->bhts", "...ij,...jk->...ik", "b...,b...->b",
                               "ij,jk,kl->il", "ba, cb", "ij,kj->", "ij,j->i", "a...b->b...", "i,i,i->i"})
    table[std::string("einsum:") + equation] = [=](const Tensors& x) -> Tensors {
      return {einsum(equation, x)};
    };
  return table;
}
Table losses() {
  return {
      {"cross_entropy", [](const Tensors& x) -> Tensors { return {mean_of(cross_entropy(x[0], x[1]))}; }},
      {"cross_entropy_weight",
       [](const Tensors& x) -> Tensors {
         return {mean_of(cross_entropy(x[0], x[1], {.weight = stop_gradient(x[2])}))};
       }},
      {"cross_entropy_smooth",
       [](const Tensors& x) -> Tensors { return {mean_of(cross_entropy(x[0], x[1], {.smoothing = 0.1}))}; }},
      {"cross_entropy_both",
       [](const Tensors& x) -> Tensors {
         return {mean_of(cross_entropy(x[0], x[1], {.weight = stop_gradient(x[2]), .smoothing = 0.1}))};
       }},
      {"cross_entropy_z",
       [](const Tensors& x) -> Tensors { return {mean_of(cross_entropy(x[0], x[1], {.z_loss = 0.01}))}; }},
      {"soft_cross_entropy",
       [](const Tensors& x) -> Tensors {
         return {mean_of(
             soft_cross_entropy(x[0], softmax(x[1]), {.weight = stop_gradient(x[2]), .smoothing = 0.2}))};
       }},
      {"nll_loss",
       [](const Tensors& x) -> Tensors {
         return {mean_of(nll_loss(x[0], x[1], {.weight = stop_gradient(x[2])}))};
       }},
      {"mse_loss", [](const Tensors& x) -> Tensors { return {mean_of(mse_loss(x[0], x[1]))}; }},
      {"l1_loss", [](const Tensors& x) -> Tensors { return {mean_of(l1_loss(x[0], x[1]))}; }},
      {"huber_loss", [](const Tensors& x) -> Tensors { return {mean_of(huber_loss(x[0], x[1], 0.6))}; }},
      {"smooth_l1_loss",
       [](const Tensors& x) -> Tensors { return {mean_of(smooth_l1_loss(x[0], x[1], 0.6))}; }},
      {"binary_cross_entropy",
       [](const Tensors& x) -> Tensors { return {mean_of(binary_cross_entropy(x[0], x[1]))}; }},
      {"bce_with_logits",
       [](const Tensors& x) -> Tensors { return {mean_of(binary_cross_entropy_with_logits(x[0], x[1]))}; }},
      {"bce_pos_weight",
       [](const Tensors& x) -> Tensors {
         return {mean_of(binary_cross_entropy_with_logits(x[0], x[1], stop_gradient(x[2])))};
       }},
      {"soft_margin_loss",
       [](const Tensors& x) -> Tensors { return {mean_of(soft_margin_loss(x[0], stop_gradient(x[1])))}; }},
      {"hinge_embedding_loss",
       [](const Tensors& x) -> Tensors {
         return {mean_of(hinge_embedding_loss(x[0], stop_gradient(x[1]), 0.8))};
       }},
      {"margin_ranking_loss",
       [](const Tensors& x) -> Tensors {
         return {mean_of(margin_ranking_loss(x[0], x[1], stop_gradient(x[2]), 0.3))};
       }},
      {"poisson_nll_loss",
       [](const Tensors& x) -> Tensors { return {mean_of(poisson_nll_loss(x[0], x[1]))}; }},
      {"gaussian_nll_loss",
       [](const Tensors& x) -> Tensors { return {mean_of(gaussian_nll_loss(x[0], x[1], x[2]))}; }},
      {"kl_div",
       [](const Tensors& x) -> Tensors { return {mean_of(kl_div(log_softmax(x[0]), softmax(x[1])))}; }},
      {"kl_div_log", [](const Tensors& x) -> Tensors { return {mean_of(kl_div(x[0], x[1], true))}; }},
      {"multi_margin_loss",
       [](const Tensors& x) -> Tensors { return {mean_of(multi_margin_loss(x[0], x[1]))}; }},
      {"multi_margin_loss_2",
       [](const Tensors& x) -> Tensors { return {mean_of(multi_margin_loss(x[0], x[1], 2, 0.5))}; }},
      {"cosine_embedding_loss",
       [](const Tensors& x) -> Tensors {
         return {mean_of(cosine_embedding_loss(x[0], x[1], stop_gradient(x[2]), 0.1))};
       }},
      {"triplet_margin_loss",
       [](const Tensors& x) -> Tensors { return {mean_of(triplet_margin_loss(x[0], x[1], x[2]))}; }},
      {"ctc_loss",
       [](const Tensors& x) -> Tensors { return {mean_of(ctc_loss(log_softmax(x[0]), x[1], x[2], x[3]))}; }},
      {"mean_loss", [](const Tensors& x) -> Tensors { return {mean_of(mean_loss(square(x[0])))}; }},
      {"mean_loss_weights",
       [](const Tensors& x) -> Tensors { return {mean_of(mean_loss(x[0], stop_gradient(x[1])))}; }},
  };
}
}  // namespace

const Table& functions() {
  static const Table all = [] {
    Table out = elements();
    for (Table part : {shapes(), losses(), matrices(), later()}) out.merge(part);
    return out;
  }();
  return all;
}

}  // namespace lockstep::golden
