// The sweep: every row of the op table has samples, and obeys laws one, two and five.
#include <gtest/gtest.h>

#include <map>

#include "compiler/laws/laws.h"
#include "compiler/reference/evaluate.h"
#include "core/base/error.h"
#include "tests/sweep/backends.h"
#include "tests/sweep/cases.h"

namespace lockstep::sweep {
namespace {

// Laws 1, 2 and 5 hold in every float dtype: samples are written in f32 and run in these as well.
const std::vector<DType> kDtypes{DType::f64, DType::bf16, DType::f16};

TEST(Sweep, EveryRowHasSamples) {
  EXPECT_GE(all_ops().size(), 80u);
  for (const Op* op : all_ops())
    EXPECT_TRUE(!swept(*op) || !op->samples.empty()) << op->id << " has no samples";
}

// Law 1: what the row infers is what a run gives.
TEST(Sweep, InferEqualsRun) {
  for_each_case([](const Case& made) { EXPECT_TRUE(holds(made, inference_equals_run(made))); }, kDtypes);
}

// Law 1 for the rows outside the sweep: lanes run as one micro-batch on one rank; what needs other ranks or a
// body has types only.
TEST(Sweep, LanesAndCollectivesInferFromTheirSamples) {
  size_t ran = 0;
  for (const Op* op : all_ops()) {
    for (size_t i = 0; !swept(*op) && i < op->samples.size(); ++i) {
      Case made = make_case(*op, i, op->samples[i]);
      EXPECT_FALSE(made.node().outputs.empty()) << made.title;
      if (op->kind != OpKind::lanes || op->id.name().starts_with("norm_")) continue;
      std::vector<compiler::HostTensor> out = compiler::evaluate(made.graph, made.inputs);
      if (op->id == ops::spread_rows) {  // the rows at their ids, and zeros
        const int64_t width = out[0].shape[1];
        std::vector<double> table(static_cast<size_t>(numel(out[0].shape)));
        for (int64_t e = 0; e < numel(made.inputs[1].shape); ++e)
          table[static_cast<size_t>(made.inputs[0].at(e / width)) * width + e % width] = made.inputs[1].at(e);
        for (size_t e = 0; e < table.size(); ++e) EXPECT_EQ(out[0].at(e), table[e]) << made.title;
        continue;
      }
      ASSERT_EQ(out[0].shape, made.inputs[0].shape) << made.title;  // a sum of bf16 is f32
      for (int64_t e = 0; e < numel(out[0].shape); ++e)
        EXPECT_EQ(out[0].at(e), made.inputs[0].at(e)) << made.title;
      ++ran;
    }
  }
  EXPECT_GE(ran, 4u);
}

// Law 2: the expansion into primitives computes what the row's own formula says.
TEST(Sweep, ExpansionEqualsReference) {
  size_t expanded = 0;
  for_each_case([&](const Case& made) { expanded += holds(made, expansion_equals_reference(made)); },
                kDtypes);
  EXPECT_GE(expanded, 100u);
}

// Law 5: every backend agrees with the reference.
TEST(Sweep, EveryBackendEqualsReference) {
  std::vector<Case> cases;
  std::vector<Graph> graphs;
  std::map<std::string, int> left_out;
  for_each_case(
      [&](const Case& made) {
        if (std::string why = not_taken(made.graph); !why.empty()) {
          ++left_out[why];
          return;
        }
        cases.push_back(made);
        graphs.push_back(made.graph);
      },
      kDtypes);
  for (const auto& [why, count] : left_out) std::cout << "left out: " << count << " cases: " << why << "\n";
  EXPECT_GE(cases.size(), 300u);
  for (const Backend& backend : backends()) {
    backend.prepare(graphs);
    for (size_t c = 0; c < cases.size(); ++c) {
      EXPECT_EQ(equals_reference(cases[c], backend.run(c, cases[c].inputs)), "")
          << backend.name << ": " << cases[c].title;
    }
    std::cout << backend.name << ": " << cases.size() << " cases\n";
  }
}

}  // namespace
}  // namespace lockstep::sweep
