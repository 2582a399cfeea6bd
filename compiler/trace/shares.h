// What the values of a micro-batch have of its samples, and how they grow with their number.
#pragma once

#include <optional>

#include "compiler/trace/growth.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

// alike: depends on no sample, and on their number by `ratio` alone. samples: each element belongs to one.
// total: a sum over samples, which may be scaled. place: made of no sample, but of their number, or of what
// differs from one place in the micro-batch to the next. mixed: anything else.
enum class ShareKind { alike, samples, total, place, mixed };
struct Share {
  ShareKind kind = ShareKind::alike;
  // Of samples: the element at index i of `dim` belongs to sample i / inner % B.
  size_t dim = 0;
  int64_t inner = 1;
  // Of samples: all elements along `dim` are the same, as those of zeros are.
  bool same = false;
  // Of a total, a place: the node that made it. Of a total: the node by which some samples alone are in it,
  // as in x[:2].
  NodeId from = {}, part = {};
  // Whether it is a count of floats on its way into sum_counts, which takes it apart.
  bool count = false;
  // Of samples: the node at which a place came in, which ids of one's own rows may have.
  NodeId place = {};
  // The random numbers that it is made of, drawn once for all samples and not for weights.
  NodeId drawn = {};
  // On micro-batches over on the whole batch (of a total: their sum), where it is not 1 the node that began
  // it; a zero has any.
  double ratio = 1;
  NodeId sized = {};
  bool zero = false;
};

// Those of the values of a step that is traced on some samples, beside the whole batch.
class Shares {
 public:
  Shares(const Graph& some, const Graph& whole)
      : graph_(some), growth_(some, whole), batch_(growth_.samples()), of_(some.values.size()) {}

 protected:
  using Kind = ShareKind;
  const Shape& shape(ValueId v) const { return graph_[v].shape; }
  bool is(ValueId v, ShareKind kind) const { return of_[v].kind == kind; }
  bool sampled(ValueId v) const { return is(v, ShareKind::samples) && !of_[v].same; }
  static bool one(double ratio);
  // Where the samples of a node's inputs lie: anywhere along a dim in one whose elements are the same.
  Share first_of(const Node& node) const;
  // By the placement rule of its row: none where it has none.
  std::optional<SplitRule> rule_of(const Node& node) const;
  // A micro-batch's value, summed over all of them, over the same on the whole batch.
  double summed(ValueId v) const { return of_[v].ratio * (is(v, ShareKind::alike) ? growth_.parts() : 1); }
  // The node by which that is not 1.
  NodeId reason(ValueId v) const;
  NodeId sized_of(NodeId n, const Node& node) const;
  // The ratio of what a node makes, of those of its inputs; none where it is no product of powers.
  std::optional<double> scaled(const Node& node, const Op& row, bool totals) const;

  const Graph& graph_;
  const BatchGrowth growth_;
  const int64_t batch_;
  PerValue<Share> of_;
};

}  // namespace lockstep::compiler
