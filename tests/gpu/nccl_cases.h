// What the ranks of gpu_nccl_ranks do together, and how one of them is lost.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/device/cuda/cuda_device.h"
#include "distributed/world.h"

namespace lockstep::gpu_nccl {

struct Rank {
  std::shared_ptr<distributed::World> world;  // host groups
  std::shared_ptr<cuda::CudaDevice> device;
};

// The suite, on the world's group "all" and on "half": a split of it, in reverse order. A case throws on the
// first wrong value. Collective over the world: all ranks run the same cases in the same order.
class Conformance {
 public:
  explicit Conformance(const Rank& rank) : rank_(rank) {}
  struct Case {
    std::string name;
    std::function<void()> run;
  };
  std::vector<Case> cases();
  void forget();  // after a case that failed on any rank: the next one has groups of its own

 private:
  std::shared_ptr<Group> all();
  std::shared_ptr<Group> half();
  Rank rank_;
  std::shared_ptr<Group> all_, half_;
};

// Each throws on the first wrong value. Collective over the world.
void capture_case(
    const Rank& rank);  // all_to_all, all_gather and all_reduce in a graph, replayed, with others in between
void record_case(const Rank& rank);  // lines of the flight record, for collectives and launches
void order_case(
    const Rank& rank);  // on a stream: after what stands before, before what follows, the host not waiting
void mesh_case(const Rank& rank);  // live_mesh with a device

// The last rank is lost: "sleep" keeps its process alive and silent, "exit" ends it. The others see PeerError
// within the deadline: in a collective alone, or in a replayed graph. Returns what they say. Never returns on
// the lost rank.
std::string lost_case(const Rank& rank, bool graph, bool exits);

}  // namespace lockstep::gpu_nccl
