// The sweep: every row of the op table has samples, and obeys laws one, two and five.
#include <gtest/gtest.h>

#include "compiler/run/reference.h"
#include "core/base/error.h"
#include "tests/support/tolerance.h"
#include "tests/sweep/backends.h"
#include "tests/sweep/cases.h"

namespace lockstep::sweep {
namespace {

using testing::difference;

// Laws 1, 2 and 5 hold in every float dtype: samples are written in f32 and run in these as well.
const std::vector<DType> kDtypes{DType::f64, DType::bf16, DType::f16};

TEST(Sweep, EveryRowHasSamples) {
  EXPECT_GE(all_ops().size(), 80u);
  for (const Op* op : all_ops()) EXPECT_TRUE(!swept(*op) || !op->samples.empty()) << op->name << " has no samples";
}

// Law 1: what the row infers is what a run gives.
TEST(Sweep, InferEqualsRun) {
  for_each_case(
      [](const Case& made) {
        verify(made.graph, "the sample");
        std::vector<HostTensor> out = evaluate_node(made.graph, made.node(), made.inputs);
        std::vector<TypedShape> inferred = infer(made.graph, made.node());
        ASSERT_EQ(out.size(), inferred.size()) << made.title;
        for (size_t i = 0; i < out.size(); ++i)
          EXPECT_TRUE(out[i].dtype == inferred[i].dtype && out[i].shape == inferred[i].shape)
              << made.title << ": output " << i << " runs to " << shape_text(out[i].dtype, out[i].shape) << ", inferred "
              << shape_text(inferred[i].dtype, inferred[i].shape);
      },
      kDtypes);
}

// Law 1 for the rows outside the sweep: lanes run as one micro-batch on one rank; what needs other ranks or a body has types only.
TEST(Sweep, LanesAndCollectivesInferFromTheirSamples) {
  size_t ran = 0;
  for (const Op* op : all_ops()) {
    for (size_t i = 0; !swept(*op) && i < op->samples.size(); ++i) {
      Case made = make_case(*op, i, op->samples[i]);
      EXPECT_FALSE(made.node().outputs.empty()) << made.title;
      if (op->kind != OpKind::lanes || op->name.starts_with("norm_")) continue;
      std::vector<HostTensor> out = evaluate(made.graph, made.inputs);
      EXPECT_TRUE(same_bytes(out[0], made.inputs[0])) << made.title;
      ++ran;
    }
  }
  EXPECT_GE(ran, 4u);
}

// Law 2: the expansion into primitives computes what the row's own formula says.
TEST(Sweep, ExpansionEqualsReference) {
  size_t expanded = 0;
  for_each_case(
      [&](const Case& made) {
        if (!made.op->expand) return;
        auto builder = std::make_shared<Builder>();
        std::vector<Tensor> in = add_inputs(builder, made.sample.in);
        std::vector<Tensor> out = made.op->expand({in, made.sample.attrs, builder});
        for (const Tensor& tensor : out) builder->graph.add_output(OutputKind::value, "", tensor.id());
        verify(builder->graph, "expand");
        for (const Node& node : builder->graph.nodes) EXPECT_NE(node.op, made.op->name) << made.title << " expands into itself";
        std::vector<HostTensor> right = evaluate_node(made.graph, made.node(), made.inputs), given = evaluate(builder->graph, made.inputs);
        ASSERT_EQ(given.size(), right.size()) << made.title;
        for (size_t i = 0; i < right.size(); ++i) EXPECT_EQ(difference(given[i], right[i]), "") << made.title << ": output " << i;
        ++expanded;
      },
      kDtypes);
  EXPECT_GE(expanded, 100u);
}

// Law 5: every backend agrees with the reference.
TEST(Sweep, EveryBackendEqualsReference) {
  std::vector<Backend> others = backends();
  std::cout << "backends beside the reference: " << others.size() << "\n";
  for_each_case(
      [&](const Case& made) {
        std::vector<HostTensor> right = evaluate(made.graph, made.inputs);
        for (const Backend& backend : others) {
          std::vector<HostTensor> given = backend.run(made.graph, made.inputs);
          ASSERT_EQ(given.size(), right.size()) << backend.name << ": " << made.title;
          for (size_t i = 0; i < right.size(); ++i)
            EXPECT_EQ(difference(given[i], right[i]), "") << backend.name << ": " << made.title << ": output " << i;
        }
      },
      kDtypes);
}

}  // namespace
}  // namespace lockstep::sweep
