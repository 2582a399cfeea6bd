// Generated kernels: every primitive row of the op table against the reference evaluator, on every
// instruction set.
#include "tests/unit/compiler/kernel_case.h"

namespace lockstep {

using namespace compiler;

namespace {

struct Case {
  std::string what, kernel;
  Graph body;
  std::vector<HostTensor> inputs;
};

Graph body_of(const Op& row, const std::vector<TypedShape>& in, const Attrs& attrs) {
  Graph body;
  body.mesh = Mesh{{}, {}};
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < in.size(); ++i)
    inputs.push_back(body.add_input(InputKind::value, str("x", i), in[i].dtype, in[i].shape));
  Node node{row.id, inputs, {}, attrs, {}, nullptr};
  SourceLine at;
  InferContext context{row.id, in, attrs, at};
  std::vector<std::pair<DType, Shape>> types;
  for (const auto& type : row.infer(context)) types.emplace_back(type.dtype, type.shape);
  auto made = body.append(row.id, inputs, attrs, types);
  for (size_t i = 0; i < made.size(); ++i) body.add_output(OutputKind::value, str("y", i), made[i]);
  return body;
}

bool generated(const Op& row) {
  switch (row.kind) {
    case OpKind::pointwise:
    case OpKind::creation:
    case OpKind::random:
    case OpKind::reduce:
    case OpKind::view:
      return true;
    case OpKind::index:
      return row.id == ops::take;
    default:
      return false;
  }
}

// Samples of the table, and the same with other float dtypes and with long rows.
std::vector<Case> table_cases(std::vector<KernelSource>& sources, const std::vector<DType>& dtypes) {
  std::vector<Case> cases;
  uint64_t stream = 1;
  for (const Op* row : all_ops()) {
    if (!generated(*row)) continue;
    for (const Sample& sample : row->samples) {
      for (DType other : dtypes) {
        std::vector<TypedShape> in = sample.in;
        bool floats = false;
        for (auto& type : in)
          if (type.dtype == DType::f32) type.dtype = other, floats = true;
        if (other != DType::f32 && (!floats || row->id == "bitcast")) continue;
        Graph body;
        try {
          body = body_of(*row, in, sample.attrs);
        } catch (const UserError&) { continue; }
        Case one{str(row->id, " ", in.empty() ? std::string("()") : shape_text(in[0].dtype, in[0].shape)),
                 "",
                 body,
                 {}};
        for (const auto& type : in)
          one.inputs.push_back(random_tensor(type.dtype, type.shape, stream++, sample.lo, sample.hi,
                                             sample.int_lo, sample.int_hi));
        sources.push_back(generate_kernel(body));
        one.kernel = sources.back().name;
        cases.push_back(std::move(one));
      }
    }
  }
  return cases;
}

class OnIsa : public ::testing::TestWithParam<const char*> {};

TEST_P(OnIsa, every_primitive_row_agrees_with_the_reference) {
  try {
    (void)parse_isa(GetParam());
  } catch (const UserError& error) { GTEST_SKIP() << error.what(); }
  ScratchFolder cache;
  std::vector<KernelSource> sources;
  const bool best =
      parse_isa(GetParam()) == probe_isa();  // the other sets run the same text: the common dtypes are enough
  auto cases = table_cases(sources, best ? std::vector{DType::f32, DType::f64, DType::bf16, DType::f16}
                                         : std::vector{DType::f32, DType::bf16});
  ASSERT_GT(cases.size(), 100u);
  KernelLibrary library =
      compile_kernels(sources, {.threads = 2, .isa = GetParam(), .cache_dir = cache.path("")});
  for (const Case& one : cases) {
    auto want = evaluate(one.body, one.inputs);
    auto got = run_kernel(library, one.kernel, one.body, one.inputs);
    for (size_t i = 0; i < want.size(); ++i) expect_near(got[i], want[i], one.what);
  }
}
INSTANTIATE_TEST_SUITE_P(codegen, OnIsa, ::testing::Values("avx512", "avx2", "plain"),
                         [](const auto& info) { return std::string(info.param); });

// x, w -> y = x + row sums, t = transposed x: y may take x's place, t may not, and w has another size.
TEST(codegen, outputs_may_take_the_place_of_inputs_read_at_the_same_index) {
  Graph body;
  body.mesh = Mesh{{}, {}};
  ValueId x = body.add_input(InputKind::value, "x", DType::f32, {16, 16}),
          w = body.add_input(InputKind::value, "w", DType::f32, {16});
  ValueId sums = body.append("sum", {x}, {{"dims", Shape{1}}}, {{DType::f32, {16}}})[0];
  ValueId total = body.append("add", {sums, w}, {}, {{DType::f32, {16}}})[0];
  ValueId spread = body.append("broadcast", {total}, {{"shape", Shape{16, 16}}, {"dims", Shape{0}}},
                               {{DType::f32, {16, 16}}})[0];
  ValueId y = body.append("add", {x, spread}, {}, {{DType::f32, {16, 16}}})[0];
  body.add_output(OutputKind::value, "y", y);
  body.add_output(OutputKind::value, "total", total);
  EXPECT_TRUE(can_alias(body, 0, 0));
  EXPECT_FALSE(can_alias(body, 0, 1));
  EXPECT_TRUE(can_alias(body, 1, 1));
  EXPECT_FALSE(can_alias(body, 1, 0));
  ScratchFolder cache;
  KernelSource source = generate_kernel(body);
  KernelLibrary library = compile_kernels({source}, {.cache_dir = cache.path("")});
  std::vector<HostTensor> in{random_tensor(DType::f32, {16, 16}, 1), random_tensor(DType::f32, {16}, 2)};
  auto apart = run_kernel(library, source.name, body, in);
  void* args[] = {in[0].data.data(), in[1].data.data(), in[0].data.data(), in[1].data.data()};
  library.find(source.name)(args, 1);
  EXPECT_TRUE(same_bytes(in[0], apart[0]));
  EXPECT_TRUE(same_bytes(in[1], apart[1]));

  Graph turned;
  turned.mesh = Mesh{{}, {}};
  ValueId a = turned.add_input(InputKind::value, "a", DType::f32, {16, 16});
  ValueId b = turned.append("permute", {a}, {{"order", Shape{1, 0}}}, {{DType::f32, {16, 16}}})[0];
  turned.add_output(OutputKind::value, "b", turned.append("neg", {b}, {}, {{DType::f32, {16, 16}}})[0]);
  EXPECT_FALSE(can_alias(turned, 0, 0));
}

// Bodies that read other parts of equal inputs share a kernel, whose arguments begin elsewhere: in whole
// steps of 16 elements, so that vectors stay aligned. Another stride is another kernel.
TEST(codegen, kernels_of_other_parts_are_one) {
  auto body = [](int64_t rows, int64_t row) {
    Graph out;
    out.mesh = Mesh{{}, {}};
    const ValueId x = out.add_input(InputKind::value, "x", DType::f32, {3, rows, 24});
    const ValueId part =
        out.append("slice", {x},
                   {{"start", Shape{0, row, 4}}, {"limit", Shape{3, row + 1, 20}}, {"step", Shape{1, 1, 1}}},
                   {{DType::f32, {3, 1, 16}}})[0];
    out.add_output(OutputKind::value, "y", out.append("exp", {part}, {}, {{DType::f32, {3, 1, 16}}})[0]);
    return out;
  };
  const KernelSource first = generate_kernel(body(9, 0)), third = generate_kernel(body(9, 2)),
                     fourth = generate_kernel(body(9, 3));
  EXPECT_EQ(first.name, third.name);
  EXPECT_EQ(first.text, third.text);
  EXPECT_EQ(first.begins, std::vector<int64_t>{0});
  EXPECT_EQ(third.begins, std::vector<int64_t>{48});
  EXPECT_EQ(fourth.begins, std::vector<int64_t>{64});  // element 76
  EXPECT_NE(fourth.name, first.name);
  EXPECT_NE(generate_kernel(body(8, 0)).name, first.name);
  ScratchFolder cache;
  KernelLibrary library = compile_kernels({first, fourth}, {.cache_dir = cache.path("")});
  const std::vector<HostTensor> in{random_tensor(DType::f32, {3, 9, 24}, 1)};
  for (int64_t row : {0, 2, 3, 8}) {
    const Graph one = body(9, row);
    expect_near(run_kernel(library, generate_kernel(one).name, one, in)[0], evaluate(one, in)[0],
                str("row ", row));
  }
}

// Equal bodies share a kernel, whatever their values and inputs are called; a body that no kernel holds says
// why.
TEST(codegen, kernels_are_named_by_structure) {
  auto body = [](const char* name, double value) {
    Graph out;
    out.mesh = Mesh{{}, {}};
    ValueId x = out.add_input(InputKind::value, name, DType::f32, {8});
    ValueId c = out.append("full", {}, {{"shape", Shape{8}}, {"value", value}, {"dtype", DType::f32}},
                           {{DType::f32, {8}}}, {"file.cpp", 3, name})[0];
    out.add_output(OutputKind::value, str(name, " out"),
                   out.append("mul", {x, c}, {}, {{DType::f32, {8}}})[0]);
    return out;
  };
  EXPECT_EQ(generate_kernel(body("a", 2)).name, generate_kernel(body("b", 2)).name);
  EXPECT_NE(generate_kernel(body("a", 2)).name, generate_kernel(body("a", 3)).name);
  Graph two = body("a", 2);
  two.add_output(OutputKind::value, "row",
                 two.append("sum", {two.outputs[0].value}, {{"dims", Shape{0}}}, {{DType::f32, {}}})[0]);
  EXPECT_TRUE(fits_one_kernel(two));
  ValueId other = two.add_input(InputKind::value, "other", DType::f32, {3, 5});
  two.add_output(OutputKind::value, "other sum",
                 two.append("sum", {other}, {{"dims", Shape{1}}}, {{DType::f32, {3}}})[0]);
  std::string reason;
  EXPECT_FALSE(fits_one_kernel(two, &reason));
  EXPECT_NE(reason.find("reductions over 1 x 8 and 3 x 5"), std::string::npos) << reason;
}

}  // namespace
}  // namespace lockstep
