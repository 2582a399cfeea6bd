// check_op: the laws of the op table for ops of one's own, on their samples.
#include "compiler/laws/check_op.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "tests/train/own/own_ops_case.h"

namespace lockstep {
namespace {

using namespace testing;

TEST(CheckOp, WhatIsWholeHolds) {
  for (const OpDefinition& d : {swish(), squeeze_rows(), host_softplus()}) {
    register_op(d);
    const compiler::OpCheck check = compiler::check_op(d.name);
    EXPECT_TRUE(check.ok()) << check.text();
    EXPECT_NE(check.text().find("native: "), std::string::npos) << check.text();
    if (d.gradient) EXPECT_NE(check.text().find("gradient: "), std::string::npos) << check.text();
    EXPECT_NE(check.text().find("splits: "), std::string::npos) << check.text();
  }
  EXPECT_TRUE(compiler::check_op("layer_norm").ok());
}
void breaks(const std::string& law, const std::string& words, OpDefinition d) {
  register_op(d);
  const compiler::OpCheck check = compiler::check_op(d.name);
  EXPECT_FALSE(check.ok()) << d.name;
  EXPECT_TRUE(std::any_of(check.failures.begin(), check.failures.end(), [&](const auto& failure) {
    return failure.law == law;
  })) << check.text();
  EXPECT_NE(check.text().find(words), std::string::npos) << check.text();
  EXPECT_NE(check.text().find(d.name + ", sample 0: f32[3,5]"), std::string::npos) << check.text();
}
TEST(CheckOp, WhatBreaksALawIsSaid) {
  OpDefinition gradient = swish("wrong::gradient");
  gradient.gradient = [](const VjpContext& c) { return Tensors{c.grad[0] * c.in[0]}; };
  breaks("gradient", ", finite difference ", gradient);
  OpDefinition formula = swish("wrong::formula");
  formula.formula = [](std::span<const double> x, const Attrs&) { return x[0]; };
  breaks("native", "element 0 of f32[3,5] is ", formula);
  OpDefinition expansion = squeeze_rows("wrong::expansion");
  expansion.formula_of_all = [](const std::vector<DoubleTensor>& in, const Attrs&) {
    return std::vector{in[0]};
  };
  breaks("expansion", "output 0: element ", expansion);
  OpDefinition split = squeeze_rows("wrong::split");
  split.placement = "ab,b->ab";
  split.samples.pop_back();
  split.cpp.clear(), split.cuda.clear();
  breaks("splits", "letter b of ab,b->ab in parts ", split);
  OpDefinition types = swish("wrong::types");
  types.formula = {};
  types.formula_of_all = [](const std::vector<DoubleTensor>& in, const Attrs&) {
    return std::vector{DoubleTensor{{1}, {in[0].values[0]}}};
  };
  breaks("types", "output 0 runs to f32[1], inferred f32[3,5]", types);
  try {
    compiler::check_op("mine::nothing_of_this_name");
    ADD_FAILURE();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("[check_op] no op is named"), std::string::npos) << e.what();
  }
  try {
    compiler::check_op("wait");
    ADD_FAILURE();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("it has a meaning only inside a step"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace lockstep
