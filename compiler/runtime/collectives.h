// Collectives: the groups that a program communicates with, and the only place where the compiler starts a
// collective.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/program/words/program.h"
#include "core/mesh/array.h"

namespace lockstep::compiler {

// A collective with its group and its addresses, started in every step.
struct BoundCollective {
  Group* group = nullptr;
  Collective what;
  std::string label, along;
  int64_t bytes = 0;  // to other ranks

  // Starts after everything that `stream` has enqueued.
  std::shared_ptr<Work> start(Stream& stream) const;
};

class Collectives {
 public:
  // For the mesh's groups on `device`; both must outlive this.
  Collectives(const LiveMesh& mesh, Device& device) : mesh_(mesh), device_(device) {}
  // The group of a StartCollective::along. InternalError if the mesh has no such group.
  Group& group(const std::string& along) const;
  // `from` and `to`: addresses of its spans, which stay untouched from its start to its wait.
  BoundCollective bind(const StartCollective& what, const void* from, void* to) const;

 private:
  const LiveMesh& mesh_;
  Device& device_;
};

}  // namespace lockstep::compiler
