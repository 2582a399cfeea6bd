// Op rows of the step around the body: lanes (sums over micro-batches), collectives (start and wait),
// structure (grad, vjp, custom_gradient, fused). They have only types here; partition, autodiff and the
// runtime implement them.
#include "core/base/error.h"
#include "core/functions/gradients.h"
#include "core/ops/rules.h"

namespace lockstep {

namespace {
using namespace rules;

constexpr int64_t kLimbs = 8;  // words of the fixed-point integer that sums a norm exactly
const TypedShape kHandle{DType::u8, {0}};

Types infer_same_type(const InferContext& c) {
  expect_count(c, 1);
  return {c.in[0]};
}
// x -> its sum over all lanes, in f32 for bf16 x; a sum of squares has one element per row of dim 0.
Types infer_lane_sum(const InferContext& c) {
  expect_count(c, 1);
  expect_float(c, 0);
  const DType sum = c.in[0].dtype == DType::bf16 ? DType::f32 : c.in[0].dtype;
  return {{sum, c.in[0].shape}, {DType::f64, {c.in[0].shape.empty() ? 1 : c.in[0].shape[0]}}};
}
// ids i32 [n], rows f32 [n, width] of a micro-batch -> those of all micro-batches, with rows of equal ids
// summed.
void expect_rows(const InferContext& c) {
  expect_count(c, 2);
  expect_dtype(c, 0, DType::i32, "the ids");
  expect_rank(c, 0, 1, "the ids");
  expect_dtype(c, 1, DType::f32, "the rows");
  expect_rank(c, 1, 2, "the rows");
  if (c.in[0].shape[0] != c.in[1].shape[0]) c.fail(str("ids are ", in_text(c, 0), ", rows ", in_text(c, 1)));
}
Types infer_lane_rows(const InferContext& c) {
  expect_rows(c);
  (void)c.attrs.integer("rows");
  const int64_t count = c.in[0].shape[0] * c.attrs.integer("micro_batches");
  return {{DType::i32, {count}}, {DType::f32, {count, c.in[1].shape[1]}}};
}
Types infer_sum_rows(const InferContext& c) {
  expect_rows(c);
  (void)c.attrs.integer("rows");
  return {c.in[0], c.in[1], {DType::f64, c.in[0].shape}};
}
// ids i32 [n], ascending, and their rows f32 [n, width] -> a table [rows, width] with these rows, else zeros:
// the gradient of a sparse table. An update reads only these rows of it.
Types infer_spread_rows(const InferContext& c) {
  expect_rows(c);
  return {{DType::f32, {c.attrs.integer("rows"), c.in[1].shape[1]}}};
}
Types infer_gather_rows(const InferContext& c) {
  expect_rows(c);
  return {kHandle};
}
Types infer_lane_count(const InferContext& c) {
  expect_count(c, 1);
  expect_scalar(c, 0, DType::i64, "the count");
  return {c.in[0]};
}
Types infer_norm_limbs(const InferContext& c) {
  for (size_t i = 0; i < c.in.size(); ++i) {
    expect_dtype(c, i, DType::f64, "a sum of squares");
    expect_rank(c, i, 1, "sums of squares");
  }
  return {{DType::i64, {kLimbs}}};
}
Types infer_norm_of_limbs(const InferContext& c) {
  expect_count(c, 1);
  if (c.in[0] != TypedShape{DType::i64, {kLimbs}})
    c.fail(str("limbs are ", in_text(c, 0), ", need i64[", kLimbs, "]"));
  return {{DType::f32, {}}};
}
Types infer_start(const InferContext& c) {
  expect_count(c, 1, size_t(-1));
  if (c.op == ops::all_reduce_start) {
    const auto& op = c.attrs.word("op");
    if (op != "sum" && op != "max" && op != "min")
      c.fail(str("op is \"", op, "\"; known: \"sum\", \"max\", \"min\""));
  } else {
    (void)c.attrs.integer("bucket");
  }
  return {kHandle};
}
Types infer_wait(const InferContext& c) {
  expect_count(c, 1);
  if (c.in[0] != kHandle) c.fail(str("input 0 is ", in_text(c, 0), ", needs the handle of a start"));
  return parse_types(c.attrs.word("types"));
}
// Collectives of model dims return the parts of all ranks in one value, with the rank as first dim; plain ops
// then add or concatenate them.
Types infer_model_start(const InferContext& c) {
  expect_count(c, 1);
  (void)c.attrs.word("mesh_dim");
  if (c.op == ops::model_exchange_start && c.in[0].shape.empty())
    c.fail(str("input is ", in_text(c, 0), ", needs [ranks, ...]"));
  return {kHandle};
}
Types infer_redistribute(const InferContext& c) {
  expect_count(c, 1);
  for (const char* attr : {"mesh_dim", "from", "to"}) (void)c.attrs.word(attr);
  return {c.in[0]};
}
// sum, count, params... -> one gradient per param. `terms`: the number of (sum, count) pairs, whose means are
// added. `scaled`: the loss scale follows the pairs. `rows`: the number of last inputs that are values of a
// micro-batch and not parameters; their gradients are not summed.
Types infer_grad(const InferContext& c) {
  const size_t pairs = c.attrs.has("terms") ? static_cast<size_t>(c.attrs.integer("terms")) : 1;
  const bool scaled = c.attrs.flag("scaled");
  const size_t first = 2 * pairs + scaled;
  if (c.attrs.has("rows")) (void)c.attrs.integer("rows");
  expect_count(c, first, size_t(-1));
  for (size_t i = 0; i < 2 * pairs; i += 2) {
    expect_float(c, i);
    expect_rank(c, i, 0, "the loss");
    if (!is_float(c.in[i + 1].dtype) && c.in[i + 1].dtype != DType::i64)
      c.fail(str("the count is ", in_text(c, i + 1), ", needs i64[] or floats of rank 0"));
    expect_rank(c, i + 1, 0, "the count");
  }
  if (scaled) expect_scalar(c, first - 1, c.in[0].dtype, "the loss scale");
  for (size_t i = first; i < c.in.size(); ++i) expect_float(c, i);
  return Types(c.in.begin() + static_cast<std::ptrdiff_t>(first), c.in.end());
}
Types infer_vjp(const InferContext& c) {  // y, dy, x... -> one gradient per x
  expect_count(c, 3, size_t(-1));
  expect_float(c, 0);
  expect_like(c, 1, 0);
  for (size_t i = 2; i < c.in.size(); ++i) expect_float(c, i);
  return Types(c.in.begin() + 2, c.in.end());
}
Types infer_custom_gradient(const InferContext& c) {  // see core/functions/gradients.h
  const auto outputs = static_cast<size_t>(c.attrs.integer("outputs")),
             inputs = static_cast<size_t>(c.attrs.integer("inputs"));
  expect_count(c, 2 * outputs + inputs, 2 * (outputs + inputs));
  return Types(c.in.begin(), c.in.begin() + static_cast<std::ptrdiff_t>(outputs));
}
Types infer_fused(const InferContext& c) { c.fail("a fused node has a body, which gives its types"); }

// Sums over lanes, of values and of rows of sparse tables.
std::vector<Op> lane_sum_rows() {
  return {
      {.id = ops::sum_lanes,
       .kind = OpKind::lanes,
       .infer = infer_same_type,
       .split = unsplit,
       .samples = {floats({f32({3, 5})}), floats({f32({})}), integers({i64({})})}},
      {.id = ops::lane_sum,
       .kind = OpKind::lanes,
       .attrs = {{"mesh_dim", AttrType::word, true}},
       .infer = infer_lane_sum,
       .split = unsplit,
       .samples = {floats({f32({3, 5})}), floats({f32({7})}), floats({f32({})}),
                   floats({{DType::bf16, {3, 5}}})}},
      {.id = ops::lane_rows,
       .kind = OpKind::lanes,
       .attrs = {{"of", AttrType::word}, {"rows", AttrType::integer}, {"micro_batches", AttrType::integer}},
       .infer = infer_lane_rows,
       .split = unsplit,
       .samples = {integers({i32({3}), f32({3, 5})},
                            {{"of", Attr(std::string("table"))}, {"rows", 4}, {"micro_batches", 1}})}},
      {.id = ops::sum_rows,
       .kind = OpKind::lanes,
       .attrs = {{"rows", AttrType::integer},
                 {"mesh_dim", AttrType::word, true},
                 {"owners", AttrType::word, true}},
       .infer = infer_sum_rows,
       .split = unsplit,
       .samples = {integers({i32({3}), f32({3, 5})}, {{"rows", 4}})}},
      {.id = ops::spread_rows,
       .kind = OpKind::lanes,
       .attrs = {{"rows", AttrType::integer}, {"mesh_dim", AttrType::word, true}},
       .infer = infer_spread_rows,
       .split = unsplit,
       .samples = {integers({i32({3}), f32({3, 5})}, {{"rows", 4}})}},
  };
}

// Counts and norms, which lanes add as integers.
std::vector<Op> lane_integer_rows() {
  return {
      {.id = ops::lane_count,
       .kind = OpKind::lanes,
       .attrs = {{"mesh_dim", AttrType::word, true}},
       .infer = infer_lane_count,
       .split = unsplit,
       .samples = {integers({i64({})})}},
      {.id = ops::local_rows,
       .kind = OpKind::lanes,
       .attrs = {{"mesh_dim", AttrType::word, true}},
       .infer = infer_same_type,
       .split = unsplit,
       .samples = {floats({f32({3, 5})}), floats({f32({7})})}},
      {.id = ops::norm_limbs,
       .kind = OpKind::lanes,
       .attrs = {{"mesh_dim", AttrType::word, true},
                 {"model_dim", AttrType::word, true},
                 {"once", AttrType::list, true}},
       .infer = infer_norm_limbs,
       .split = unsplit,
       .samples = {floats({{DType::f64, {3}}, {DType::f64, {1}}}, {}, 0, 2),
                   floats({{DType::f64, {17}}}, {}, 0, 1e6)}},
      {.id = ops::norm_of_limbs,
       .kind = OpKind::lanes,
       .attrs = {{"mesh_dim", AttrType::word, true}},
       .infer = infer_norm_of_limbs,
       .split = unsplit,
       .samples = {integers({i64({kLimbs})}, {}, 0, 9)}},
  };
}

std::vector<Op> collective_rows() {
  const Attrs bucket{{"bucket", 0}};
  return {
      {.id = ops::lane_exchange_start,
       .kind = OpKind::collective,
       .attrs = {{"bucket", AttrType::integer}, {"mesh_dim", AttrType::word, true}},
       .infer = infer_start,
       .split = unsplit,
       .samples = {floats({f32({3, 5}), f32({7})}, bucket)},
       .half = CollectiveHalf::start,
       .verb = "lane_exchange"},
      {.id = ops::lane_gather_start,
       .kind = OpKind::collective,
       .attrs = {{"of", AttrType::word}, {"mesh_dim", AttrType::word, true}},
       .infer = infer_gather_rows,
       .split = unsplit,
       .samples = {integers({i32({3}), f32({3, 5})}, {{"of", Attr(std::string("table"))}})},
       .half = CollectiveHalf::start,
       .verb = "lane_gather"},
      {.id = ops::all_reduce_start,
       .kind = OpKind::collective,
       .attrs = {{"op", AttrType::word}, {"mesh_dim", AttrType::word, true}},
       .infer = infer_start,
       .split = unsplit,
       .samples = {floats({f32({3, 5})}, {{"op", "sum"}}), integers({i64({8})}, {{"op", "max"}})},
       .half = CollectiveHalf::start,
       .verb = "all_reduce"},
      {.id = ops::all_gather_start,
       .kind = OpKind::collective,
       .attrs = {{"bucket", AttrType::integer}, {"mesh_dim", AttrType::word, true}},
       .infer = infer_start,
       .split = unsplit,
       .samples = {floats({f32({3, 5}), f32({7})}, bucket)},
       .half = CollectiveHalf::start,
       .verb = "all_gather"},
      {.id = ops::wait,
       .kind = OpKind::collective,
       .attrs = {{"types", AttrType::word}},
       .infer = infer_wait,
       .split = unsplit,
       .samples = {floats({kHandle}, {{"types", "f32[3,5];f32[7]"}})},
       .half = CollectiveHalf::wait},
  };
}

// Collectives on a model dim.
std::vector<Op> model_collective_rows() {
  return {
      // x of every rank, stacked: [ranks, x...].
      {.id = ops::model_gather_start,
       .kind = OpKind::collective,
       .attrs = {{"mesh_dim", AttrType::word}},
       .infer = infer_model_start,
       .split = unsplit,
       .samples = {floats({f32({3, 5})}, {{"mesh_dim", "tp"}})},
       .half = CollectiveHalf::start,
       .verb = "model_gather",
       .of_model = true},
      // Part i of x [ranks, part...] goes to rank i; part j of the result came from rank j.
      {.id = ops::model_exchange_start,
       .kind = OpKind::collective,
       .attrs = {{"mesh_dim", AttrType::word}},
       .infer = infer_model_start,
       .split = unsplit,
       .samples = {floats({f32({2, 5})}, {{"mesh_dim", "tp"}})},
       .half = CollectiveHalf::start,
       .verb = "model_exchange",
       .of_model = true},
      {.id = ops::model_wait,
       .kind = OpKind::collective,
       .attrs = {{"types", AttrType::word}},
       .infer = infer_wait,
       .split = unsplit,
       .samples = {floats({kHandle}, {{"types", "f32[2,3,5]"}})},
       .half = CollectiveHalf::wait,
       .of_model = true},
      // The same value in another placement on a model dim. partition writes it on global shapes and later
      // replaces it by the ops above.
      {.id = ops::redistribute,
       .kind = OpKind::collective,
       .attrs = {{"mesh_dim", AttrType::word}, {"from", AttrType::word}, {"to", AttrType::word}},
       .infer = infer_redistribute,
       .split = unsplit,
       .samples = {floats({f32({4, 5})}, {{"mesh_dim", "tp"}, {"from", "Shard(0)"}, {"to", "Replicate"}})}},
  };
}

std::vector<Op> structural_rows() {
  return {
      {.id = ops::grad,
       .kind = OpKind::structural,
       .attrs = {{"scaled", AttrType::flag, true},
                 {"rows", AttrType::integer, true},
                 {"terms", AttrType::integer, true}},
       .infer = infer_grad,
       .split = unsplit,
       .samples = {floats({f32({}), i64({}), f32({3, 5}), f32({7})})}},
      {.id = ops::vjp,
       .kind = OpKind::structural,
       .infer = infer_vjp,
       .split = unsplit,
       .samples = {floats({f32({}), f32({}), f32({3, 5}), f32({7})})}},
      {.id = ops::custom_gradient,
       .kind = OpKind::structural,
       .attrs = {{"outputs", AttrType::integer},
                 {"inputs", AttrType::integer},
                 {"gradients", AttrType::list}},
       .infer = infer_custom_gradient,
       .split = unsplit,
       .vjp = gradients_of_ones_own,
       .samples = {floats({f32({3, 5}), f32({7}), f32({3, 5}), f32({7})},
                          {{"outputs", 1}, {"inputs", 1}, {"gradients", std::vector<int64_t>{1}}})}},
      {.id = ops::fused, .kind = OpKind::structural, .infer = infer_fused, .split = unsplit},
  };
}
}  // namespace

std::span<const Op> lane_ops() {
  static const std::vector<Op> rows = [] {
    std::vector<Op> out;
    for (auto& part : {lane_sum_rows(), lane_integer_rows(), collective_rows(), model_collective_rows(),
                       structural_rows()})
      out.insert(out.end(), part.begin(), part.end());
    return out;
  }();
  return rows;
}

}  // namespace lockstep
