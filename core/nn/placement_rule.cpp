// Layouts of the state from rules and from the names of the mesh dims.
#include "core/nn/placement_rule.h"

#include <algorithm>

#include "core/base/error.h"

namespace lockstep {

std::string text(const PlacementRule& rule) {
  std::string out = str("{\"", rule.dim, "\", \"", rule.params, "\", ", text(rule.place), "}");
  return rule.at.file.empty() ? out : str(out, " at ", rule.at.text());
}

void check_rule(const PlacementRule& rule, const std::vector<std::string>& fqns) {
  const std::vector<std::string> dims(std::begin(kMeshDims), std::end(kMeshDims));
  if (std::find(dims.begin(), dims.end(), rule.dim) == dims.end()) {
    std::string near = nearest(rule.dim, dims);
    throw UserError(str("[place] ", text(rule), ": no mesh dim is called \"", rule.dim, "\"",
                        near.empty() ? "" : str("; did you mean \"", near, "\"?"),
                        " Names: ", join(dims, ", ")));
  }
  if (rule.place.kind != Placement::Kind::replicate && rule.place.kind != Placement::Kind::shard)
    throw UserError(str("[place] ", text(rule), ": state is Replicate or Shard; ", text(rule.place),
                        " exists only within a step"));
  if (std::any_of(fqns.begin(), fqns.end(),
                  [&](const std::string& fqn) { return glob_match(rule.params, fqn); }))
    return;
  std::string near = nearest(rule.params, fqns);
  if (near.empty() && !fqns.empty()) near = fqns.front();
  throw UserError(
      str("[place] ", text(rule), ": no tensor has a name like \"", rule.params, "\"; ",
          near.empty() ? "the state is empty: construct the model first" : str("nearest: \"", near, "\"")));
}

namespace {
// The one rule of the list that names `fqn` on the mesh dim, or null.
const PlacementRule* rule_for(const std::string& fqn, std::string_view dim,
                              const std::vector<PlacementRule>& rules) {
  const PlacementRule* found = nullptr;
  for (const auto& rule : rules) {
    if (rule.dim != dim || !glob_match(rule.params, fqn)) continue;
    if (found)
      throw UserError(str("[place] \"", fqn, "\" has two rules on ", dim, ": ", text(*found), " and ",
                          text(rule), "; keep one"));
    found = &rule;
  }
  return found;
}
// The rule of a moment's parameter, unless it splits a dim of which the moment has only one: statistics over
// all rows or columns are replicated.
const PlacementRule* of_parameter(const Spec& moment, const PlacementRule* rule) {
  if (!rule || rule->place.kind != Placement::Kind::shard) return rule;
  const auto dim = static_cast<size_t>(rule->place.dim);
  if (dim >= moment.shape.size()) return rule;
  return moment.shape[dim] == 1 || moment.shape[dim] % rule->place.groups ? nullptr : rule;
}

Placement by_name(const Spec& spec, std::string_view dim, const StatePolicy& policy) {
  if (!is_data_dim(dim) || spec.role == Role::buffer) return Replicate();
  // The rows of a sparse table and of its moments have the same owner.
  if (spec.sparse) return dim == "dp_shard" && policy.zero == 3 ? Shard(0) : Replicate();
  if (spec.role == Role::moment || policy.masters) return Shard(0);
  return dim == "dp_shard" && policy.zero == 3 ? Shard(0) : Replicate();
}

}  // namespace

void check_fit(const Spec& spec, const PlacementRule& rule) {
  const Placement& place = rule.place;
  if (place.kind != Placement::Kind::shard) return;
  if (spec.sparse && (rule.dim != "dp_shard" || !(place == Shard(0))))
    throw UserError(str("[place] ", text(rule), ": \"", spec.fqn,
                        "\" is sparse, and a sparse table is split by rows and only over dp_shard; say "
                        "shard(0) on dp_shard, leave the rule out, or make the table dense"));
  int dims = static_cast<int>(spec.shape.size());
  if (place.dim < 0 || place.dim >= dims)
    throw UserError(str("[place] ", text(rule), ": \"", spec.fqn, "\" is ",
                        shape_text(spec.dtype, spec.shape), " and has no dim ", place.dim,
                        "; its dims are 0 .. ", dims - 1));
  int64_t size = spec.shape[place.dim];
  if (place.groups < 1 || size % place.groups)
    throw UserError(str("[place] ", text(rule), ": dim ", place.dim, " of \"", spec.fqn, "\" ",
                        shape_text(spec.dtype, spec.shape), " has size ", size,
                        ", which does not divide into ", place.groups, " groups"));
}

namespace {
// Sparse moments are placed like their table, by rows.
const PlacementRule* of_table(const Spec& moment, const PlacementRule* mine, const PlacementRule* table,
                              const Placement& by_default) {
  const Placement wanted = table ? table->place : by_default;
  if (mine && !(mine->place == wanted))
    throw UserError(str("[place] ", text(*mine), ": \"", moment.fqn, "\" is a moment of the sparse table \"",
                        moment.of, "\", which is ", text(wanted), " on ", mine->dim,
                        ": both are split in the same way; give the table the rule, too, or leave it out"));
  return table;
}
}  // namespace

Layout layout_for(const Spec& spec, const std::vector<PlacementRule>& rules,
                  const std::vector<PlacementRule>& defaults, const Mesh& mesh, const StatePolicy& policy) {
  Layout layout;
  bool rule_on_shard = false;
  for (std::string_view dim : {"tp", "dp_shard", "dp_replicate", "cp", "pp"}) {
    const PlacementRule* rule = nullptr;
    const PlacementRule* table = nullptr;
    for (const auto* list : {&rules, &defaults}) {
      if (!rule) rule = rule_for(spec.fqn, dim, *list);
      if (spec.role != Role::moment) continue;
      if (!table) table = rule_for(spec.of, dim, *list);
      if (!rule && !spec.sparse) rule = of_parameter(spec, rule_for(spec.of, dim, *list));
    }
    if (spec.sparse && spec.role == Role::moment)
      rule = of_table(spec, rule, table, by_name(spec, dim, policy));
    if (spec.shape.empty()) continue;
    if (rule) check_fit(spec, *rule);
    const int at = mesh.find(dim), outer = mesh.find("dp_shard");
    if (at < 0) continue;
    // dp_replicate splits only tensors that dp_shard has split, so a tensor that a rule replicates on
    // dp_shard is replicated on both.
    const bool whole =
        dim == "dp_replicate" && outer >= 0 && layout.on(outer) == Replicate() && rule_on_shard;
    layout.set(at, rule ? rule->place : whole ? Replicate() : by_name(spec, dim, policy));
    if (spec.sparse && mesh.shape[at] == 1) layout.set(at, Replicate());  // one owner has it whole
    if (dim == "dp_shard") rule_on_shard = rule != nullptr;
  }
  return layout;
}

}  // namespace lockstep
