// Formats sites and deadline errors.
#include "distributed/watch/site.h"

#include "core/base/error.h"

namespace lockstep::distributed {

namespace {
std::string detail(const AllReduce& c) {
  return str(name(c.dtype), ", ", c.count, " elements, ", name(c.op));
}
std::string detail(const AllGather& c) {
  return str(name(c.dtype), ", counts ", str(c.counts), c.more ? ", with the next" : "");
}
std::string detail(const ReduceScatter& c) {
  return str(name(c.dtype), ", counts ", str(c.counts), ", ", name(c.op));
}
std::string detail(const AllToAll& c) {
  return str(name(c.dtype), ", sends ", str(c.send_counts), ", receives ", str(c.recv_counts));
}
std::string detail(const Broadcast& c) {
  return str(name(c.dtype), ", ", c.count, " elements, root ", c.root);
}
std::string detail(const Send& c) {
  return str(name(c.dtype), ", ", c.count, " elements, to rank ", c.to, ", tag ", c.tag);
}
std::string detail(const Recv& c) {
  return str(name(c.dtype), ", ", c.count, " elements, from rank ", c.from, ", tag ", c.tag);
}
std::string detail(const Barrier&) { return ""; }
}  // namespace

std::string site_text(const Collective& what, const std::string& label) {
  std::string details = std::visit([](const auto& c) { return detail(c); }, what);
  return str(name(what), " \"", label, "\"", details.empty() ? "" : str(" (", details, ")"));
}

std::string deadline_text(const std::string& group, int rank, int size, const Collective& what,
                          const std::string& label, double seconds, const std::string& more) {
  return str("group \"", group, "\": ", site_text(what, label), " did not complete within ",
             number_text(seconds), " s on rank ", rank, " of ", size, "; ", more,
             "; if the step is this slow, raise LOCKSTEP_DEADLINE or watch.deadline");
}

}  // namespace lockstep::distributed
