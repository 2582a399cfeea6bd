// Collects reasons, and finds the nearest size that works.
#include "compiler/partition/model_refusals.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

void ModelRefusals::divide(int64_t size, int64_t groups, const std::string& what) {
  sizes_.emplace_back(size, groups);
  const int64_t ranks = context_.mesh.shape[mesh_dim_];
  if (size % (groups * ranks) == 0) return;
  if (std::find(reasons_.begin(), reasons_.end(), what) == reasons_.end()) reasons_.push_back(what);
}

void ModelRefusals::check_sizes(int64_t tokens) {
  std::vector<ValueId> sharded;
  for (const auto& input : graph_.inputs) {
    if (input.kind != InputKind::state) continue;
    Placement place = context_.layout_of(input.name).on(mesh_dim_);
    if (place.kind != Placement::Kind::shard) continue;
    sharded.push_back(input.value);
    const Shape& shape = graph_[input.value].shape;
    int64_t size = shape[place.dim];
    // A moment adds nothing to its parameter's reason.
    if (context_.row_of && context_.row_of(input.name, "tp").empty()) continue;
    divide(size, place.groups,
           str(input.name, " ", shape_text(graph_[input.value].dtype, shape), " as ", text(place), ": ", size,
               place.groups > 1 ? str(" / ", place.groups, " groups") : std::string(), " does not divide"));
  }
  auto reached = depends_on(graph_, sharded);
  for (const Node& node : graph_.nodes)
    if (node.op == ops::sdpa && reached[node.inputs[0]]) {
      const int64_t heads = graph_[node.inputs[0]].shape[2], kv = graph_[node.inputs[1]].shape[2];
      divide(heads, 1, str(heads, " heads do not divide"));
      if (kv != heads) divide(kv, 1, str(kv, " heads of keys and values do not divide"));
    }
  if (tokens) divide(tokens, 1, str("sequences of ", tokens, " tokens do not divide (sequence parallelism)"));
}

void ModelRefusals::add_weight(const std::string& fqn, const Node& node) {
  std::string row = context_.row_of ? context_.row_of(fqn, context_.mesh.dim_names[mesh_dim_]) : "";
  reasons_.push_back(str("\"", fqn, "\" is ", text(context_.layout_of(fqn).on(mesh_dim_)),
                         row.empty() ? "" : " by the row " + row, ", and [", node.op, "] ", node.at.text(),
                         " cannot run on its parts: weights are never gathered on tp; give it replicate, or "
                         "shard a dim that the op may split"));
  rows_ = true;
}

void ModelRefusals::end() const {
  if (reasons_.empty()) return;
  const int64_t ranks = context_.mesh.shape[mesh_dim_];
  auto works = [&](int64_t n) {
    return std::all_of(sizes_.begin(), sizes_.end(),
                       [&](auto size) { return size.first % (size.second * n) == 0; });
  };
  std::string advice;
  for (int64_t away = 1; away < ranks && advice.empty() && !rows_; ++away)
    for (int64_t n : {ranks - away, ranks + away})
      if (advice.empty() && works(n)) advice = str("; the nearest tp that works: ", n);
  throw UserError(str("[tp] the model cannot be split over ", ranks, " ranks of mesh dim ",
                      context_.mesh.dim_names[mesh_dim_], ":\n  ", join(reasons_, "\n  "), advice));
}

}  // namespace lockstep::compiler
