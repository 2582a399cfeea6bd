// The reference evaluator against values worked out by hand.
#include "compiler/reference/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/base/philox.h"

namespace lockstep {

using namespace compiler;

namespace {

const double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

// One node by itself: outputs of these types for these inputs.
std::vector<HostTensor> run(OpId op, const std::vector<HostTensor>& in, const Attrs& attrs,
                            const std::vector<std::pair<DType, Shape>>& out) {
  Graph graph;
  std::vector<ValueId> ids;
  for (const auto& tensor : in)
    ids.push_back(graph.add_input(InputKind::value, "x", tensor.dtype, tensor.shape));
  for (ValueId id : graph.append(op, ids, attrs, out, {"model.cpp", 7, "blocks.0"}))
    graph.add_output(OutputKind::value, "", id);
  return evaluate(graph, in);
}
HostTensor f32(const Shape& shape, const std::vector<double>& values) {
  return from_values(DType::f32, shape, values);
}
std::vector<double> floats(OpId op, const std::vector<HostTensor>& in, const Attrs& attrs, const Shape& out) {
  return to_doubles(run(op, in, attrs, {{DType::f32, out}})[0]);
}
std::vector<int64_t> ints(OpId op, const std::vector<HostTensor>& in, const Attrs& attrs, DType dtype,
                          const Shape& out) {
  return to_ints(run(op, in, attrs, {{dtype, out}})[0]);
}
using Doubles = std::vector<double>;
using Ints = std::vector<int64_t>;

TEST(Reference, HostTensorsRoundOnceAndCompareByBits) {
  EXPECT_EQ(from_values(DType::bf16, {2}, {1.00390625, 1.01171875}).at(0), 1.0);  // ties go to even
  EXPECT_EQ(from_values(DType::bf16, {2}, {1.00390625, 1.01171875}).at(1), 1.015625);
  EXPECT_EQ(from_ints(DType::u8, {2}, {257, -1}).int_at(1), 255);
  EXPECT_TRUE(same_bytes(f32({0, 3}, {}), f32({0, 3}, {})));
  EXPECT_FALSE(same_bytes(f32({1}, {0.0}), f32({1}, {-0.0})));
  EXPECT_THROW(from_values(DType::f32, {2}, {1}), InternalError);
}

TEST(Reference, PointwiseFloats) {
  HostTensor x = f32({4}, {-1.5, 2.5, 0.5, 4});
  EXPECT_EQ(floats("neg", {x}, {}, {4}), (Doubles{1.5, -2.5, -0.5, -4}));
  EXPECT_EQ(floats("round", {x}, {}, {4}), (Doubles{-2, 2, 0, 4}));
  EXPECT_EQ(floats("trunc", {x}, {}, {4}), (Doubles{-1, 2, 0, 4}));
  EXPECT_EQ(floats("sign", {x}, {}, {4}), (Doubles{-1, 1, 1, 1}));
  EXPECT_EQ(floats("rsqrt", {f32({2}, {4, 0.25})}, {}, {2}), (Doubles{0.5, 2}));
  EXPECT_EQ(floats("sigmoid", {f32({3}, {0, 1000, -1000})}, {}, {3}), (Doubles{0.5, 1, 0}));
  EXPECT_EQ(floats("clamp", {x}, {{"lo", -1.0}, {"hi", 1.0}}, {4}), (Doubles{-1, 1, 0.5, 1}));
  EXPECT_EQ(floats("remainder", {f32({4}, {5, -5, 5, -5}), f32({4}, {3, 3, -3, -3})}, {}, {4}),
            (Doubles{2, 1, -1, -2}));
  EXPECT_EQ(floats("add", {f32({1}, {16777216}), f32({1}, {1})}, {}, {1}),
            (Doubles{16777216}));  // rounded to f32
  EXPECT_EQ(floats("fma", {f32({1}, {1 + 0x1p-23}), f32({1}, {1 - 0x1p-23}), f32({1}, {-1})}, {}, {1}),
            (Doubles{-0x1p-46}));  // one rounding
  Doubles largest = floats("maximum", {f32({3}, {kNan, 1, -kInf}), f32({3}, {0, kNan, 2})}, {}, {3});
  EXPECT_TRUE(std::isnan(largest[0]) && std::isnan(largest[1]) && largest[2] == 2);
  EXPECT_EQ(ints("le", {f32({3}, {1, 2, kNan}), f32({3}, {1, 1, 1})}, {}, DType::boolean, {3}),
            (Ints{1, 0, 0}));
  EXPECT_EQ(ints("ne", {f32({2}, {1, kNan}), f32({2}, {1, kNan})}, {}, DType::boolean, {2}), (Ints{0, 1}));
}

TEST(Reference, PointwiseIntegersWrap) {
  auto i32 = [](const Ints& values) {
    return from_ints(DType::i32, {static_cast<int64_t>(values.size())}, values);
  };
  EXPECT_EQ(ints("add", {i32({2147483647, 1}), i32({1, 2})}, {}, DType::i32, {2}), (Ints{-2147483648, 3}));
  EXPECT_EQ(ints("mul", {i32({65536, -3}), i32({65536, 5})}, {}, DType::i32, {2}), (Ints{0, -15}));
  EXPECT_EQ(ints("div", {i32({7, -7}), i32({2, 2})}, {}, DType::i32, {2}), (Ints{3, -3}));
  EXPECT_EQ(ints("remainder", {i32({7, -7}), i32({3, 3})}, {}, DType::i32, {2}), (Ints{1, 2}));
  EXPECT_EQ(ints("shr", {i32({-8, 8}), i32({1, 40})}, {}, DType::i32, {2}), (Ints{-4, 0}));
  EXPECT_EQ(ints("shl", {i32({1, 1}), i32({31, 32})}, {}, DType::i32, {2}), (Ints{-2147483648, 0}));
  EXPECT_EQ(ints("not", {i32({0, -1})}, {}, DType::i32, {2}), (Ints{-1, 0}));
  EXPECT_EQ(ints("not", {from_ints(DType::boolean, {2}, {0, 1})}, {}, DType::boolean, {2}), (Ints{1, 0}));
  HostTensor big = from_ints(DType::u64, {1}, {-1}), one = from_ints(DType::u64, {1}, {1});
  EXPECT_EQ(ints("lt", {one, big}, {}, DType::boolean, {1}), (Ints{1}));  // 2^64 - 1 is large
  EXPECT_EQ(ints("div", {big, from_ints(DType::u64, {1}, {2})}, {}, DType::u64, {1}),
            (Ints{std::numeric_limits<int64_t>::max()}));
}

TEST(Reference, Conversions) {
  HostTensor x = f32({5}, {1.9, -1.9, 1e20, -1e20, kNan});
  EXPECT_EQ(ints("convert", {x}, {{"dtype", DType::i32}}, DType::i32, {5}),
            (Ints{1, -1, 2147483647, -2147483648, 0}));
  EXPECT_EQ(ints("convert", {x}, {{"dtype", DType::u8}}, DType::u8, {5}), (Ints{1, 0, 255, 0, 0}));
  EXPECT_EQ(ints("convert", {x}, {{"dtype", DType::boolean}}, DType::boolean, {5}), (Ints{1, 1, 1, 1, 1}));
  EXPECT_EQ(floats("convert", {from_ints(DType::i64, {1}, {(int64_t{1} << 60) + (int64_t{1} << 36) + 1})},
                   {{"dtype", DType::f32}}, {1}),
            (Doubles{0x1p60 + 0x1p37}));  // once
  EXPECT_EQ(ints("bitcast", {f32({2}, {1, -0.0})}, {{"dtype", DType::u32}}, DType::u32, {2}),
            (Ints{0x3f800000, 0x80000000}));
}

TEST(Reference, Views) {
  HostTensor x = f32({2, 3}, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(floats("permute", {x}, {{"order", Ints{1, 0}}}, {3, 2}), (Doubles{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(floats("reshape", {x}, {{"shape", Ints{3, 2}}}, {3, 2}), (Doubles{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(
      floats("broadcast", {f32({2, 1}, {7, 8})}, {{"shape", Ints{2, 2, 3}}, {"dims", Ints{1, 2}}}, {2, 2, 3}),
      (Doubles{7, 7, 7, 8, 8, 8, 7, 7, 7, 8, 8, 8}));
  EXPECT_EQ(
      floats("slice", {x}, {{"start", Ints{0, 1}}, {"limit", Ints{2, 3}}, {"step", Ints{1, 1}}}, {2, 2}),
      (Doubles{1, 2, 4, 5}));
  EXPECT_EQ(
      floats("slice", {x}, {{"start", Ints{1, 0}}, {"limit", Ints{2, 3}}, {"step", Ints{1, 2}}}, {1, 2}),
      (Doubles{3, 5}));
  EXPECT_EQ(
      floats("pad", {f32({1, 2}, {1, 2})}, {{"lo", Ints{1, 0}}, {"hi", Ints{0, 1}}, {"value", 9.0}}, {2, 3}),
      (Doubles{9, 9, 9, 1, 2, 9}));
  EXPECT_EQ(floats("concat", {f32({2, 1}, {1, 2}), x}, {{"dim", 1}}, {2, 4}),
            (Doubles{1, 0, 1, 2, 2, 3, 4, 5}));
  EXPECT_EQ(ints("iota", {}, {{"shape", Ints{2, 3}}, {"dim", 1}, {"dtype", DType::i32}}, DType::i32, {2, 3}),
            (Ints{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(floats("full", {}, {{"shape", Ints{2}}, {"value", 1.5}, {"dtype", DType::f32}}, {2}),
            (Doubles{1.5, 1.5}));
  EXPECT_EQ(floats("permute", {f32({0, 3}, {})}, {{"order", Ints{1, 0}}}, {3, 0}), Doubles{});
}

TEST(Reference, Index) {
  HostTensor table = f32({3, 2}, {0, 1, 10, 11, 20, 21}), ids = from_ints(DType::i32, {3}, {2, 0, 2});
  EXPECT_EQ(floats("take", {table, ids}, {}, {3, 2}), (Doubles{20, 21, 0, 1, 20, 21}));
  EXPECT_EQ(floats("index_add", {ids, f32({3, 2}, {1, 2, 3, 4, 5, 6})}, {{"rows", 3}}, {3, 2}),
            (Doubles{3, 4, 0, 0, 6, 8}));
  try {
    run("take", {table, from_ints(DType::i32, {2}, {1, 3})}, {}, {{DType::f32, {2, 2}}});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "[take] model.cpp:7 (blocks.0): id 3 at position 1 is outside the table's 3 rows; ids must "
                 "lie in [0, 3)");
  }
  try {
    run("index_add", {from_ints(DType::i32, {1}, {-1}), f32({1}, {1})}, {{"rows", 2}}, {{DType::f32, {2}}});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "[index_add] model.cpp:7 (blocks.0): id -1 at position 0 is outside the table's 2 rows; ids "
                 "must lie in [0, 2)");
  }
}

TEST(Reference, Reductions) {
  HostTensor x = f32({2, 3}, {3, -1, 2, 5, 5, 4});
  EXPECT_EQ(floats("sum", {x}, {{"dims", Ints{0}}}, {3}), (Doubles{8, 4, 6}));
  EXPECT_EQ(floats("sum", {x}, {{"dims", Ints{0, 1}}}, {}), (Doubles{18}));
  EXPECT_EQ(floats("prod", {x}, {{"dims", Ints{1}}}, {2}), (Doubles{-6, 100}));
  EXPECT_EQ(floats("max", {x}, {{"dims", Ints{1}}}, {2}), (Doubles{3, 5}));
  EXPECT_EQ(floats("min", {x}, {{"dims", Ints{0}}}, {3}), (Doubles{3, -1, 2}));
  EXPECT_EQ(ints("argmax", {x}, {{"dim", 1}}, DType::i32, {2}), (Ints{0, 0}));  // the first of equals
  EXPECT_EQ(ints("argmin", {x}, {{"dim", 1}}, DType::i32, {2}), (Ints{1, 2}));
  EXPECT_EQ(floats("sum", {f32({2, 0}, {})}, {{"dims", Ints{1}}}, {2}), (Doubles{0, 0}));
  EXPECT_EQ(floats("max", {f32({2, 0}, {})}, {{"dims", Ints{1}}}, {2}), (Doubles{-kInf, -kInf}));
  std::vector<double> many(1 << 16, 0x1p-24);  // accumulates in double: f32 would stay at 1
  many[0] = 1;
  EXPECT_EQ(floats("sum", {f32({1 << 16}, many)}, {{"dims", Ints{0}}}, {}),
            (Doubles{static_cast<float>(1 + 65535 * 0x1p-24)}));
  EXPECT_EQ(ints("sum", {from_ints(DType::i32, {2}, {2147483647, 1})}, {{"dims", Ints{0}}}, DType::i32, {}),
            (Ints{-2147483648}));
}

TEST(Reference, Contractions) {
  HostTensor a = f32({2, 3}, {1, 2, 3, 4, 5, 6}), b = f32({3, 2}, {1, 0, 0, 1, 2, 2});
  Attrs plain{
      {"lhs_batch", Ints{}}, {"rhs_batch", Ints{}}, {"lhs_contract", Ints{1}}, {"rhs_contract", Ints{0}}};
  EXPECT_EQ(floats("dot", {a, b}, plain, {2, 2}), (Doubles{7, 8, 16, 17}));
  Attrs batched{
      {"lhs_batch", Ints{1}}, {"rhs_batch", Ints{0}}, {"lhs_contract", Ints{0}}, {"rhs_contract", Ints{1}}};
  EXPECT_EQ(floats("dot", {a, b}, batched, {3}), (Doubles{1, 5, 18}));
  Attrs two{{"lhs_batch", Ints{}},
            {"rhs_batch", Ints{}},
            {"lhs_contract", Ints{0, 1}},
            {"rhs_contract", Ints{1, 0}}};
  EXPECT_EQ(floats("dot", {a, b}, two, {}), (Doubles{1 + 0 + 6 + 0 + 5 + 12}));
  EXPECT_EQ(floats("linear", {a, f32({1, 3}, {1, 1, 1}), f32({1}, {10})}, {}, {2, 1}), (Doubles{16, 25}));
}

TEST(Reference, Composites) {
  Doubles p = floats("softmax", {f32({1, 2}, {1000, 1000 + std::log(3.0)})}, {}, {1, 2});
  EXPECT_NEAR(p[0], 0.25, 1e-5);
  auto norm = run("layer_norm", {f32({1, 2}, {1, 3}), f32({2}, {1, 2}), f32({2}, {0, 5})}, {{"eps", 0.0}},
                  {{DType::f32, {1, 2}}, {DType::f32, {1}}, {DType::f32, {1}}});
  EXPECT_EQ(to_doubles(norm[0]), (Doubles{-1, 7}));
  EXPECT_EQ(norm[1].at(0), 2);
  EXPECT_EQ(norm[2].at(0), 1);
  auto rms = run("rms_norm", {f32({1, 2}, {1, 7}), f32({2}, {5, 10})}, {{"eps", 0.0}},
                 {{DType::f32, {1, 2}}, {DType::f32, {1}}});
  EXPECT_EQ(to_doubles(rms[0]), (Doubles{1, 14}));  // root of the mean of squares is 5
  HostTensor logits = f32({3, 2}, {0, 0, 5, 5, 1, 2}), targets = from_ints(DType::i32, {3}, {1, -100, 0});
  auto loss = run("cross_entropy", {logits, targets}, {{"ignore_index", -100}},
                  {{DType::f32, {}}, {DType::i64, {}}, {DType::f32, {3}}});
  EXPECT_NEAR(loss[0].at(0), std::log(2.0) + 1 + std::log1p(std::exp(-1.0)), 1e-6);
  EXPECT_EQ(loss[1].int_at(0), 2);
  EXPECT_NEAR(loss[2].at(1), 5 + std::log(2.0), 1e-6);
  Doubles slope = floats("cross_entropy_grad", {f32({}, {4}), logits, targets, loss[2]},
                         {{"ignore_index", -100}}, {3, 2});
  EXPECT_NEAR(slope[0], 2, 1e-6);
  EXPECT_NEAR(slope[1], -2, 1e-6);
  EXPECT_EQ(slope[2], 0);
  EXPECT_EQ(slope[3], 0);
  try {
    run("cross_entropy", {logits, from_ints(DType::i32, {3}, {1, 2, 0})}, {{"ignore_index", -100}},
        {{DType::f32, {}}, {DType::i64, {}}, {DType::f32, {3}}});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "[cross_entropy] model.cpp:7 (blocks.0): target 2 at position 1 is outside the 2 classes; "
                 "targets must lie in [0, 2) or "
                 "be ignore_index -100");
  }
}

TEST(Reference, DropoutFollowsTheGlobalSample) {
  auto scalar = [](int64_t value) { return from_ints(DType::i64, {}, {value}); };
  auto drop = [&](const Doubles& values, int64_t rows, int64_t sample) {
    return floats("dropout", {f32({rows, 8}, values), scalar(3), scalar(11), scalar(sample)},
                  {{"p", 0.5}, {"stream", 77}}, {rows, 8});
  };
  Doubles whole = drop(Doubles(32, 1.0), 4, 0), second = drop(Doubles(16, 1.0), 2, 2);
  EXPECT_EQ(Doubles(whole.begin() + 16, whole.end()), second);
  for (size_t i = 0; i < whole.size(); ++i)
    EXPECT_EQ(whole[i], philox::uniform(philox::bits(3, 77, 11, i)) >= 0.5f ? 2 : 0);
}

TEST(Reference, Attention) {
  // Two tokens, one head of width 1, causal: token 0 sees itself, token 1 sees both with equal scores.
  HostTensor q = f32({1, 2, 1, 1}, {0, 0}), k = f32({1, 2, 1, 1}, {1, 2}), v = f32({1, 2, 1, 1}, {4, 8});
  auto out = run("sdpa", {q, k, v}, {{"causal", true}, {"scale", 1.0}},
                 {{DType::f32, {1, 2, 1, 1}}, {DType::f32, {1, 1, 2}}});
  EXPECT_EQ(to_doubles(out[0]), (Doubles{4, 6}));
  EXPECT_NEAR(out[1].at(1), std::log(2.0), 1e-7);
  // Two query heads share one key head.
  auto grouped =
      run("sdpa", {f32({1, 1, 2, 1}, {1, -1}), f32({1, 1, 1, 1}, {2}), f32({1, 1, 1, 1}, {3})},
          {{"causal", false}, {"scale", 0.5}}, {{DType::f32, {1, 1, 2, 1}}, {DType::f32, {1, 2, 1}}});
  EXPECT_EQ(to_doubles(grouped[0]), (Doubles{3, 3}));
  EXPECT_EQ(to_doubles(grouped[1]), (Doubles{1, -1}));
  // A quarter turn and back.
  HostTensor x = f32({1, 2, 1, 2}, {1, 0, 1, 0});
  Doubles turned = floats("rope", {x}, {{"theta", 10000.0}, {"inverse", false}}, {1, 2, 1, 2});
  EXPECT_EQ(turned[0], 1);
  EXPECT_NEAR(turned[2], std::cos(1.0), 1e-7);
  EXPECT_NEAR(turned[3], std::sin(1.0), 1e-7);
}

TEST(Reference, Updates) {
  Attrs attrs{{"beta1", 0.5}, {"beta2", 0.75}, {"eps", 0.0}, {"weight_decay", 0.5}};
  auto one = [](double value) { return f32({1}, {value}); };
  auto scalar = [](double value) { return f32({}, {value}); };
  auto out =
      run("adamw", {one(4), one(8), one(0), one(0), scalar(0.5), scalar(0.5), scalar(0.25), scalar(0.25)},
          attrs, {{DType::f32, {1}}, {DType::f32, {1}}, {DType::f32, {1}}});
  EXPECT_EQ(out[1].at(0), 1);    // 0.5 * (8 / 4)
  EXPECT_EQ(out[2].at(0), 1);    // 0.25 * 2^2
  EXPECT_EQ(out[0].at(0), 2.5);  // 4 * (1 - 0.25) - (0.5 / 0.5) * 1 / (1 / 0.5)
  auto step = run("sgd", {one(4), one(2), one(10), scalar(0.5), scalar(3)},
                  {{"momentum", 0.5}, {"weight_decay", 0.25}}, {{DType::f32, {1}}, {DType::f32, {1}}});
  EXPECT_EQ(step[1].at(0), 12);  // 5 + 6 + 1
  EXPECT_EQ(step[0].at(0), -2);
  EXPECT_EQ(floats("global_norm", {f32({2}, {1, 2}), one(2)}, {}, {}), (Doubles{3}));
  EXPECT_EQ(floats("clip_scale", {scalar(0.5)}, {{"max", 1.0}}, {}), (Doubles{1}));
  auto lanes = run("lane_sum", {f32({2, 2}, {1, 2, 3, 4})}, {}, {{DType::f32, {2, 2}}, {DType::f64, {2}}});
  EXPECT_EQ(to_doubles(lanes[1]), (Doubles{5, 25}));
}

TEST(Reference, FusedNodesRunTheirBodyAndRanksAreRefused) {
  auto body = std::make_shared<Graph>();
  ValueId x = body->add_input(InputKind::value, "x", DType::f32, {2});
  body->add_output(OutputKind::value, "", body->append("neg", {x}, {}, {{DType::f32, {2}}})[0]);
  Graph graph;
  ValueId in = graph.add_input(InputKind::value, "x", DType::f32, {2});
  ValueId out = graph.append("fused", {in}, {}, {{DType::f32, {2}}})[0];
  graph.nodes[0].body = body;
  graph.add_output(OutputKind::value, "", graph.append("add", {in, out}, {}, {{DType::f32, {2}}})[0]);
  graph.add_output(OutputKind::value, "", in);
  auto results = evaluate(graph, {f32({2}, {1, 2})});
  EXPECT_EQ(to_doubles(results[0]), (Doubles{0, 0}));
  EXPECT_EQ(to_doubles(results[1]), (Doubles{1, 2}));
  EXPECT_THROW(evaluate(graph, {f32({3}, {1, 2, 3})}), InternalError);
  for (const char* op : {"grad", "wait", "norm_limbs", "no_such_op"}) {
    try {
      run(intern(op), {f32({2}, {1, 2})}, {}, {{DType::f32, {2}}});
      ADD_FAILURE() << op;
    } catch (const InternalError& error) {
      EXPECT_NE(std::string(error.what()).find(str("[", op, "] model.cpp:7")), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace lockstep
