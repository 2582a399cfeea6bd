// Which products by delayed scales take the scale of what they read from another layer's history.
#include "compiler/lower/share_scales.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compiler/reference/evaluate.h"
#include "core/base/error.h"
#include "core/functions/delayed_float8.h"
#include "core/functions/functions.h"
#include "core/ir/verify.h"

namespace lockstep::compiler {
namespace {

constexpr int64_t kRows = 16, kWidth = 32, kSteps = 2;

// Layers that read a tensor, and one that reads another.
struct Layers {
  std::shared_ptr<Builder> builder = std::make_shared<Builder>();
  Tensor x = input("x"), other = input("other");

  Tensor input(const std::string& name) {
    return {builder, builder->graph.add_input(InputKind::batch, name, DType::bf16, {kRows, kWidth})};
  }
  Tensor state(const std::string& name, DType dtype, const Shape& shape) {
    return {builder, builder->state_input(name, dtype, shape)};
  }
  void layer(const std::string& name, Tensor of, int64_t steps = kSteps) {
    const Tensor y = delayed_linear_float8(of, state(name, DType::bf16, {kWidth, kWidth}),
                                           state(name + ".history", DType::f32, {kAmaxRows, steps}));
    builder->graph.add_output(OutputKind::metric, name, y.id());
  }
  Graph shared() const {
    Graph out = share_scales(builder->graph, {});
    verify(out, "share_scales");
    return out;
  }
};
// The name of the history that each product takes the scale of its input from, "" for its own.
std::vector<std::string> scales_of(const Graph& graph) {
  std::vector<std::string> out;
  for (const Node& node : graph.nodes) {
    if (node.op != ops::linear_float8) continue;
    out.emplace_back();
    if (!node.attrs.flag("shares")) continue;
    for (const auto& input : graph.inputs)
      if (input.value == node.inputs.back()) out.back() = input.name;
  }
  return out;
}

TEST(ShareScales, TheFirstReaderOfATensorGivesItsHistory) {
  Layers layers;
  layers.layer("q", layers.x), layers.layer("up", layers.other), layers.layer("k", layers.x);
  layers.layer("long", layers.x, kSteps + 1), layers.layer("v", layers.x);
  layers.layer("long2", layers.x, kSteps + 1);
  const Graph shared = layers.shared();
  EXPECT_EQ(scales_of(shared),
            (std::vector<std::string>{"", "", "q.history", "", "q.history", "long.history"}));
  EXPECT_EQ(scales_of(share_scales(shared, {})), scales_of(shared)) << "done twice, it is as done once";
}

// By the formula: what a layer's own history says of its input does not matter then, and its other rows do.
TEST(ShareScales, AScaleOfTheInputIsThatOfTheFirstReader) {
  Layers layers;
  layers.layer("q", layers.x), layers.layer("k", layers.x);
  const Graph alone = layers.builder->graph, shared = layers.shared();
  auto outputs = [](const Graph& graph, float of_input, float of_weight) {
    std::vector<HostTensor> inputs;
    for (const auto& input : graph.inputs) {
      const Value& value = graph[input.value];
      inputs.push_back(make_tensor(value.dtype, value.shape));
      for (int64_t i = 0; i < numel(value.shape); ++i) {
        double number = std::sin(static_cast<double>(i)) * (input.name == "x" ? 3 : 1);
        if (input.name == "q.history") number = 3;
        if (input.name == "k.history") number = i / kSteps == kAmaxOfInput ? of_input : of_weight;
        inputs.back().set(i, number);
      }
    }
    std::vector<std::vector<double>> out;
    for (const HostTensor& y : evaluate(graph, inputs)) out.push_back(to_doubles(y));
    return out;
  };
  const auto want = outputs(alone, 3, 3);
  EXPECT_EQ(outputs(shared, 0.5f, 3)[1], want[1]);
  EXPECT_NE(outputs(alone, 0.5f, 3)[1], want[1]) << "its own would saturate";
  EXPECT_NE(outputs(shared, 3, 0.25f)[1], want[1]);
  EXPECT_EQ(outputs(shared, 0.5f, 0.25f)[0], want[0]);
}

TEST(ShareScales, SharingGoesWithDelayedScales) {
  Layers layers;
  try {
    apply1(ops::linear_float8, {layers.x, layers.state("w", DType::bf16, {kWidth, kWidth})},
           {{"gradients", DType::f8_e5m2}, {"shares", true}});
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("shares a history, and has none: it goes with delayed"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace lockstep::compiler
