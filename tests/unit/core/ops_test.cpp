// The op table and the tensor functions: types, source lines, broadcasting, placement rules, and that every
// row is whole.
#include <gtest/gtest.h>

#include <set>

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ir/parse.h"
#include "core/ir/print.h"
#include "core/ir/walk.h"
#include "core/ops/rules.h"

namespace lockstep {
namespace {

struct Traced {
  std::shared_ptr<Builder> builder = std::make_shared<Builder>();
  int made = 0;
  Tensor input(Shape shape, DType dtype = DType::f32) {
    return {builder, builder->graph.add_input(InputKind::value, str("x", made++), dtype, std::move(shape))};
  }
  const Node& last() const { return builder->graph.nodes.back(); }
  std::vector<std::string> ops() const {
    std::vector<std::string> out;
    for (const Node& node : builder->graph.nodes) out.emplace_back(node.op.name());
    return out;
  }
};
using Words = std::vector<std::string>;
using List = std::vector<int64_t>;

TEST(Ops, OperatorsBroadcastAsNumPyDoes) {
  Traced t;
  Tensor y = t.input({3, 1, 5}) + t.input({4, 1});
  EXPECT_EQ(y.text(), "f32[3,4,5]");
  EXPECT_EQ(t.ops(), (Words{"broadcast", "broadcast", "add"}));
  EXPECT_EQ(t.builder->graph.nodes[0].attrs.list("dims"), (List{0, 1, 2}));
  EXPECT_EQ(t.builder->graph.nodes[1].attrs.list("dims"), (List{1, 2}));
  EXPECT_EQ((t.input({}) * t.input({2, 3})).shape(), (Shape{2, 3}));
  EXPECT_EQ((t.input({0, 3}) - t.input({3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(where(t.input({2, 1}, DType::boolean), t.input({3}), t.input({})).shape(), (Shape{2, 3}));
}

TEST(Ops, EqualShapesTakeNoBroadcast) {
  Traced t;
  Tensor x = t.input({2, 3});
  (void)(x * x);
  (void)reshape(x, {2, 3});
  (void)permute(x, {0, 1});
  (void)convert(x, DType::f32);
  (void)slice(x, 1, 0, 3);
  (void)sum(x, {});
  (void)dropout(x, 0);
  (void)concat({x}, 0);
  EXPECT_EQ(t.ops(), (Words{"mul"}));
}

TEST(Ops, NumbersTakeTheTensorsDtype) {
  Traced t;
  Tensor x = t.input({2}, DType::f64);
  EXPECT_EQ((x * 2.0).dtype(), DType::f64);
  EXPECT_EQ((1.0 - x).dtype(), DType::f64);
  EXPECT_EQ(t.last().op, ops::sub);
  EXPECT_EQ(t.builder->graph.nodes[t.builder->graph.nodes.size() - 2].attrs.number("value"), 1.0);
  EXPECT_EQ((t.input({2}, DType::i32) + 3).dtype(), DType::i32);
}

TEST(Ops, NodesCarryTheUsersLine) {
  Traced t;
  t.builder->scope = "blocks.0.attn";
  Tensor x = t.input({2, 3});
  int line = __LINE__ + 1;
  Tensor y = x + x;
  EXPECT_EQ(t.last().at.text(), str("ops_test.cpp:", line, " (blocks.0.attn)"));
  line = __LINE__ + 1;
  y = 2.0 * y;
  EXPECT_EQ(t.last().at.line, line);
  EXPECT_EQ(t.builder->graph.nodes[t.builder->graph.nodes.size() - 2].at.line,
            line);  // the number's node, too
  line = __LINE__ + 1;
  y = gelu(exp(-y));
  for (int i = 1; i <= 3; ++i)
    EXPECT_EQ(t.builder->graph.nodes[t.builder->graph.nodes.size() - static_cast<size_t>(i)].at.line, line);
  EXPECT_NE(t.last().at.file.find("ops_test.cpp"), std::string::npos);
}

TEST(Ops, AtLineHoldsWhileItLives) {
  Traced t;
  Tensor x = t.input({2});
  SourceLine outer{"model.cpp", 7, "head"}, inner{"model.cpp", 9, ""};
  {
    AtLine at(outer);
    (void)(x + x);
    EXPECT_EQ(t.last().at.text(), "model.cpp:7 (head)");
    {
      AtLine deeper(inner);
      (void)exp(x);
      EXPECT_EQ(t.last().at.text(), "model.cpp:9");
    }
    (void)exp(x);
    EXPECT_EQ(t.last().at.text(), "model.cpp:7 (head)");
  }
  (void)exp(x);
  EXPECT_NE(t.last().at.text(), "model.cpp:7 (head)");
}

TEST(Ops, InputsOfABuilderAreMadeOnce) {
  Traced t;
  Tensor x = t.input({2});
  EXPECT_EQ(scalar(x, "rng.step", DType::i64).id(), scalar(x, "rng.step", DType::i64).id());
  EXPECT_EQ(t.builder->state_input("head.weight", DType::f32, {3}),
            t.builder->state_input("head.weight", DType::f32, {3}));
  EXPECT_EQ(t.builder->graph.inputs.size(), 3u);
  EXPECT_THROW(t.builder->scalar_input("rng.step", DType::f32), UserError);
}

TEST(Ops, FunctionsGiveTheTypesTheyPromise) {
  Traced t;
  Tensor x = t.input({2, 5, 8}), w = t.input({6, 8}), b = t.input({6}), ids = t.input({2, 5}, DType::i32);
  EXPECT_EQ(linear(x, w, b).text(), "f32[2,5,6]");
  EXPECT_EQ(linear(x, w).text(), "f32[2,5,6]");
  EXPECT_EQ(matmul(t.input({2, 3, 5}), t.input({2, 5, 7})).text(), "f32[2,3,7]");
  EXPECT_EQ(embedding(t.input({9, 4}), ids).text(), "f32[2,5,4]");
  EXPECT_EQ(softmax(x).text(), "f32[2,5,8]");
  EXPECT_EQ(layer_norm(x, t.input({8}), t.input({8})).text(), "f32[2,5,8]");
  EXPECT_EQ(rms_norm(x, t.input({8})).text(), "f32[2,5,8]");
  EXPECT_EQ(dropout(x, 0.1).text(), "f32[2,5,8]");
  Loss loss = cross_entropy(x, ids);
  EXPECT_EQ(loss.sum.text() + " " + loss.count.text(), "f32[] i64[]");
  EXPECT_EQ(cross_entropy(t.input({3, 4}, DType::bf16), t.input({3}, DType::i32)).sum.text(), "f32[]");
  Tensor q = t.input({2, 5, 6, 4}), kv = t.input({2, 5, 2, 4});
  EXPECT_EQ(sdpa(q, kv, kv).text(), "f32[2,5,6,4]");
  EXPECT_EQ(t.last().attrs.number("scale"), 0.5);
  EXPECT_EQ(rope(q, 10000).text(), "f32[2,5,6,4]");
  EXPECT_EQ(mean(x, {-1}, true).text(), "f32[2,5,1]");
  EXPECT_EQ(max(x, {0, -1}).text(), "f32[5]");
  EXPECT_EQ(reshape(x, {-1, 8}).text(), "f32[10,8]");
  EXPECT_EQ(transpose(x, 0, -1).text(), "f32[8,5,2]");
  EXPECT_EQ(pad(x, {0, 1, 0}, {0, 2, 0}, 0).text(), "f32[2,8,8]");
  auto parts = split(x, -1, {3, 0, 5});
  EXPECT_EQ(parts[0].text() + parts[1].text() + parts[2].text(), "f32[2,5,3]f32[2,5,0]f32[2,5,5]");
  EXPECT_EQ(concat(parts, -1).text(), "f32[2,5,8]");
  EXPECT_EQ(less(x, x).dtype(), DType::boolean);
  EXPECT_EQ(iota_like(x, -1).text(), "i32[2,5,8]");
  verify(t.builder->graph, "trace");
}

TEST(Ops, DropoutsHaveTheirOwnStreams) {
  auto streams = [] {
    Traced t;
    t.builder->scope = "blocks.0";
    Tensor x = dropout(dropout(t.input({4}), 0.5), 0.5);
    t.builder->scope = "blocks.1";
    (void)dropout(x, 0.5);
    std::vector<int64_t> out;
    for (const Node& node : t.builder->graph.nodes) out.push_back(node.attrs.integer("stream"));
    EXPECT_EQ(t.builder->graph.inputs.size(), 4u);  // x, rng.seed, rng.step, rng.sample
    return out;
  };
  auto first = streams();
  EXPECT_EQ(first, streams());
  EXPECT_EQ(std::set<int64_t>(first.begin(), first.end()).size(), 3u);
}

TEST(Ops, EveryRowIsWhole) {
  std::set<std::string_view> names;
  for (const Op* row : all_ops()) {
    SCOPED_TRACE(row->id);
    EXPECT_TRUE(names.insert(row->id.name()).second);
    EXPECT_TRUE(row->infer && row->split);
    EXPECT_EQ(row->scalar.text.empty(), row->kind != OpKind::pointwise);
    const bool of_body = row->id == ops::fused || row->id == ops::update;
    EXPECT_EQ(static_cast<bool>(row->expand),
              row->kind == OpKind::composite || (row->kind == OpKind::update && !of_body));
    EXPECT_EQ(find_op(row->id), row);
    EXPECT_EQ(row->samples.empty(), of_body);
    for (const Sample& sample : row->samples) {
      auto out = row->infer({row->id, sample.in, sample.attrs, {}});
      EXPECT_LT(row->statistics, static_cast<int>(out.size()) + (row->statistics == 0));
      SplitRule rule = parse_split_rule(row->split({row->id, sample.in, sample.attrs, {}}), sample.in, out);
      EXPECT_EQ(rule.in.size(), sample.in.size());
      EXPECT_EQ(rule.out.size(), out.size());
      for (int i : row->linear) EXPECT_LT(i, static_cast<int>(sample.in.size()));
    }
  }
  EXPECT_EQ(find_op(intern("conv")), nullptr);
}

TEST(Ops, ExpansionsHaveTheTypesOfTheirRow) {
  for (const Op* row : all_ops()) {
    if (!row->expand) continue;
    for (const Sample& sample : row->samples)
      for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
        SCOPED_TRACE(str(row->id, " ", name(dtype)));
        if (dtype == DType::bf16 && row->kind == OpKind::update) continue;
        std::vector<TypedShape> in = sample.in;
        for (auto& type : in)
          if (type.dtype == DType::f32) type.dtype = dtype;
        std::vector<TypedShape> want;
        try {
          want = row->infer({row->id, in, sample.attrs, {}});
        } catch (const UserError&) {
          // A gradient row, whose statistics are f32, or one of bf16 that reads f32 beside.
          EXPECT_TRUE(dtype == DType::bf16 || sample.in[0].dtype == DType::bf16);
          continue;
        }
        Traced t;
        std::vector<Tensor> inputs;
        for (const auto& type : in) inputs.push_back(t.input(type.shape, type.dtype));
        auto out = row->expand({inputs, sample.attrs, t.builder});
        ASSERT_EQ(out.size(), want.size());
        for (size_t o = 0; o < out.size(); ++o) EXPECT_EQ(out[o].text(), rules::text(want[o]));
        for (const Node& node : t.builder->graph.nodes)
          EXPECT_FALSE(op_row(node.op).expand) << node.op << " is not a primitive";
      }
  }
}

TEST(Ops, RoundTripOfAGraphWithEveryKindOfAttribute) {
  Traced t;
  t.builder->scope = "blocks.0";
  Tensor x = t.input({2, 5, 8}), ids = t.input({2, 5}, DType::i32);
  Tensor y = convert(clamp(gelu(x), -0.5, 1e-30), DType::bf16);         // word, numbers, dtype
  Tensor q = reshape(convert(y, DType::f32), {2, 5, 2, 4});             // list
  q = sdpa(q, q, q, true);                                              // flag
  Loss loss = cross_entropy(reshape(dropout(q, 0.1), {2, 5, 8}), ids);  // integers, negative ones too
  t.builder->graph.add_output(OutputKind::metric, "loss", loss.sum.id());
  Graph graph = prune(t.builder->graph);  // numbers values in order of appearance, as parsing does
  std::string text = print(graph);
  Graph again = parse_graph(text);
  EXPECT_EQ(print(again), text);
  verify(again, "parse");
  ASSERT_EQ(again.nodes.size(), graph.nodes.size());
  for (size_t n = 0; n < again.nodes.size(); ++n)
    EXPECT_EQ(again.nodes[n].attrs, graph.nodes[n].attrs) << again.nodes[n].op;
}

TEST(Ops, VerifyNamesThePassTheNodeAndBothTypes) {
  Traced t;
  Tensor y = exp(t.input({2, 3}));
  t.builder->graph[y.id()].shape = {3, 2};
  try {
    verify(t.builder->graph, "fuse");
    FAIL() << "a wrong type passed";
  } catch (const InternalError& error) {
    std::string what = error.what();
    for (const char* part : {"after fuse", "exp at ops_test.cpp:", "f32[2,3]", "f32[3,2]"})
      EXPECT_NE(what.find(part), std::string::npos) << what;
  }
}

TEST(Ops, VerifyKnowsTheAttributesOfEachOp) {
  auto refused = [](const std::string& node) -> std::string {
    const std::string text = "graph [dp_replicate=1] {\n  in value \"x\" %0 f32[2,3]\n  %1 f32[2] = " + node +
                             " @ \"/home/me/gpt.cpp:12\" \"head\"\n  out value \"y\" %1\n}\n";
    try {
      verify(parse_graph(text), "simplify");
    } catch (const InternalError& error) { return error.what(); }
    return "";
  };
  EXPECT_EQ(refused("sum(%0) {dims=[1]}"), "");
  EXPECT_EQ(refused("sum(%0) {dims=[1], axis=1}"),
            "after simplify: [sum] gpt.cpp:12 (head): has no attribute \"axis\"; known: \"dims\"");
  EXPECT_EQ(refused("sum(%0) {dim=[1]}"),
            "after simplify: [sum] gpt.cpp:12 (head): has no attribute \"dim\"; did you mean \"dims\"?");
  EXPECT_EQ(refused("sum(%0)"),
            "after simplify: [sum] gpt.cpp:12 (head): needs the attribute \"dims\", a list");
  EXPECT_EQ(refused("sum(%0) {dims=1}"),
            "after simplify: [sum] gpt.cpp:12 (head): the attribute \"dims\" is not a list");
  EXPECT_EQ(refused("exp(%0) {base=2}"),
            "after simplify: [exp] gpt.cpp:12 (head): has no attribute \"base\"; it takes none");
}

// The samples of a row have every attribute that it asks for; optional ones are what passes add.
TEST(Ops, EveryRowNamesItsAttributes) {
  for (const Op* row : all_ops())
    for (const Sample& sample : row->samples) {
      SCOPED_TRACE(row->id);
      EXPECT_EQ(infer(*row, {row->id, sample.in, sample.attrs, {}}),
                row->infer({row->id, sample.in, sample.attrs, {}}));
      for (const AttrField& field : row->attrs) {
        if (field.optional) continue;
        Attrs fewer;
        for (const auto& [name, value] : sample.attrs.items())
          if (name != field.name) fewer.set(name, value);
        EXPECT_LT(fewer.items().size(), sample.attrs.items().size()) << field.name;
        EXPECT_THROW(infer(*row, {row->id, sample.in, fewer, {}}), UserError) << field.name;
      }
    }
}

TEST(Ops, VerifyLooksIntoBodies) {
  const char* good = R"(graph [dp_replicate=1] {
    in value "x" %0 f32[2,3]
    %1 f32[2,3] = fused(%0) body graph [dp_replicate=1] {
      in value "a" %0 f32[2,3]
      %1 f32[2,3] = exp(%0)
      out value "" %1
    }
    out value "" %1
  })";
  verify(parse_graph(good), "parse");
  std::string bad = good;
  bad.replace(bad.find("%1 f32[2,3] = exp"), 17, "%1 f32[3,2] = exp");
  EXPECT_THROW(verify(parse_graph(bad), "parse"), InternalError);
  bad = good;
  bad.replace(bad.find("\"a\" %0 f32"), 10, "\"a\" %0 f64");
  EXPECT_THROW(verify(parse_graph(bad), "parse"), InternalError);
}

TEST(Ops, AnUnknownRowIsNamedWithTheNearest) {
  try {
    op_row(intern("sofmax"));
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("no op is named \"sofmax\"; did you mean \"softmax\"?"),
              std::string::npos)
        << error.what();
  }
}

std::vector<TypedShape> types(std::vector<Shape> shapes) {
  std::vector<TypedShape> out;
  for (auto& shape : shapes) out.push_back({DType::f32, shape});
  return out;
}
std::string rule_of(OpId op, const std::vector<Shape>& shapes, const Attrs& attrs = {}) {
  return op_row(op).split({op, types(shapes), attrs, {}});
}

TEST(SplitRule, EllipsisTakesUnusedLetters) {
  SplitRule rule = parse_split_rule("...K,nK,n->...n", types({{2, 5, 8}, {6, 8}, {6}}), types({{2, 5, 6}}));
  EXPECT_EQ(rule.in, (Words{"abK", "nK", "n"}));
  EXPECT_EQ(rule.out, (Words{"abn"}));
  EXPECT_EQ(rule.fixed, "K");
  rule = parse_split_rule("...a,...b->...", types({{7, 3}, {7, 4}}), types({{7}}));
  EXPECT_EQ(rule.in, (Words{"ca", "cb"}));
  EXPECT_EQ(rule.out, (Words{"c"}));
}
TEST(SplitRule, NoInputsAndScalars) {
  SplitRule rule = parse_split_rule("->a#", {}, types({{3, 4}}));
  EXPECT_TRUE(rule.in.empty());
  EXPECT_EQ(rule.out, (Words{"a#"}));
  EXPECT_EQ(rule.fixed, "#");
  EXPECT_EQ(parse_split_rule("...,->...", types({{3}, {}}), types({{3}})).in, (Words{"a", ""}));
  EXPECT_EQ(parse_split_rule("", types({{3, 4}, {}}), types({{5}})).in, (Words{"##", ""}));
}
TEST(SplitRule, RefusesWhatDoesNotFit) {
  auto refused = [](std::string_view rule, std::vector<Shape> in, std::vector<Shape> out) {
    EXPECT_THROW(parse_split_rule(rule, types(in), types(out)), InternalError) << rule;
  };
  refused("ab,bc->ac", {{2, 3}, {4, 5}}, {{2, 5}});  // b is 3 and 4
  refused("ab->a", {{2, 3}, {3}}, {{2}});            // a tensor too few
  refused("ab->a", {{2, 3, 4}}, {{2}});              // a dim too few
  refused("...a,...a->...", {{2, 3}, {2, 2, 3}}, {{2}});
  refused("ab", {{2, 3}}, {});
  refused("a1->a", {{2, 3}}, {{2}});
}
TEST(SplitRule, RowsFollowTheirAttributes) {
  EXPECT_EQ(rule_of("sum", {{2, 3, 4}}, {{"dims", List{1}}}), "abc->ac");
  EXPECT_EQ(rule_of("max", {{2, 3, 4}}, {{"dims", List{1}}}), "a#b->ab");
  EXPECT_EQ(rule_of("permute", {{2, 3, 4}}, {{"order", List{2, 0, 1}}}), "abc->cab");
  EXPECT_EQ(rule_of("reshape", {{4, 5, 6}}, {{"shape", Shape{4, 5, 2, 3}}}), "ab#->ab##");
  EXPECT_EQ(rule_of("reshape", {{4, 1, 6}}, {{"shape", Shape{4, 6, 1}}}), "a#b->ab#");
  EXPECT_EQ(rule_of("reshape", {{6, 4, 5}}, {{"shape", Shape{24, 5}}}), "##a->#a");
  EXPECT_EQ(rule_of("reshape", {{0, 4}}, {{"shape", Shape{0}}}), "##->#");
  EXPECT_EQ(rule_of("broadcast", {{3, 1}}, {{"shape", Shape{2, 3, 5}}, {"dims", List{1, 2}}}), "b#->abc");
  EXPECT_EQ(rule_of("slice", {{3, 5}}, {{"start", List{0, 1}}, {"limit", List{3, 4}}, {"step", List{1, 1}}}),
            "a#->a#");
  EXPECT_EQ(rule_of("pad", {{3, 5}}, {{"lo", List{0, 0}}, {"hi", List{0, 2}}, {"value", 0.0}}), "a#->a#");
  EXPECT_EQ(rule_of("concat", {{3, 5}, {3, 2}}, {{"dim", int64_t{1}}}), "a#,a#->a#");
  EXPECT_EQ(rule_of("take", {{9, 4}, {2, 5}}), "#c,ab->abc");
  EXPECT_EQ(rule_of("embedding_grad", {{2, 5, 4}, {2, 5}}, {{"rows", int64_t{9}}}), "abc,ab->#c");
  EXPECT_EQ(rule_of("dot", {{2, 3, 5}, {2, 5, 7}},
                    {{"lhs_batch", List{0}},
                     {"rhs_batch", List{0}},
                     {"lhs_contract", List{2}},
                     {"rhs_contract", List{1}}}),
            "acb,abd->acd");
  EXPECT_EQ(rule_of("linear", {{2, 5}, {7, 5}}), "...k,nk->...n");
  EXPECT_EQ(rule_of("linear", {{2, 5}, {7, 5}, {7}}), "...K,nK,n->...n");
  EXPECT_EQ(rule_of("iota", {}, {{"shape", Shape{2, 3}}, {"dim", int64_t{1}}}), "->a#");
  EXPECT_EQ(rule_of("sdpa", {{2, 5, 4, 8}, {2, 5, 2, 8}, {2, 5, 2, 8}})[1], 'T');
  EXPECT_EQ(
      parse_split_rule(rule_of("sdpa", {{2, 5, 4, 8}, {2, 5, 2, 8}, {2, 5, 2, 8}}),
                       types({{2, 5, 4, 8}, {2, 5, 2, 8}, {2, 5, 2, 8}}), types({{2, 5, 4, 8}, {2, 4, 5}}))
          .fixed,
      "THDSG");
}

TEST(Rules, TypesAsText) {
  std::vector<TypedShape> types{{DType::f32, {4, 8}}, {DType::i64, {}}, {DType::u8, {0}}};
  EXPECT_EQ(types_text(types), "f32[4,8];i64[];u8[0]");
  EXPECT_EQ(rules::parse_types("f32[4,8];i64[];u8[0]"), types);
  EXPECT_TRUE(rules::parse_types("").empty());
}

}  // namespace
}  // namespace lockstep
