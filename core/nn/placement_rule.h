// Placement rules: rows of (mesh dim, FQN glob, placement) give the layout of every tensor of the state.
#pragma once

#include <string>
#include <vector>

#include "core/mesh/layout.h"
#include "core/nn/parameter.h"

namespace lockstep {

struct PlacementRule {
  std::string dim;     // mesh dim: "tp", "dp_shard", ...
  std::string params;  // FQN glob: '*' within one part, '**' across parts, '{a,b}' alternatives
  Placement place;     // Replicate() or Shard(dim, groups)
  SourceLine at = {};  // set by State::place
};
std::string text(const PlacementRule& rule);  // {"tp", "blocks.*.up.*", Shard(0)} at gpt.cpp:12

// Throws UserError for an unknown mesh dim, a placement that state cannot have, and a glob that matches none
// of `fqns`.
void check_rule(const PlacementRule& rule, const std::vector<std::string>& fqns);

// Throws UserError if the rule shards a dim that the tensor lacks, or its groups do not divide the dim.
void check_fit(const Spec& spec, const PlacementRule& rule);

// Decides the layout of a tensor that no rule names.
struct StatePolicy {
  // Layers compute in a smaller dtype: f32 parameters are masters, which only the rank that updates them
  // needs.
  bool masters = false;
  // The ZeRO level of dp_shard: 1 and 2 split moments, 3 parameters too (Rajbhandari et al., 2020).
  int zero = 3;
};

// The layout of a tensor of the state: splits in the order tp, dp_shard, dp_replicate, then other dims of the
// rules. Per mesh dim the first of these decides: the rule that names the tensor; for a moment, the rule that
// names its parameter; the same from `defaults`; the name of the mesh dim:
//   parameter:    Replicate on dp_replicate; Shard(0) on dp_shard for ZeRO 3, else Replicate
//   master:       Shard(0) on both
//   moment:       Shard(0) on dp_shard and dp_replicate, so that each rank updates its rows
//   buffer:       Replicate
//   sparse table: as its moments: Shard(0) on dp_shard for ZeRO 3, Replicate elsewhere
// dp_replicate splits further the tensors that dp_shard has split: a tensor that a rule replicates on
// dp_shard stays replicated on dp_replicate. Tensors of 0 dims stay replicated. Dims that the mesh lacks are
// skipped. Dims of size 1 are kept, except for sparse tables, so that no layout depends on other sizes.
// Throws UserError if two rules of one list name one tensor on one mesh dim, or a placement does not fit the
// shape.
Layout layout_for(const Spec& spec, const std::vector<PlacementRule>& rules,
                  const std::vector<PlacementRule>& defaults, const Mesh& mesh,
                  const StatePolicy& policy = {});

}  // namespace lockstep
