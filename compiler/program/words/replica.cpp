// Finds the ranks that store the same part.
#include "compiler/program/words/replica.h"

#include "core/base/text.h"

namespace lockstep::compiler {

Replica replica_of(const std::string& name, const Layout& layout, const Mesh& mesh, int64_t rank) {
  Replica out;
  out.name = name;
  const auto at = mesh.coordinate(rank);
  for (int d = 0; d < mesh.ndim(); ++d) {
    if (layout.on(d).kind == Placement::Kind::shard) {
      out.part += str(mesh.dim_names[d], " ", at[d], " ");
    } else {
      out.index = out.index * mesh.shape[d] + at[d];
      out.count *= mesh.shape[d];
    }
  }
  return out;
}

}  // namespace lockstep::compiler
