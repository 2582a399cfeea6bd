// Collectives: the groups that a program talks to, and the one place where the compiler starts a collective.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/program/program.h"
#include "core/mesh/array.h"

namespace lockstep::compiler {

// A collective with its group and its places in memory, to be started in every step.
struct BoundCollective {
  Group* group = nullptr;
  Collective what;
  std::string label, along;
  int64_t bytes = 0;  // to other ranks

  // After what `stream` has enqueued.
  std::shared_ptr<Work> start(Stream& stream) const;
};

class Collectives {
 public:
  // Of the mesh's groups on `device`; both outlive this.
  Collectives(const LiveMesh& mesh, Device& device) : mesh_(mesh), device_(device) {}
  // StartCollective::along. InternalError where the mesh has no such group.
  Group& group(const std::string& along) const;
  // `from` and `to`: its spans in memory, which stay untouched from its start to its wait.
  BoundCollective bind(const StartCollective& what, const void* from, void* to) const;

 private:
  const LiveMesh& mesh_;
  Device& device_;
};

}  // namespace lockstep::compiler
