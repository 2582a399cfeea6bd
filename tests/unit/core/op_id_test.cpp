// Handles of ops: one per name, the tree's known to the compiler, others interned as they are met.
#include "core/ir/op_id.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "core/base/text.h"
#include "core/ir/graph.h"
#include "core/ir/parse.h"
#include "core/ir/print.h"
#include "core/ops/op.h"

namespace lockstep {
namespace {

static_assert(ops::wait == "wait");  // at compile time, as the compare of two numbers
static_assert(ops::not_ == "not" && ops::wait != ops::model_wait);
static_assert(sizeof(OpId) == 4 && std::is_trivially_copyable_v<OpId>);

TEST(OpIds, EveryConstantHasARowAndEveryRowAConstant) {
  std::set<std::string_view> rows;
  for (const Op* row : all_ops()) rows.insert(row->id.name());
  EXPECT_EQ(rows, std::set<std::string_view>(op_detail::kNames.begin(), op_detail::kNames.end()));
  for (const Op* row : all_ops()) {
    EXPECT_LT(row->id.index(), op_detail::kNames.size());
    EXPECT_EQ(intern(row->id.name()), row->id) << row->id;
    EXPECT_EQ(find_op(row->id), row) << row->id;
  }
}

TEST(OpIds, AnyOtherNameIsInternedOnce) {
  const OpId made = intern("ops_of_a_user.scale");
  EXPECT_EQ(made, intern(std::string("ops_of_a_user") + ".scale"));
  EXPECT_EQ(made.name(), "ops_of_a_user.scale");
  EXPECT_NE(made, intern("ops_of_a_user.shift"));
  EXPECT_EQ(find_op(made), nullptr);
  EXPECT_EQ(OpId().name(), "");
  EXPECT_NE(OpId(), made);
  EXPECT_EQ(find_op(OpId()), nullptr);
}

TEST(OpIds, ThreadsGetTheSameHandles) {
  std::vector<std::vector<OpId>> seen(4, std::vector<OpId>(500));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < seen.size(); ++t)
    threads.emplace_back([&, t] {
      for (size_t k = 0; k < seen[t].size(); ++k) {
        const size_t name = t % 2 ? k : seen[t].size() - 1 - k;
        seen[t][name] = intern(str("of_threads_", name));
        EXPECT_EQ(seen[t][name].name(), str("of_threads_", name));
      }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& other : seen) EXPECT_EQ(other, seen[0]);
}

TEST(OpIds, AGraphKeepsANameThatItDoesNotKnow) {
  const std::string text =
      "graph [] {\n  in value \"x\" %0 f32[2]\n  %1 f32[2] = scaled_by_a_user(%0)\n  out value \"y\" %1\n}\n";
  const Graph graph = parse_graph(text);
  EXPECT_EQ(graph.nodes[0].op, intern("scaled_by_a_user"));
  EXPECT_EQ(print(graph), text);
}

}  // namespace
}  // namespace lockstep
