// Replica: bytes that this rank holds and other ranks hold, too: state that is replicated along a mesh dim,
// and the rounded weights that a step gathers.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/program/span.h"
#include "core/mesh/layout.h"

namespace lockstep::compiler {

struct Replica {
  std::string name;  // "token.weight"; "token.weight (bf16, gathered)" of the copy that a step computes with
  std::string part;  // which part of the tensor: equal on the ranks that hold the same
  Span at;
  int64_t index = 0, count = 1;  // which of how many
};
// Of a tensor of this layout on a rank of the mesh; `at` is left to the caller.
Replica replica_of(const std::string& name, const Layout& layout, const Mesh& mesh, int64_t rank);

}  // namespace lockstep::compiler
