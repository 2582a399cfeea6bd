// Collects everything that cannot be placed on a model dim, and throws it together with the nearest size that
// works.
#pragma once

#include <string>
#include <vector>

#include "compiler/pass/pass.h"

namespace lockstep::compiler {

class ModelRefusals {
 public:
  ModelRefusals(const Graph& graph, const PassContext& context, int mesh_dim)
      : graph_(graph), context_(context), mesh_dim_(mesh_dim) {}
  // Sizes that the dim must divide: sharded dims of the state, heads of attention that reads them, and
  // `tokens` (0: not cut).
  void check_sizes(int64_t tokens);
  // A sharded weight that `node` cannot read in its placement.
  void add_weight(const std::string& fqn, const Node& node);
  void end() const;  // UserError with all reasons, if there are any

 private:
  void divide(int64_t size, int64_t groups, const std::string& what);

  const Graph& graph_;
  const PassContext& context_;
  int mesh_dim_;
  std::vector<std::pair<int64_t, int64_t>> sizes_;  // {size, groups}
  std::vector<std::string> reasons_;
  bool rows_ = false;
};

}  // namespace lockstep::compiler
