// A rank is lost in a collective, or in a replayed graph.
#include <unistd.h>

#include <chrono>
#include <thread>

#include "core/base/error.h"
#include "distributed/nccl/nccl_group.h"
#include "tests/conformance/values.h"
#include "tests/gpu/nccl_cases.h"

namespace lockstep::gpu_nccl {

using conformance::expect;

std::string lost_case(const Rank& rank, bool graph, bool exits) {
  constexpr double kDeadline = 5, kSlack = 5;
  constexpr size_t kCount = 1 << 20;
  cuda::CudaDevice& device = *rank.device;
  distributed::World& world = *rank.world;
  expect(world.size() > 1, "a lost peer needs two ranks");
  auto group = distributed::nccl_group(device, *world.group(), "data");
  group->set_deadline(kDeadline);
  auto stream = device.make_stream();
  Buffer data(kCount * 4, device.memory()), out(kCount * 4, device.memory());
  int64_t part = static_cast<int64_t>(kCount) / world.size();
  std::vector<int64_t> parts(world.size(), part);
  auto enqueue = [&] {
    group->start(AllToAll{data.data(), out.data(), parts, parts, DType::f32}, "gradients", *stream)
        ->wait(*stream);
    group->start(AllReduce{out.data(), out.data(), static_cast<int64_t>(kCount), DType::f32}, "norm", *stream)
        ->wait(*stream);
  };
  std::unique_ptr<CapturedWork> step;
  if (graph) step = device.capture(*stream, enqueue);
  auto once = [&] {
    if (step) {
      step->launch(*stream);
      group->note_launch("step 17", *stream);
    } else {
      enqueue();
    }
    Group* one = group.get();
    wait_on_host(*stream->record(), std::span(&one, 1));
  };
  once();
  once();
  if (world.rank() == world.size() - 1) {
    if (exits) _exit(0);
    std::this_thread::sleep_for(std::chrono::duration<double>(kDeadline + 2 * kSlack));
    distributed::World::leave(0);
  }
  auto begin = std::chrono::steady_clock::now();
  std::string said;
  try {
    once();
  } catch (const PeerError& error) { said = error.what(); }
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  expect(!said.empty(), "no PeerError");
  expect(seconds < kDeadline + kSlack, str("the error took ", seconds, " s"));
  expect(said.find("group \"data\"") != std::string::npos, said);
  if (!exits) {  // an exit may be noticed earlier, and then in NCCL's words
    expect(seconds > kDeadline - 0.5, str("the error came after ", seconds, " s: ", said));
    expect(said.find("did not complete within 5 s") != std::string::npos ||
               said.find("after at most 5 s") != std::string::npos,
           said);
    expect(said.find(graph ? "graph \"step 17\"" : "all_to_all \"gradients\"") != std::string::npos, said);
  }
  // The stream ends, and the group says so to everybody who comes later.
  auto end = stream->record();
  auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  bool ended = false;
  try {
    while (!(ended = end->done()) && std::chrono::steady_clock::now() < patience)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } catch (const Error&) { ended = true; }
  expect(ended, "the stream still runs ten seconds after the communicator was aborted");
  try {
    group->start(Barrier{}, "next", *stream);
    expect(false, "a collective starts after the error");
  } catch (const PeerError& error) { expect(said == error.what(), error.what()); }
  return str("after ", seconds, " s: ", said);
}

}  // namespace lockstep::gpu_nccl
