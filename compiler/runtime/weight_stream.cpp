// One all_gather per weight, straight to where the body reads it.
#include "compiler/runtime/weight_stream.h"

#include "core/base/error.h"

namespace lockstep {

WeightStream::WeightStream(const Phases& phases, const GatherPlan& plan, const LiveMesh& mesh, Device& device,
                           const PerValue<void*>& at)
    : plan_(plan), at_(at) {
  const Graph& whole = phases.whole;
  const HeldRows held(whole.mesh, mesh.coordinate());
  for (const auto& streamed : phases.streamed) {
    const Node& start = whole.node(streamed.start);
    const std::string& mesh_dim = start.attrs.word("mesh_dim");
    Source source;
    source.rows = start.inputs[streamed.tensor];
    source.dtype = whole[source.rows].dtype;
    source.group = &mesh.group_on(device, mesh_dim);
    for (int64_t r = 0; r < held.size(mesh_dim); ++r)
      source.counts.push_back(held.of(whole[source.rows], held.dim(mesh_dim), r).count);
    sources_.emplace(streamed.input, std::move(source));
  }
}

void WeightStream::start(int bucket, const std::vector<void*>& to, Stream& stream) {
  auto& works = works_[bucket];
  LS_CHECK(works.empty(), "bucket ", bucket, " is under way");
  const auto& segments = plan_.buckets.at(bucket).segments;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Source& source = sources_.at(plan_.segments[segments[i]].input);
    works.push_back(source.group->start(AllGather{at_[source.rows], to[i], source.counts, source.dtype},
                                        str("weights ", bucket), stream));
  }
}

void WeightStream::wait(int bucket, Stream& stream) {
  for (auto& work : works_[bucket]) work->wait(stream);
  works_.erase(bucket);
}

}  // namespace lockstep
