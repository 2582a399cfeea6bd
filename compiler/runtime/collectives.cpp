// Maps a program's verbs to those of a Group.
#include "compiler/runtime/collectives.h"

#include "core/base/error.h"
#include "core/base/log.h"

namespace lockstep::compiler {

Group& Collectives::group(const std::string& along) const {
  if (along != "inside_hosts" && along != "across_hosts") return mesh_.group_on(device_, along);
  Group* group = along == "inside_hosts" ? mesh_.inside_on(device_) : mesh_.across_on(device_);
  LS_CHECK(group, "the mesh ", text(mesh_.words), " has no group ", along);
  return *group;
}

namespace {
Collective collective_of(const StartCollective& what, const void* from, void* to) {
  switch (what.verb) {
    case StartCollective::Verb::all_gather:
      return AllGather{from, to, what.receive, what.dtype, what.more};
    case StartCollective::Verb::all_to_all:
      return AllToAll{from, to, what.send, what.receive, what.dtype};
    case StartCollective::Verb::all_reduce:
      return AllReduce{from, to, what.send.at(0), what.dtype, ReduceOp::sum};
    case StartCollective::Verb::reduce_scatter:
      return ReduceScatter{from, to, what.send, what.dtype, ReduceOp::sum};
    case StartCollective::Verb::send:
      return Send{from, what.send.at(0), what.dtype, what.peer};
    case StartCollective::Verb::recv:
      return Recv{to, what.receive.at(0), what.dtype, what.peer};
  }
  throw InternalError("a verb that no group has");
}
}  // namespace

BoundCollective Collectives::bind(const StartCollective& what, const void* from, void* to) const {
  Group& along = group(what.along);
  return {&along, collective_of(what, from, to), what.label, what.along,
          sent_bytes(what, along.size(), along.rank())};
}

std::shared_ptr<Work> BoundCollective::start(Stream& stream) const {
  if (logs::enabled("collectives"))
    logs::topic("collectives", str(label, " along ", along, " started: ", bytes, " bytes"));
  return group->start(what, label, stream);
}

}  // namespace lockstep::compiler
