// Op rows of gradient clipping: the global norm, and the scale computed from it.
#include "core/functions/functions.h"
#include "core/ops/rules.h"
#include "core/table/composites.h"

namespace lockstep {

namespace {
using namespace rules;

Types infer_global_norm(const InferContext& c) {
  expect_count(c, 1, size_t(-1));
  DType dtype = statistic(c.in[0].dtype);
  for (size_t i = 0; i < c.in.size(); ++i) expect_float(c, i);
  return {{dtype, {}}};
}
// The sum of each tensor's sum of squares, in the order of the arguments.
std::vector<Tensor> global_norm_expand(const ExpandContext& c) {
  DType dtype = statistic(c.in[0].dtype());
  Tensor total;
  for (const Tensor& g : c.in) {
    std::vector<int64_t> dims = free_dims(g.shape().size(), {});
    Tensor x = convert(g, dtype), squares = sum(x * x, dims);
    total = total.defined() ? total + squares : squares;
  }
  return {sqrt(total)};
}
Types infer_clip_scale(const InferContext& c) {
  expect_count(c, 1);
  expect_float(c, 0);
  expect_rank(c, 0, 0, "the norm");
  (void)c.attrs.number("max");
  return {c.in[0]};
}
std::vector<Tensor> clip_scale_expand(const ExpandContext& c) {
  Tensor norm = c.in[0];
  return {minimum(full_like(norm, 1), c.attrs.number("max") / (norm + 1e-6))};
}
}  // namespace

std::vector<Op> clip_rows() {
  constexpr auto kind = OpKind::composite;
  return {
      {.id = ops::global_norm,
       .kind = kind,
       .attrs = {{"model_dim", AttrType::word, true}, {"once", AttrType::list, true}},
       .infer = infer_global_norm,
       .split = unsplit,
       .expand = global_norm_expand,
       .samples = {floats({f32({3, 5}), f32({7}), f32({2, 1, 4})}), floats({f32({17})}),
                   floats({f32({}), f32({3, 0})})}},
      {.id = ops::clip_scale,
       .kind = kind,
       .attrs = {{"max", AttrType::number}},
       .infer = infer_clip_scale,
       .split = unsplit,
       .expand = clip_scale_expand,
       .samples = {floats({f32({})}, {{"max", 1.0}}, 0, 1), floats({f32({})}, {{"max", 1.0}}, 2, 9)}},
  };
}

std::span<const Op> composite_ops() {
  static const std::vector<Op> rows = [] {
    std::vector<Op> out;
    for (auto& part : {norm_rows(), activation_rows(), loss_rows(), embedding_rows(), rope_rows(),
                       clip_rows(), float8_rows(), float8_linear_rows()})
      out.insert(out.end(), part.begin(), part.end());
    return out;
  }();
  return rows;
}

}  // namespace lockstep
