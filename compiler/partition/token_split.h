// Sequence parallelism: placements on tp of values of tokens, and of pieces of them.
#pragma once

#include <cstdint>

#include "core/ir/graph.h"
#include "core/mesh/placement.h"
#include "core/types/shape.h"

namespace lockstep::compiler {

// [sequences, tokens] of the first batch field with two dims or more; [] if there is none.
inline Shape tokens_of(const Graph& graph) {
  for (const auto& input : graph.inputs)
    if (const Shape& shape = graph[input.value].shape; input.kind == InputKind::batch && shape.size() >= 2)
      return {shape[0], shape[1]};
  return {};
}

struct TokenSplit {
  Shape tokens = {};      // [sequences, tokens] of the batch
  bool parallel = false;  // values between split weights are sharded along the tokens
  int64_t ranks = 1;
  int groups = 1;      // parts into which cut_products cut each sequence; a rank has a shard of each
  int64_t pieces = 1;  // or number of pieces of whole sequences

  // [sequences, tokens, ...]
  bool is_whole(const Shape& shape) const {
    return parallel && shape.size() >= 3 && shape[0] == tokens[0] && shape[1] == tokens[1] &&
           tokens[1] % (ranks * groups) == 0;
  }
  bool is_piece(const Shape& shape) const {
    if (!parallel || shape.size() < 3 || groups * pieces == 1 || shape[1] % ranks) return false;
    return shape[0] * pieces == tokens[0] && shape[1] * groups == tokens[1];
  }
  // The placement after terms are summed: a shard of the tokens, or the whole.
  Placement summed(const Shape& shape) const {
    return is_whole(shape) ? Shard(1, groups) : is_piece(shape) ? Shard(1) : Replicate();
  }
  // Reads `groups` and `pieces` from a graph that was cut.
  void find_pieces(const Graph& graph) {
    for (const Node& node : graph.nodes)
      if (node.op == ops::concat && node.attrs.flag("pieces") && is_whole(graph[node.outputs[0]].shape)) {
        const auto count = static_cast<int64_t>(node.inputs.size());
        groups = node.attrs.integer("dim") == 1 ? static_cast<int>(count) : 1, pieces = count / groups;
      }
  }
};

}  // namespace lockstep::compiler
