// The graph: its text form, its structure, and the walks over it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/ir/parse.h"
#include "core/ir/print.h"
#include "core/ir/verify.h"
#include "core/ir/walk.h"

namespace lockstep {
namespace {

const char* kText = R"(graph [dp_replicate=2, tp=3] {
  in state "token.weight" %0 f32[256,128] {tp: Shard(0), dp_replicate: PerLane}
  in batch "ids" %1 i32[4,128] {dp_replicate: PerLane}
  in scalar "optim.lr" %2 f32[]
  in value "a \"quoted\\\" name" %3 bf16[0,3]
  %4 f32[4,128,128] {dp_replicate: PerLane} = embedding(%0, %1) {scale=1.5, whole=2.0, tiny=1e-30, low=-inf, axes=[0,-1], none=[], dtype=bf16, causal=true, open=false, mode="add, \"x\"", rows=-9223372036854775808} @ "/a/gpt.cpp:12" "blocks.0"
  %5 f32[4], %6 i64[] = fused(%4) {kind="sum"} body graph [dp_replicate=2, tp=3] {
    in value "x" %0 f32[4,128,128]
    %1 f32[4] = sum(%0) {dims=[1,2]} @ "gpt.cpp:13" ""
    %2 i64[] = full() {shape=[], value=0.0, dtype=i64}
    out value "" %1
    out value "" %2
  } @ "gpt.cpp:14" "blocks.1"
  %7 f32[4] {tp: Partial(max)} = exp(%5)
  out metric "loss" %7
  out state "token.weight" %0
  out value "" %6
}
)";

TEST(Ir, PrintIsTheInverseOfParse) {
  Graph graph = parse_graph(kText);
  EXPECT_EQ(print(graph), kText);
  EXPECT_EQ(print(parse_graph(print(graph))), kText);
  verify_structure(graph, "parse");
  const Attrs& attrs = graph.nodes[0].attrs;
  EXPECT_EQ(attrs.number("scale"), 1.5);
  EXPECT_EQ(attrs.number("low"), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(attrs.integer("rows"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(attrs.word("mode"), "add, \"x\"");
  EXPECT_EQ(attrs.dtype("dtype"), DType::bf16);
  EXPECT_TRUE(attrs.flag("causal"));
  EXPECT_FALSE(attrs.flag("open"));
  EXPECT_FALSE(attrs.flag("absent"));
  EXPECT_EQ(graph.nodes[0].at.text(), "gpt.cpp:12 (blocks.0)");
  EXPECT_EQ(graph.inputs[3].name, "a \"quoted\\\" name");
  EXPECT_EQ(graph.find_input("ids"), ValueId(1));
  EXPECT_EQ(graph.find_input("idz"), kNoValue);
  EXPECT_EQ(graph.find_output("loss"), ValueId(7));
}

TEST(Ir, ValueIdsMayBeAnyNumbers) {
  Graph graph =
      parse_graph("graph [tp=1] { in value \"x\" %70 f32[2] %3 f32[2] = exp(%70) out value \"y\" %3 }");
  EXPECT_EQ(print(graph),
            "graph [tp=1] {\n  in value \"x\" %0 f32[2]\n  %1 f32[2] = exp(%0)\n  out value \"y\" %1\n}\n");
}

TEST(Ir, SpecialNumbersSurvive) {
  for (double value : {0.0, -0.0, 1.0 / 3, 1e300, 5e-324, std::numeric_limits<double>::infinity(),
                       -std::numeric_limits<double>::infinity(), std::nan("")}) {
    Graph graph;
    ValueId x = graph.append("full", {}, {{"shape", Shape{2}}, {"value", value}, {"dtype", DType::f32}},
                             {{DType::f32, {2}}})[0];
    graph.add_output(OutputKind::value, "y", x);
    double back = parse_graph(print(graph)).nodes[0].attrs.number("value");
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(back));
    else
      EXPECT_TRUE(back == value && std::signbit(back) == std::signbit(value))
          << value << " came back as " << back;
  }
}

void expect_parse_error(const std::string& text, const std::string& words) {
  SCOPED_TRACE(text);
  try {
    parse_graph(text);
    ADD_FAILURE() << "accepted";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}
TEST(Ir, ParseErrorsNameLineAndColumn) {
  expect_parse_error("", "graph text, line 1, column 1: expected \"graph\"");
  expect_parse_error("graph [tp=1] {\n  %1 f32[2] = exp(%0)\n}",
                     "line 2, column 21: %0 is read before it is made");
  expect_parse_error("graph [tp=1] {\n  in value \"x\" %0 f32[2]\n  in value \"y\" %0 f32[2]\n}",
                     "%0 is made twice");
  expect_parse_error("graph [tp=1] { in value \"x\" %0 f33[2] }", "unknown dtype \"f33\"");
  expect_parse_error("graph [tp=1] { in value \"x", "a quoted text does not end");
  expect_parse_error("graph [tp=1] { in value \"x\" %0 f32[2,a] }", "expected an integer");
  expect_parse_error("graph [tp=1] { = }", "expected a word");
  expect_parse_error("graph [tp=1] { } more", "text after the graph");
  expect_parse_error("graph [tp=1] { = f() @ \"gpt.cpp\" \"\" }", "a source line is \"file:line\"");
  expect_parse_error("graph [tp=1] { in value \"x\" %0 f32[2] {dp: Shard(0)} }", "dp");
  expect_parse_error("graph [tp=1] { in stat \"x\" %0 f32[2] }",
                     "\"stat\" is none of state batch scalar value");
  expect_parse_error("graph [tp=1] { in value \"x\" %0 f32[2] out metrics \"x\" %0 }",
                     "\"metrics\" is none of state metric value");
  expect_parse_error("graph [tp=1] { in value \"x\" %0 f32[2] {tp: Shard(0 }", "a placement does not end");
  expect_parse_error("graph [tp=1] { = f() {n=12x} }", "\"12x\" is not an integer");
  expect_parse_error("graph [tp=1] { = f() {n=99999999999999999999} }", "is not an integer");
  expect_parse_error("graph [tp=1] { = f() {n=1.5.5} }", "\"1.5.5\" is not a number");
  expect_parse_error("graph [tp=1] { = f() {n=\"a\\", "a quoted text does not end");
  for (size_t cut = 0; cut + 3 < std::string(kText).size(); ++cut)
    EXPECT_THROW(parse_graph(std::string(kText).substr(0, cut)), UserError) << cut;
}

Graph chain() {
  return parse_graph(R"(graph [tp=1] {
    in value "x" %0 f32[2]
    in value "unread" %1 f32[2]
    %2 f32[2] = exp(%0)
    %3 f32[2] = sin(%0)
    %4 f32[2] = add(%2, %2)
    %5 f32[2] = mul(%4, %0)
    out value "y" %5
  })");
}

std::vector<NodeId> nodes(std::initializer_list<int> indices) {
  std::vector<NodeId> out;
  for (int index : indices) out.emplace_back(index);
  return out;
}

static_assert(!std::is_convertible_v<ValueId, NodeId> && !std::is_constructible_v<NodeId, ValueId>);
static_assert(!std::is_convertible_v<int, ValueId> && !std::is_convertible_v<ValueId, size_t>);

TEST(Ir, IdsCountAndWalkBothWays) {
  EXPECT_FALSE(kNoValue.valid());
  EXPECT_LT(kNoValue, ValueId(0));
  EXPECT_EQ(str("%", ValueId(7), " %", kNoValue), "%7 %-1");
  const Graph graph = chain();
  std::vector<NodeId> forward, backward;
  for (NodeId n : graph.node_ids()) forward.push_back(n);
  for (NodeId n : graph.node_ids().backward()) backward.push_back(n);
  EXPECT_EQ(forward, nodes({0, 1, 2, 3}));
  EXPECT_EQ(backward, nodes({3, 2, 1, 0}));
  for (NodeId n : Graph().node_ids().backward()) ADD_FAILURE() << n;
  for (NodeId n : graph.node_ids())
    for (ValueId v : graph.node(n).outputs) EXPECT_EQ(&graph.producer(v), &graph.nodes[n.index()]);
}

TEST(Ir, VerifyCatchesBrokenGraphs) {
  auto expect_broken = [](auto&& breaks, const std::string& words) {
    Graph graph = chain();
    verify_structure(graph, "test");
    breaks(graph);
    try {
      verify_structure(graph, "simplify");
      ADD_FAILURE() << "passed: " << words;
    } catch (const InternalError& error) {
      EXPECT_NE(std::string(error.what()).find("after simplify"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  expect_broken([](Graph& g) { std::swap(g.nodes[0], g.nodes[2]); }, "before it is made");
  expect_broken([](Graph& g) { g.nodes[3].inputs[0] = ValueId(99); }, "mul at ? reads %99");
  expect_broken([](Graph& g) { g.nodes[3].inputs[0] = kNoValue; }, "reads %-1");
  expect_broken([](Graph& g) { g.nodes[1].outputs[0] = ValueId(2); }, "makes %2 again");
  expect_broken([](Graph& g) { g[ValueId(4)].producer = NodeId(0); }, "%4 does not know its producer add");
  expect_broken([](Graph& g) { g.outputs[0].value = ValueId(77); }, "output \"y\" is %77");
  expect_broken([](Graph& g) { g.inputs[1].name = "x"; }, "two inputs are named \"x\"");
  expect_broken([](Graph& g) { g.inputs[1].value = ValueId(5); }, "has a producer");
  expect_broken([](Graph& g) { g.nodes.pop_back(); }, "output \"y\" is %5");
  expect_broken(
      [](Graph& g) {
        auto body = std::make_shared<Graph>(chain());
        g.nodes[0].body = body;
      },
      "the body of exp at ? has other arguments");
}

TEST(Ir, PruneDropsWhatNoOutputNeeds) {
  Graph pruned = prune(chain());
  verify_structure(pruned, "prune");
  EXPECT_EQ(print(pruned), print(parse_graph(R"(graph [tp=1] {
    in value "x" %0 f32[2]
    in value "unread" %1 f32[2]
    %2 f32[2] = exp(%0)
    %4 f32[2] = add(%2, %2)
    %5 f32[2] = mul(%4, %0)
    out value "y" %5
  })")));
  EXPECT_EQ(print(prune(pruned)), print(pruned));
}

TEST(Ir, ReorderKeepsTheProgram) {
  Graph moved = reorder(chain(), nodes({1, 0, 2, 3}));
  verify_structure(moved, "reorder");
  EXPECT_EQ(moved.nodes[0].op, ops::sin);
  EXPECT_EQ(print(prune(moved)), print(prune(chain())));
  EXPECT_THROW(reorder(chain(), nodes({2, 0, 1, 3})), InternalError);
  EXPECT_THROW(reorder(chain(), nodes({0, 1})), InternalError);
}

TEST(Ir, UsersLivenessAndReach) {
  Graph graph = chain();
  auto users = users_of(graph);
  EXPECT_EQ(users[ValueId(0)], nodes({0, 1, 3}));
  EXPECT_EQ(users[ValueId(2)], nodes({2}));  // once, though read twice
  EXPECT_TRUE(users[ValueId(1)].empty());
  EXPECT_EQ(needed_nodes(graph).items(), (std::vector<bool>{true, false, true, true}));
  EXPECT_EQ(depends_on(graph, {ValueId(2)}).items(),
            (std::vector<bool>{false, false, true, false, true, true}));
}

TEST(Ir, CopiesKeepLayoutsBodiesAndLines) {
  Graph graph = parse_graph(kText);
  Graph copied = reorder(graph, nodes({0, 1, 2}));
  EXPECT_EQ(print(copied), print(graph));
}

TEST(Ir, StructureHashIgnoresSourceLinesAlone) {
  Graph graph = parse_graph(kText), moved = graph, other = graph;
  moved.nodes[0].at = {"elsewhere.cpp", 99, "x"};
  EXPECT_EQ(structure_hash(graph), structure_hash(moved));
  other.nodes[0].attrs.set("scale", 1.25);
  EXPECT_NE(structure_hash(graph), structure_hash(other));
  EXPECT_EQ(structure_hash(graph).size(), 32u);
}

TEST(Ir, AttributesAreTyped) {
  Attrs attrs{{"n", 3}, {"x", 0.5}};
  EXPECT_EQ(attrs.number("n"), 3.0);  // an integer reads as a number too
  EXPECT_THROW((void)attrs.integer("x"), InternalError);
  EXPECT_THROW((void)attrs.word("n"), InternalError);
  EXPECT_THROW((void)attrs.integer("absent"), InternalError);
  attrs.set("n", "three");
  EXPECT_EQ(attrs.word("n"), "three");
  EXPECT_EQ(attrs.items().size(), 2u);
}

}  // namespace
}  // namespace lockstep
