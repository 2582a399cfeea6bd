// mark_views: what is no copy lies where library calls take it, at a multiple of 16 bytes.
#include "compiler/fuse/views.h"

#include <gtest/gtest.h>

#include "compiler/codegen/target.h"
#include "compiler/program/blocks/places.h"
#include "tests/unit/compiler/fuse_case.h"

namespace lockstep {

using namespace compiler;

namespace {

enum class Reads { part, slice_before, slice_behind };

// Rows of three floats, 12 bytes, made where they lie in one whole; a product reads the second part, or the
// rows 4 to 7 of it by a slice that stands before or behind the whole.
Graph stacked(int64_t first, Reads reads) {
  CaseBuilder b;
  const Tensor one = tanh(b.in({first, 3})), two = tanh(b.in({8, 3})), w = b.in({5, 3});
  auto product = [&](const Tensor& x) { b.out(apply1(ops::linear, {x, w})); };
  auto rows = [&] { return slice(two, 0, 4, 8); };
  if (reads == Reads::part) product(two);
  if (reads == Reads::slice_before) product(rows());
  b.out(exp(apply1(ops::concat, {one, two}, {{"dim", Attr(int64_t{0})}, {"pieces", Attr(true)}})));
  if (reads == Reads::slice_behind) product(rows());
  return b.take();
}
int views_of(const Graph& graph, OpId op) {
  int out = 0;
  for (const Node& node : graph.nodes) out += node.op == op && node.attrs.flag("alias");
  return out;
}

TEST(MarkViews, LibraryCallsReadAtMultiplesOf16Bytes) {
  for (const Reads reads : {Reads::part, Reads::slice_before, Reads::slice_behind})
    for (const int64_t first : {1, 2, 3, 4, 8}) {
      const Graph graph = mark_views(stacked(first, reads), PassContext{});
      const auto places = places_of(graph);
      for (const Node& node : graph.nodes) {
        if (!cpu_target().is_library_op(node.op)) continue;
        for (ValueId v : node.inputs) EXPECT_EQ(places[v].offset % 16, 0) << first << " rows before";
      }
      const bool whole = views_of(graph, ops::concat), part = views_of(graph, ops::slice);
      if (first % 4 == 0) {
        EXPECT_TRUE(whole);
        EXPECT_EQ(part, reads != Reads::part);
      } else {
        EXPECT_EQ(whole, reads == Reads::slice_behind) << "the slice is a copy then";
        EXPECT_EQ(part, reads == Reads::slice_before);
      }
    }
}

// Queries cut from rows of 24 numbers, and gradients of parts of rows: attention takes strides, and wants
// each row at a multiple of 16 bytes.
TEST(MarkViews, AttentionReadsAndWritesPartsOfRowsThatBeginAtMultiplesOf16Bytes) {
  for (const int64_t first : {0, 1, 4, 6, 8}) {
    CaseBuilder b;
    const Tensor rows = b.in({2, 5, 3, 24}), k = b.in({2, 5, 3, 16}), v = b.in({2, 5, 3, 16});
    b.out(sdpa(slice(rows, 3, first, first + 16), k, v));
    EXPECT_EQ(views_of(mark_views(b.take(), PassContext{}), ops::slice), first % 4 == 0) << first;
  }
  for (const int64_t size : {4, 6, 8}) {
    CaseBuilder b;
    std::vector<Tensor> made;
    for (int i = 0; i < 2; ++i) {
      const Tensor q = b.in({2, 5, 3, size}), k = b.in({2, 5, 3, size}), v = b.in({2, 5, 3, size});
      made.push_back(sdpa(q, k, v));
    }
    b.out(exp(concat(made, 3)));
    EXPECT_EQ(views_of(mark_views(b.take(), PassContext{}), ops::concat), size % 4 == 0) << size;
  }
}

}  // namespace
}  // namespace lockstep
