// Attributes on one rank: sizes of sharded dims become local, all else stays.
#include "core/ops/localize.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace lockstep {
namespace {

using Ints = std::vector<int64_t>;

TEST(Localize, ShapesFollowTheirLetters) {
  EXPECT_EQ(localize_shape({6, 4}, "ab", {{'a', 2}}), (Shape{2, 4}));
  EXPECT_EQ(localize_shape({6, 4}, "a#", {{'a', 0}, {'c', 9}}), (Shape{0, 4}));
  EXPECT_EQ(localize_shape({}, "", {{'a', 2}}), Shape{});
  EXPECT_THROW(localize_shape({6, 4}, "a", {{'a', 2}}), InternalError);
}

TEST(Localize, AttributesThatNameSizes) {
  EXPECT_EQ(localize_attrs(op_row("reshape"), {{"shape", Ints{6, 2, 2}}}, {{3, 2, 2}}).list("shape"),
            (Ints{3, 2, 2}));
  Attrs slice{{"start", Ints{0, 1}}, {"limit", Ints{6, 3}}, {"step", Ints{1, 1}}};
  EXPECT_EQ(localize_attrs(op_row("slice"), slice, {{2, 2}}).list("limit"), (Ints{2, 3}));
  Attrs strided{{"start", Ints{0, 1}}, {"limit", Ints{6, 9}}, {"step", Ints{1, 3}}};
  EXPECT_EQ(localize_attrs(op_row("slice"), strided, {{2, 3}}).list("limit"), (Ints{2, 9}));
  Attrs rows{{"rows", 7}};
  EXPECT_EQ(localize_attrs(op_row("index_add"), rows, {{7, 2}}).integer("rows"), 7);
  Attrs norm{{"eps", 1e-5}};
  EXPECT_EQ(localize_attrs(op_row("layer_norm"), norm, {{3, 4}, {3}, {3}}), norm);
}

TEST(Localize, ByTheRowsOwnRule) {
  std::vector<TypedShape> in{{DType::f32, {5}}}, out{{DType::f32, {3, 5}}};
  Attrs attrs{{"shape", Ints{3, 5}}, {"dims", Ints{1}}};
  const Op& row = op_row("broadcast");
  SplitRule rule = parse_split_rule(row.split({row.id, in, attrs, {}}), in, out);
  EXPECT_EQ(localize_attrs(row, attrs, rule, out, {{rule.out[0][0], 2}}).list("shape"),
            (Ints{2, 5}));  // a new dim
  EXPECT_EQ(localize_attrs(row, attrs, rule, out, {{rule.in[0][0], 1}}).list("shape"),
            (Ints{3, 1}));  // the input's dim
}

}  // namespace
}  // namespace lockstep
