// How the values of a micro-batch depend on its samples, and how they grow with the number of samples.
#pragma once

#include <optional>
#include <vector>

#include "compiler/trace/growth.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

// How a value depends on the samples:
//   - alike: depends on no sample, and on their number only by `ratio`
//   - samples: each element belongs to one sample
//   - total: a sum over samples, which may be scaled
//   - place: depends on the number of samples, or on their places in the micro-batch
//   - mixed: anything else
enum class ShareKind { alike, samples, total, place, mixed };
struct Share {
  ShareKind kind = ShareKind::alike;
  // For samples: the element at index i of `dim` belongs to sample i / inner % B.
  size_t dim = 0;
  int64_t inner = 1;
  // For samples: all elements along `dim` are equal, for example zeros.
  bool same = false;
  // For a total or a place: the node that made it. For a total: the node by which only some samples are in
  // it, as in x[:2].
  NodeId from = {}, part = {};
  // Whether it is a count of floats on its way into sum_counts, which separates the counts again.
  bool count = false;
  // For samples: the node at which a place entered; ids of a sample's own rows may have one.
  NodeId place = {};
  // The random numbers that it is computed from, if they are drawn once for all samples and not for weights.
  NodeId drawn = {};
  // The value on micro-batches divided by that on the whole batch (for a total: their sum). If it is not 1,
  // `sized` is the node that caused it. A zero has any ratio.
  double ratio = 1;
  NodeId sized = {};
  bool zero = false;
};

// The shares of all values of a step traced on some samples, compared with the whole batch.
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
  // The position of the samples in a node's inputs; an input whose elements are equal along a dim fits any
  // position.
  Share first_of(const Node& node) const;
  // By the placement rule of its op row; none if it has none.
  std::optional<SplitRule> rule_of(const Node& node) const;
  // A micro-batch's value, summed over all of them, divided by the value on the whole batch.
  double summed(ValueId v) const { return of_[v].ratio * (is(v, ShareKind::alike) ? growth_.parts() : 1); }
  // The node because of which that is not 1.
  NodeId reason(ValueId v) const;
  NodeId sized_of(NodeId n, const Node& node) const;
  // The ratio of a node's result, from those of its inputs; none if it is not a product of powers.
  std::optional<double> scaled(const Node& node, const Op& row, bool totals) const;
  // Whether several inputs are terms of the result, which may then be totals together.
  static bool is_joint(const Node& node, const Op& row);
  // Whether the result is linear in the inputs that are totals.
  bool linear_in_totals(const Node& node, const Op& row) const;
  // rng.sample == 0: it adds up to 1 over the micro-batches of a step, whatever their number.
  bool first_micro_batch(const Node& node) const;

  const Graph& graph_;
  const BatchGrowth growth_;
  const int64_t batch_;
  PerValue<Share> of_;

 private:
  // By what the result is linear in; `in`: the ratios of the inputs.
  std::optional<double> scaled_by_terms(const Node& node, const Op& row, const std::vector<double>& in,
                                        bool joint, bool totals) const;
};

}  // namespace lockstep::compiler
