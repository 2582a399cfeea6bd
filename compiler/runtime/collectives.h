// Collectives: the groups that a program talks to, and the one place where the compiler starts a collective.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/program/program.h"
#include "core/mesh/array.h"

namespace lockstep {

class Collectives {
 public:
  // Of the mesh's groups on `device`; both outlive this.
  Collectives(const LiveMesh& mesh, Device& device) : mesh_(mesh), device_(device) {}
  // StartCollective::along. InternalError where the mesh has no such group.
  Group& group(const std::string& along) const;
  // Starts it after what `stream` has enqueued; `from` and `to` are its spans in memory and stay untouched
  // until the wait.
  std::shared_ptr<Work> start(const StartCollective& what, const void* from, void* to, Stream& stream) const;

 private:
  const LiveMesh& mesh_;
  Device& device_;
};

}  // namespace lockstep
