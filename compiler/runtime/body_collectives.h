// Collectives inside an executable: the nodes model_gather_start, model_exchange_start and model_wait, on the
// group of their mesh dim.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/ir/graph.h"
#include "core/mesh/group.h"

namespace lockstep {

// The group of a mesh dim for the device's memory. Empty where nothing runs.
using GroupOf = std::function<Group*(const std::string& mesh_dim)>;

bool is_body_start(const Node& node);
bool is_body_wait(const Node& node);
// The value that the collective of a start writes: the output of its wait. InternalError when there is no
// such wait.
ValueId result_of_start(const Graph& graph, const Node& start);

// Those under way in one executable.
class BodyCollectives {
 public:
  explicit BodyCollectives(GroupOf group_of) : group_of_(std::move(group_of)) {}
  // `in`: the input, dense; `out`: where the result goes, numel x ranks elements for a gather, as many as
  // `in` for an exchange. Both stay untouched until the wait. InternalError without a group. PeerError as
  // Group::start.
  void start(const Graph& graph, const Node& start, const void* in, void* out, Stream& stream);
  // What is enqueued on `stream` afterwards sees the result.
  void wait(const Node& wait, Stream& stream);

 private:
  GroupOf group_of_;
  std::map<ValueId, std::shared_ptr<Work>> flights_;  // by handle
};

}  // namespace lockstep
