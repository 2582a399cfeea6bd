// Replica: bytes that this rank and other ranks both store: state that is replicated along a mesh dim, and
// the rounded weights that a step gathers.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/program/words/span.h"
#include "core/mesh/layout.h"

namespace lockstep::compiler {

struct Replica {
  std::string name;  // "token.weight"; "token.weight (bf16, gathered)" for the copy that a step computes with
  std::string part;  // which part of the tensor: equal on ranks that store the same part
  Span at;
  int64_t index = 0, count = 1;  // the number of this replica, and how many there are
};
// For a tensor of this layout on a rank of the mesh; the caller sets `at`.
Replica replica_of(const std::string& name, const Layout& layout, const Mesh& mesh, int64_t rank);

}  // namespace lockstep::compiler
