// Placement rules: from (mesh dim, FQN glob, placement) rows to the layout of every tensor of the state.
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

// UserError for an unknown mesh dim, a placement that state cannot have, and a glob that matches none of
// `fqns`.
void check_rule(const PlacementRule& rule, const std::vector<std::string>& fqns);

// UserError where the rule's shard is of a dim that the tensor lacks, or of groups that do not divide it.
void check_fit(const Spec& spec, const PlacementRule& rule);

// What decides where a tensor lies when no rule names it.
struct StatePolicy {
  bool masters = false;  // layers compute in a smaller dtype: f32 parameters are masters, which only the rank
                         // that updates them needs
  int zero =
      3;  // of dp_shard: what is split over it. 1, 2: moments; 3: parameters too (Rajbhandari et al., 2020)
};

// The layout of a tensor of the state: splits in the order tp, then dp_shard, then dp_replicate (then what
// other dims the rules name). Per mesh dim: the rule whose glob names the tensor; else, for a moment, the
// rule that names its parameter; else the same from `defaults`; else the name of the mesh dim says it:
//   parameter: Replicate on dp_replicate; on dp_shard Shard(0) for ZeRO 3, else Replicate; a master: Shard(0)
//   on both; moment: Shard(0) on dp_shard and dp_replicate, so that each rank updates its rows; buffer:
//   Replicate; a sparse table, as its moments: Shard(0) on dp_shard for ZeRO 3, Replicate elsewhere.
// dp_replicate splits further what dp_shard has split: what a rule keeps whole on dp_shard stays whole on
// dp_replicate. Tensors of 0 dims stay replicated. Mesh dims that the mesh lacks are skipped; those of size 1
// are kept, but for sparse tables, so that no layout depends on other sizes. UserError when two rules of one
// list name one tensor on one mesh dim, or a placement does not fit the shape.
Layout layout_for(const Spec& spec, const std::vector<PlacementRule>& rules,
                  const std::vector<PlacementRule>& defaults, const Mesh& mesh,
                  const StatePolicy& policy = {});

}  // namespace lockstep
