// Generated kernels: every primitive row of the op table against the reference evaluator, on every instruction set.
#include "tests/unit/kernel_case.h"

namespace lockstep {
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
  for (size_t i = 0; i < in.size(); ++i) inputs.push_back(body.add_input(InputKind::value, str("x", i), in[i].dtype, in[i].shape));
  Node node{std::string(row.name), inputs, {}, attrs, {}, nullptr};
  SourceLine at;
  InferContext context{row.name, in, attrs, at};
  std::vector<std::pair<DType, Shape>> types;
  for (const auto& type : row.infer(context)) types.emplace_back(type.dtype, type.shape);
  auto made = body.append(std::string(row.name), inputs, attrs, types);
  for (size_t i = 0; i < made.size(); ++i) body.add_output(OutputKind::value, str("y", i), made[i]);
  return body;
}

bool generated(const Op& row) {
  switch (row.kind) {
    case OpKind::pointwise: case OpKind::creation: case OpKind::random: case OpKind::reduce: case OpKind::view: return true;
    case OpKind::index: return row.name == "take";
    default: return false;
  }
}

// Samples of the table, and the same with other float dtypes and with long rows.
std::vector<Case> table_cases(std::vector<KernelSource>& sources) {
  std::vector<Case> cases;
  uint64_t stream = 1;
  for (const Op* row : all_ops()) {
    if (!generated(*row)) continue;
    for (const Sample& sample : row->samples) {
      for (DType other : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
        std::vector<TypedShape> in = sample.in;
        bool floats = false;
        for (auto& type : in)
          if (type.dtype == DType::f32) type.dtype = other, floats = true;
        if (other != DType::f32 && (!floats || row->name == "bitcast")) continue;
        Graph body;
        try {
          body = body_of(*row, in, sample.attrs);
        } catch (const UserError&) {
          continue;
        }
        Case one{str(row->name, " ", in.empty() ? std::string("()") : shape_text(in[0].dtype, in[0].shape)), "", body, {}};
        for (const auto& type : in) one.inputs.push_back(random_tensor(type.dtype, type.shape, stream++, sample.lo, sample.hi, sample.int_lo, sample.int_hi));
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
  if (parse_isa("auto") != Isa::avx512 && std::string(GetParam()) == "avx512") GTEST_SKIP() << "no AVX-512 here";
  ScratchFolder cache;
  std::vector<KernelSource> sources;
  auto cases = table_cases(sources);
  ASSERT_GT(cases.size(), 150u);
  KernelLibrary library = compile_kernels(sources, {.threads = 2, .isa = GetParam(), .cache_dir = cache.path("")});
  for (const Case& one : cases) {
    auto want = evaluate(one.body, one.inputs);
    auto got = run_kernel(library, one.kernel, one.body, one.inputs);
    for (size_t i = 0; i < want.size(); ++i) expect_near(got[i], want[i], one.what);
  }
}
INSTANTIATE_TEST_SUITE_P(codegen, OnIsa, ::testing::Values("avx512", "avx2", "plain"), [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace lockstep
