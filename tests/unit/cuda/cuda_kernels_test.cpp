// Generated CUDA kernels, without a device: NVRTC compiles every body, names and texts are functions of
// structure.
#include <gtest/gtest.h>

#include <chrono>

#include "compiler/codegen/cuda/loops/form.h"
#include "compiler/codegen/cuda/loops/kernels.h"
#include "compiler/codegen/cuda/source/nvrtc.h"
#include "compiler/lower/join_row_sums.h"
#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/table/register.h"
#include "tests/gpu/kernel_bodies.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

void expect_compiles(const std::vector<BodyCase>& bodies, int64_t together = 1) {
  std::string why;
  if (!compiler::cuda::nvrtc_available(&why)) GTEST_SKIP() << why;
  std::vector<compiler::KernelSource> sources;
  for (const auto& one : bodies) {
    try {
      sources.push_back(compiler::cuda::generate_kernel(one.body, together));
    } catch (const std::exception& error) { ADD_FAILURE() << one.title << ": " << error.what(); }
  }
  ScratchFolder cache;
  std::vector<std::string> units;
  size_t kernels = 0;
  for (const auto& unit : compiler::cuda::kernel_units(sources))
    units.push_back(compiler::cuda::kernel_unit(unit)), kernels += unit.size();
  try {
    auto cubins = compiler::cuda::cached_cubins(units, "sm_90", cache.path(""));
    ASSERT_EQ(cubins.code.size(), units.size());
    for (const auto& code : cubins.code) EXPECT_GT(code.size(), 0u);
  } catch (const UserError& error) { FAIL() << error.what(); }
  ::testing::Test::RecordProperty("kernels", static_cast<int>(kernels));
}

TEST(cuda_kernels, every_body_of_the_sweep_compiles) {
  auto bodies = sweep_bodies();
  EXPECT_GT(bodies.size(), 200u);
  expect_compiles(bodies);
}
TEST(cuda_kernels, bodies_of_layers_compile_fused_and_apart) {
  expect_compiles(layer_bodies(true));
  expect_compiles(layer_bodies(false));
}
TEST(cuda_kernels, bodies_of_models_compile) { expect_compiles(model_bodies()); }
TEST(cuda_kernels, bodies_around_joined_tables_compile) {
  auto builder = std::make_shared<Builder>();
  for (int64_t t = 0; t < 26; ++t) {
    const Tensor ids(builder, builder->graph.add_input(InputKind::value, str("ids", t), DType::i32, {2048})),
        dy(builder, builder->graph.add_input(InputKind::value, str("dy", t), DType::f32, {2048, 16}));
    const Tensor made = apply1(ops::embedding_grad, {dy * 2.0, ids}, {{"rows", 1000 + t}});
    builder->graph.add_output(OutputKind::value, str("out", t), made.id());
  }
  const Graph joined = compiler::with_joined_row_sums(builder->graph);
  EXPECT_LT(joined.nodes.size(), 26u * 12);
  expect_compiles(bodies_of(joined, "joined tables", {}));
}
TEST(cuda_kernels, large_bodies_compile) { expect_compiles(large_bodies()); }

// Registered ops: scalar code inside a fused body, and source as a kernel of its own.
BodyCase own_body(const OpDefinition& definition) {
  const OpId op = register_op(definition);
  const Sample& sample = definition.samples[0];
  BodyCase out{definition.name, {}};
  std::vector<ValueId> in;
  for (const TypedShape& type : sample.in)
    in.push_back(out.body.add_input(InputKind::value, "", type.dtype, type.shape));
  const auto made = out.body.append(op, in, sample.attrs, {{sample.in[0].dtype, sample.in[0].shape}});
  out.body.add_output(OutputKind::value, "", made[0]);
  return out;
}
TEST(cuda_kernels, registered_ops_compile) {
  OpDefinition scalar{.name = "mine::gelu3", .attrs = {{"k", AttrType::number}}};
  scalar.scalar = "{0} * ls_sigmoid({0} * {k})";
  scalar.formula = [](std::span<const double> x, const Attrs&) { return x[0]; };
  scalar.samples = {{.in = {{DType::f32, {3, 5}}}, .attrs = {{"k", 1.5}}}};
  OpDefinition rows{
      .name = "mine::scale_rows", .inputs = 2, .attrs = {{"by", AttrType::number}}, .placement = "rows"};
  rows.cuda = R"(
OWN_FN void run(const Tensor* in, const Tensor* out, const double* attrs, i64 row) {
  const i64 width = in[0].shape[in[0].rank - 1];
  const real *x = (const real*)in[0].data + row * width, *w = (const real*)in[1].data;
  for (i64 i = 0; i < width; ++i) ((real*)out[0].data)[row * width + i] = x[i] * w[i] * (real)attrs[0];
})";
  rows.formula_of_all = [](const std::vector<DoubleTensor>& in, const Attrs&) { return std::vector{in[0]}; };
  rows.samples = {{.in = {{DType::f32, {3, 5}}, {DType::f32, {5}}}, .attrs = {{"by", 2.0}}}};
  OpDefinition other = rows;  // in one unit with it
  other.name = "mine::scale_rows_again";
  expect_compiles({own_body(scalar), own_body(rows), own_body(other)});
  expect_compiles({own_body(scalar), own_body(rows), own_body(other)}, 4);
}

// A kernel of which runs go together is another text of one name; where it sums over columns, in an order
// that is of so many, the name says so.
TEST(cuda_kernels, runs_that_go_together_have_one_name) {
  size_t columns = 0;
  for (const auto& one : large_bodies()) {
    const auto alone = compiler::cuda::generate_kernel(one.body),
               joined = compiler::cuda::generate_kernel(one.body, 16);
    EXPECT_EQ(alone.text.find("blockIdx.y"), std::string::npos);
    EXPECT_NE(joined.text.find("blockIdx.y"), std::string::npos) << one.title;
    const bool sums_columns = joined.workspace > 0;
    EXPECT_EQ(joined.name, alone.name + (sums_columns ? "_of_16" : "")) << one.title;
    EXPECT_LE(joined.workspace, alone.workspace) << one.title;
    columns += sums_columns;
  }
  EXPECT_GT(columns, 0u);
  expect_compiles(large_bodies(), 16);
}

TEST(cuda_kernels, multi_tensor_updates_compile) {
  std::string why;
  if (!compiler::cuda::nvrtc_available(&why)) GTEST_SKIP() << why;
  const Graph gated = compiler::gated_body(
      compiler::multi_tensor_body("adamw", {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}}, DType::f32),
      {0, 2, 3}, {DType::f32, DType::f32});
  std::vector<compiler::KernelSource> sources{
      compiler::cuda::generate_multi_tensor(
          compiler::multi_tensor_body("adamw", {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}}, DType::f32)),
      compiler::cuda::generate_multi_tensor(
          compiler::multi_tensor_body("sgd", {{"momentum", 0.9}}, DType::f32)),
      compiler::cuda::generate_multi_tensor(gated),
      compiler::cuda::generate_multi_tensor(compiler::body_of_halves(gated, {1})),
      compiler::cuda::generate_multi_tensor(compiler::body_by_scale(gated, DType::f8_e4m3, 2))};
  EXPECT_GT(compiler::cuda::compile_cubin(compiler::cuda::kernel_unit(sources), "sm_90").size(), 0u);
}

// Every chunk has one lane, every row one team, and no form depends on anything but the two sizes and how
// many go together.
TEST(cuda_kernels, forms_cover_the_space) {
  for (int64_t rows : {1, 2, 3, 31, 64, 1000, 4096, 65536, 1 << 20})
    for (int64_t columns : {0,    1,    2,    3,    8,    31,   64,    77,    768,   1001,   1024,
                            1025, 1600, 3072, 4096, 6400, 8192, 12288, 50257, 50304, 1 << 20})
      for (int64_t together : {1, 4, 16}) {
        auto form = compiler::cuda::form_of(rows, columns, together);
        EXPECT_EQ(form.chunks * form.width, columns);
        EXPECT_GE(static_cast<int64_t>(form.lanes) * form.steps, form.chunks) << columns;
        EXPECT_LE(form.lanes * form.teams, 1024) << columns;
        EXPECT_TRUE(form.lanes <= 32 || (form.lanes % 32 == 0 && form.teams == 1)) << columns;
        EXPECT_GE(form.block_rows * form.row_blocks, rows) << columns;
        EXPECT_LT(form.block_rows * (form.row_blocks - 1), rows) << columns;
        EXPECT_LE(form.segments, form.row_blocks) << columns;
        EXPECT_EQ(form.block_rows % form.teams, 0) << columns;
      }
}

}  // namespace
}  // namespace lockstep
