// Creation rows (full, iota) and random rows: Philox by global element index, whatever the layout.
#include "core/base/error.h"
#include "core/ops/rules.h"

namespace lockstep {

namespace {
using namespace rules;

Shape shape_of(const InferContext& c) {
  const Shape& shape = c.attrs.list("shape");
  for (int64_t size : shape)
    if (size < 0) c.fail(str("shape ", shape, " has a negative size"));
  return shape;
}
Types infer_full(const InferContext& c) {
  expect_count(c, 0);
  const DType dtype = c.attrs.dtype("dtype");
  expect_held(c, "value", dtype);
  return {{dtype, shape_of(c)}};
}
Types infer_iota(const InferContext& c) {
  expect_count(c, 0);
  Shape shape = shape_of(c);
  checked_dims(c, {c.attrs.integer("dim")}, shape.size(), "dim");
  if (c.attrs.dtype("dtype") == DType::boolean) c.fail("an index is not bool");
  return {{c.attrs.dtype("dtype"), shape}};
}
auto infer_random(DType dtype) {
  return [=](const InferContext& c) -> Types {
    expect_count(c, 3);
    expect_scalar(c, 0, DType::i64, "the seed");
    expect_scalar(c, 1, DType::i64, "the step");
    expect_scalar(c, 2, DType::i64, "the sample");
    (void)c.attrs.integer("stream");
    return {{dtype, shape_of(c)}};
  };
}

// Every dim is new, so each rank makes its own part. An iota may not be sharded along its dim, since its
// values are the indices.
std::string split_made(const InferContext& c) {
  Letters letters;
  std::string out;
  for (size_t d = 0; d < c.attrs.list("shape").size(); ++d)
    out += c.attrs.has("dim") && c.attrs.integer("dim") == static_cast<int64_t>(d) ? '#' : letters.next();
  return "->" + out;
}
}  // namespace

std::span<const Op> creation_ops() {
  static const Types scalars{i64({}), i64({}), i64({})};
  static const std::vector<Op> rows{
      {.id = ops::full,
       .kind = OpKind::creation,
       .attrs = {{"shape", AttrType::list}, {"value", AttrType::number}, {"dtype", AttrType::dtype}},
       .infer = infer_full,
       .split = split_made,
       .vjp = no_gradient,
       .samples = {{{}, {{"shape", Shape{3, 5}}, {"value", -1.5}, {"dtype", DType::f32}}},
                   {{},
                    {{"shape", Shape{2, 1, 7}}, {"value", (int64_t{1} << 53) + 1}, {"dtype", DType::i64}}},
                   {{}, {{"shape", Shape{4}}, {"value", int64_t{-2}}, {"dtype", DType::u64}}},
                   {{}, {{"shape", Shape{}}, {"value", 1}, {"dtype", DType::boolean}}}}},
      {.id = ops::iota,
       .kind = OpKind::creation,
       .attrs = {{"shape", AttrType::list}, {"dim", AttrType::integer}, {"dtype", AttrType::dtype}},
       .infer = infer_iota,
       .split = split_made,
       .vjp = no_gradient,
       .samples = {{{}, {{"shape", Shape{3, 5}}, {"dim", 1}, {"dtype", DType::i32}}},
                   {{}, {{"shape", Shape{7, 1, 2}}, {"dim", 0}, {"dtype", DType::f32}}},
                   {{}, {{"shape", Shape{9}}, {"dim", 0}, {"dtype", DType::i64}}}}},
      // Element i, row-major, has the global index sample * numel(shape[1:]) + i and the bits
      // philox::bits(seed, stream, step, index). `sample`: the first row of the tensor in the step.
      {.id = ops::rng_bits,
       .kind = OpKind::random,
       .attrs = {{"shape", AttrType::list}, {"stream", AttrType::integer}},
       .infer = infer_random(DType::u32),
       .split = unsplit,
       .vjp = no_gradient,
       .samples = {integers(scalars, {{"shape", Shape{3, 5}}, {"stream", 12345}}),
                   integers(scalars, {{"shape", Shape{2, 1, 7}}, {"stream", -1}})}},
      {.id = ops::rng_uniform,
       .kind = OpKind::random,
       .attrs = {{"shape", AttrType::list}, {"stream", AttrType::integer}},
       .infer = infer_random(DType::f32),
       .split = unsplit,
       .vjp = no_gradient,
       .samples = {integers(scalars, {{"shape", Shape{3, 5}}, {"stream", 12345}}),
                   integers(scalars, {{"shape", Shape{17}}, {"stream", 99}})}},
  };
  return rows;
}

}  // namespace lockstep
