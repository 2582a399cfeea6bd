// Starts and waits of a body.
#include "compiler/runtime/body_collectives.h"

#include "core/base/error.h"
#include "core/types/shape.h"

namespace lockstep {

bool is_body_start(const Node& node) {
  return node.op == ops::model_gather_start || node.op == ops::model_exchange_start;
}
bool is_body_wait(const Node& node) { return node.op == ops::model_wait; }

ValueId result_of_start(const Graph& graph, const Node& start) {
  for (const Node& node : graph.nodes)
    if (is_body_wait(node) && node.inputs[0] == start.outputs[0]) return node.outputs[0];
  throw InternalError(str(start.op, " at ", start.at.text(), " is never waited for"));
}

void BodyCollectives::start(const Graph& graph, const Node& start, const void* in, void* out,
                            Stream& stream) {
  const std::string& dim = start.attrs.word("mesh_dim");
  Group* group = group_of_ ? group_of_(dim) : nullptr;
  LS_CHECK(group, start.op, " at ", start.at.text(), ": there is no group of ", dim);
  const Value& value = graph[start.inputs[0]];
  const int64_t count = numel(value.shape), ranks = group->size();
  const bool gather = start.op == ops::model_gather_start;
  LS_CHECK(gather || count % ranks == 0, count, " elements for ", ranks, " ranks");
  const std::vector<int64_t> each(ranks, gather ? count : count / ranks);
  const std::string label =
      str(dim, gather ? " gather " : " exchange ", start.at.scope.empty() ? start.at.text() : start.at.scope);
  flights_[start.outputs[0]] = gather
                                   ? group->start(AllGather{in, out, each, value.dtype}, label, stream)
                                   : group->start(AllToAll{in, out, each, each, value.dtype}, label, stream);
}

void BodyCollectives::wait(const Node& wait, Stream& stream) {
  auto flight = flights_.find(wait.inputs[0]);
  LS_CHECK(flight != flights_.end(), "nothing is under way for the wait at ", wait.at.text());
  flight->second->wait(stream);
  flights_.erase(flight);
}

}  // namespace lockstep
