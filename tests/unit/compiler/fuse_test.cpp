// Fusion: groups as the golden texts say, and the same bits with and without it, on any number of threads and
// any instruction set.
#include "compiler/fuse/fuse.h"

#include <algorithm>

#include "compiler/lower/decompose.h"
#include "core/functions/functions.h"
#include "core/ir/parse.h"
#include "tests/unit/compiler/fuse_case.h"
#include "tests/unit/compiler/kernel_case.h"

namespace lockstep {

using namespace compiler;

namespace {

std::vector<HostTensor> inputs_for(const Graph& graph, uint64_t stream) {
  std::vector<HostTensor> out;
  for (const auto& input : graph.inputs)
    out.push_back(
        random_tensor(graph[input.value].dtype, graph[input.value].shape, stream++, 0.2, 2.0, 0, 5));
  return out;
}

TEST(fuse, has_the_same_bits_on_and_off_on_any_threads_and_instruction_set) {
  ScratchFolder cache;
  auto cases = fuse_cases();
  std::vector<Graph> on, off;
  std::vector<KernelSource> sources;
  for (const auto& one : cases) {
    Graph primitives = decompose(one.graph, {});
    on.push_back(fuse(primitives));
    off.push_back(fuse(primitives, {.enabled = false}));
    verify(on.back(), "fuse");
    verify(off.back(), "fuse");
    for (const Graph* graph : {&on.back(), &off.back()})
      for (auto& source : kernels_of_graph(*graph)) sources.push_back(source);
    EXPECT_LT(on.back().nodes.size(), off.back().nodes.size() + 1) << one.name;
  }
  std::vector<std::vector<HostTensor>> first;
  for (const char* isa : {"avx512", "avx2", "plain"}) {
    if (std::string(isa) == "avx512" && probe_isa() != Isa::avx512) continue;
    if (std::string(isa) == "avx2" && probe_isa() == Isa::plain) continue;
    KernelLibrary library = compile_kernels(sources, {.threads = 2, .isa = isa, .cache_dir = cache.path("")});
    for (size_t k = 0; k < cases.size(); ++k) {
      auto inputs = inputs_for(on[k], 100 * k);
      if (first.size() <= k) {
        auto want = evaluate(cases[k].graph, inputs);
        first.push_back(run_graph(on[k], library, inputs));
        for (size_t i = 0; i < want.size(); ++i)
          expect_near(first[k][i], want[i], str(cases[k].name, " output ", i), cases[k].scale);
      }
      auto expect_same = [&](const std::vector<HostTensor>& got, const std::string& how) {
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_TRUE(same_bytes(got[i], first[k][i]))
              << cases[k].name << " output " << i << ", " << isa << ", " << how;
      };
      expect_same(run_graph(on[k], library, inputs), "fused");
      expect_same(run_graph(off[k], library, inputs), "not fused");
      expect_same(run_graph(on[k], library, inputs, 2), "fused, 2 threads");
      expect_same(run_graph(off[k], library, inputs, 3), "not fused, 3 threads");
    }
  }
}

// Golden texts: input, a line of three dashes, what fusion makes of it.
// Two sums over a tensor that both read: one kernel, but where they wait for two collectives, and another
// collective waits for the first of them.
TEST(fuse, keeps_apart_what_waits_for_different_collectives) {
  auto kernels = [](bool two_waits) {
    auto builder = std::make_shared<Builder>();
    Graph& graph = builder->graph;
    const Shape shape{64, 64};
    auto input = [&](const char* name) {
      return Tensor(builder, graph.add_input(InputKind::value, name, DType::f32, shape));
    };
    auto gathered = [&](Tensor x) {
      Tensor handle = apply1(ops::model_gather_start, {x}, {{"mesh_dim", Attr(std::string("tp"))}});
      return apply1(ops::model_wait, {handle}, {{"types", Attr(shape_text(DType::f32, {2, 64, 64}))}});
    };
    Tensor shared = input("shared"), a = gathered(input("a")), b = two_waits ? gathered(input("b")) : a;
    Tensor first = sum(slice(a, 0, 0, 1), {0}) * shared, second = sum(slice(b, 0, 1, 2), {0}) * shared;
    graph.add_output(OutputKind::value, "out", gathered(first).id());
    graph.add_output(OutputKind::value, "second", second.id());
    const Graph fused = fuse(graph);
    return std::count_if(fused.nodes.begin(), fused.nodes.end(),
                         [](const Node& n) { return n.op == ops::fused; });
  };
  EXPECT_EQ(kernels(false), 1);
  EXPECT_EQ(kernels(true), 2);
}

TEST(fuse, golden_texts) {
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_IR_DIR)) {
    if (entry.path().extension() != ".ir") continue;
    std::ifstream in(entry.path());
    std::string text((std::istreambuf_iterator<char>(in)), {});
    size_t cut = text.find("\n---\n");
    ASSERT_NE(cut, std::string::npos) << entry.path();
    EXPECT_EQ(print(fuse(decompose(parse_graph(text.substr(0, cut)), {}))),
              print(parse_graph(text.substr(cut + 5))))
        << entry.path();
    ++seen;
  }
  EXPECT_GE(seen, 5);
}

}  // namespace
}  // namespace lockstep
