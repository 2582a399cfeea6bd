// MPI ranks in one scene, named by the argument: mesh, finish, and the faults. Run by MPI's launcher; prints
// "scene NAME: ok" when all is as it should be. Fault scenes end by World::leave, as a worker does after a
// PeerError.
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <thread>

#include "core/base/error.h"
#include "distributed/mesh/device_mesh.h"
#include "distributed/open_world.h"
#include "distributed/watch/flight_record.h"

using namespace lockstep;
using namespace lockstep::distributed;

namespace {
void expect(bool ok, const std::string& what) {
  if (!ok) throw std::runtime_error(what);
}
template <class Kind>
void expect_error(const std::function<void()>& fn, const std::vector<std::string>& words) {
  try {
    fn();
  } catch (const Kind& error) {
    std::string text = error.what();
    for (const auto& word : words)
      expect(text.find(word) != std::string::npos, str("\"", word, "\" is missing in: ", text));
    return;
  }
  expect(false, "no error");
}
void sleep_s(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

using Scene = void (*)(std::shared_ptr<World>);

void mesh_scene(std::shared_ptr<World> world) {
  int n = world->size();
  std::vector<Mesh> meshes{{{n}, {"dp_replicate"}}, {{n, 1}, {"dp_shard", "tp"}}};
  if (n % 2 == 0)
    meshes.push_back({{n / 2, 2}, {"dp_shard", "tp"}}),
        meshes.push_back({{2, n / 2, 1}, {"dp_replicate", "dp_shard", "tp"}});
  for (const Mesh& words : meshes) {
    DeviceMesh device_mesh(world, words);
    const LiveMesh& mesh = device_mesh.live();
    for (int d = 0; d < words.ndim(); ++d) {
      std::vector<int64_t> ranks(mesh.groups[d]->size());
      int64_t mine = mesh.rank;
      all_gather(*mesh.groups[d], {&mine, ranks.data(), std::vector<int64_t>(ranks.size(), 1), DType::i64});
      expect(ranks == words.ranks_along(d, mesh.rank), str("ranks along ", d, " of ", text(words)));
    }
    expect(mesh.data->size() == words.data_size() && mesh.data->rank() == words.data_rank(mesh.rank),
           "data group");
    auto dims = words.dim_names;
    expect(n == 1 || device_mesh.flatten(dims) == mesh.world, "all dims together are the world");
  }
  Mesh odd =
      world->rank() == n - 1 && n > 1 ? Mesh{{1, n}, {"dp_shard", "tp"}} : Mesh{{n, 1}, {"dp_shard", "tp"}};
  if (n > 1)
    expect_error<UserError>(
        [&] { live_mesh(world, odd); },
        {"the mesh differs between ranks", "rank 0 has [dp_shard=", str("rank ", n - 1, " has [dp_shard=1")});
}

// Rank n-1 is alive and never starts.
void deadline_scene(std::shared_ptr<World> world) {
  auto group = world->group();
  barrier(*group);
  if (world->rank() == world->size() - 1) return sleep_s(4);
  group->set_deadline(0.5);
  auto begin = std::chrono::steady_clock::now();
  std::vector<float> data(1000, 1);
  expect_error<PeerError>(
      [&] { all_reduce(*group, {data.data(), data.data(), 1000, DType::f32}, "loss"); },
      {"group \"world\"", "all_reduce \"loss\" (f32, 1000 elements, sum)", "did not complete within 0.5 s",
       str("on rank ", world->rank(), " of ", world->size())});
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  expect(seconds >= 0.5 && seconds < 3, str("the deadline took ", seconds, " s"));
  expect_error<PeerError>([&] { barrier(*group, "next"); },
                          {"barrier \"next\"", "cannot start", "did not complete within 0.5 s"});
  expect_error<PeerError>([&] { world->finish(); }, {"cannot finish after an error"});
}

// One pair of an all_to_all disagrees about its count.
void short_message_scene(std::shared_ptr<World> world) {
  auto group = world->group();
  int n = world->size();
  std::vector<int64_t> send_counts(n, 4), recv_counts(n, 4);
  if (world->rank() == 0) send_counts[1] = 3;
  std::vector<float> in(4 * n), out(4 * n);
  auto run = [&] {
    all_to_all(*group, {in.data(), out.data(), send_counts, recv_counts, DType::f32}, "exchange");
  };
  if (world->rank() == 1)
    expect_error<PeerError>(run, {"all_to_all \"exchange\"", "expected 4 elements from rank 0 and got 3"});
  else
    run(), sleep_s(1);
}

// A message that is longer than its receiver expects is MPI's own error, in our words.
void long_message_scene(std::shared_ptr<World> world) {
  auto group = world->group();
  std::vector<float> data(64);
  if (world->rank() == 0) {
    auto stream = inline_stream();
    auto work = group->start(Send{data.data(), 8, DType::f32, 1}, "token", *stream);
    sleep_s(2);
    (void)work->done();
  } else if (world->rank() == 1) {
    expect_error<PeerError>([&] { recv(*group, {data.data(), 4, DType::f32, 0}, "token"); },
                            {"recv \"token\"", "failed on rank 1", "MPI_ERR_TRUNCATE"});
  } else {
    sleep_s(2);
  }
}

// Run with LOCKSTEP_VERIFY=1: another label, another size and another order are told at once, where they
// would hang, or mix bytes.
void order_scene(std::shared_ptr<World> world) {
  auto group = world->group();
  const int n = world->size(), rank = world->rank();
  std::vector<float> data(8);
  // Several in flight at once, some of them large, in two groups.
  auto half = world->split(rank % 2, rank, "half");
  auto stream = inline_stream();
  std::vector<std::vector<float>> many(20, std::vector<float>(20000, 1));
  std::vector<std::shared_ptr<Work>> works;
  for (size_t i = 0; i < many.size(); ++i) {
    Group& on = i % 3 == 2 ? *half : *group;
    works.push_back(on.start(
        AllReduce{many[i].data(), many[i].data(), static_cast<int64_t>(many[i].size() / (i + 1)), DType::f32},
        str("sum ", i), *stream));
  }
  for (auto& work : works) work->wait(*stream);
  for (size_t i = 0; i < many.size(); ++i)
    expect(many[i][0] == static_cast<float>(i % 3 == 2 ? half->size() : n), str("sum ", i));
  auto begin = std::chrono::steady_clock::now();
  const bool odd = rank == n - 1;
  expect_error<PeerError>(
      [&] {
        odd ? all_reduce(*group, {data.data(), data.data(), 4, DType::f32}, "norm")
            : all_gather(*group, {data.data(), data.data(), std::vector<int64_t>(n, 1), DType::f32},
                         "weights");
        sleep_s(1.5);
        barrier(*group, "next");  // between two ranks that did not differ
      },
      odd || rank == 0 ? std::vector<std::string>{"group \"world\": collective ", " differs: rank ",
                                                  " started all_reduce \"norm\" (f32, 4 elements, sum)",
                                                  " started all_gather \"weights\" (f32, counts [1,",
                                                  "all ranks must start the same collectives"}
                       : std::vector<std::string>{"group \"world\""});
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (odd || rank == 0) expect(seconds < 1, str("the difference was told after ", seconds, " s"));
  sleep_s(2);
}

void dropped_scene(std::shared_ptr<World> world) {
  auto group = world->group();
  float value = 1;
  if (world->rank() != 0) return sleep_s(2);
  auto stream = inline_stream();
  group->start(AllReduce{&value, &value, 1, DType::f32}, "forgotten", *stream).reset();
  expect_error<PeerError>([&] { barrier(*group); },
                          {"cannot start", "all_reduce \"forgotten\"", "was dropped on rank 0"});
}

void record_scene(std::shared_ptr<World> world) {
  auto path = std::filesystem::temp_directory_path() / str("lockstep-flight-", getpid());
  set_flight_recorder(std::make_shared<FlightRecorder>(path.string(), world->rank()));
  auto group = world->group();
  int64_t value = 1;
  for (int i = 0; i < 3; ++i) all_reduce(*group, {&value, &value, 1, DType::i64}, str("sum ", i));
  set_flight_recorder(nullptr);
  FlightLog log = read_flight_log(path.string());
  std::filesystem::remove(path);
  expect(log.entries.size() == 3, str(log.entries.size(), " entries"));
  for (int i = 0; i < 3; ++i)
    expect(log.entries[i].state == FlightState::done && log.entries[i].label == str("sum ", i) &&
               log.entries[i].group_seq == i && log.entries[i].group.rank == world->rank() &&
               log.entries[i].end_ns >= log.entries[i].start_ns,
           text(log));
}

void unfinished_scene(std::shared_ptr<World> world) {
  auto group = world->group();
  barrier(*group);
  expect_error<UserError>([&] { agree(*group, world->rank() == 0 ? "no data at data.paths" : ""); },
                          {"no data at data.paths"});
}

// A rank that waits uses next to no processor time: there may be more ranks than cores.
void idle_scene(std::shared_ptr<World> world) {
  auto group = world->group();
  barrier(*group);
  if (world->rank() == world->size() - 1) sleep_s(1);
  std::clock_t begin = std::clock();
  auto wall = std::chrono::steady_clock::now();
  barrier(*group, "late rank");
  double cpu = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count();
  if (waited > 0.5)
    expect(cpu < 0.3 * waited, str("waiting ", waited, " s took ", cpu, " s of processor time"));
}
}  // namespace

int main(int argc, char** argv) {
  std::string name = argc > 1 ? argv[1] : "";
  const std::map<std::string, std::pair<Scene, bool>> scenes{// true: the world ends well
                                                             {"mesh", {mesh_scene, true}},
                                                             {"record", {record_scene, true}},
                                                             {"idle", {idle_scene, true}},
                                                             {"deadline", {deadline_scene, false}},
                                                             {"short_message", {short_message_scene, false}},
                                                             {"long_message", {long_message_scene, false}},
                                                             {"dropped", {dropped_scene, false}},
                                                             {"order", {order_scene, false}},
                                                             {"unfinished", {unfinished_scene, false}}};
  try {
    auto world = open_world();
    int rank = world->rank(), initialized = 0;
    MPI_Initialized(&initialized);
    if (name == "alone") {
      expect(!launched_under_mpi() && !initialized && world->size() == 1 && rank == 0,
             "a program started alone does not start MPI");
      LiveMesh mesh = live_mesh(world, Mesh{{1, 1}, {"dp_shard", "tp"}});
      expect(mesh.data->size() == 1 && mesh.group("tp").size() == 1, "the mesh of one rank");
      world->finish();
      std::printf("scene alone: ok\n");
      return 0;
    }
    expect(launched_under_mpi() && initialized, "a program started by MPI's launcher joins MPI");
    auto [scene, ends_well] = scenes.at(name);
    scene(world);
    if (ends_well) world->finish();
    if (rank == 0 || name.ends_with("message")) std::printf("scene %s: ok on rank %d\n", name.c_str(), rank);
    if (name == "unfinished")
      return kExitUser;  // every rank has the same UserError: an ordinary return, nobody is waited for
    if (!ends_well) World::leave(kExitPeer);
  } catch (const std::exception& error) {
    std::printf("scene %s FAILED: %s\n", name.c_str(), error.what());
    World::leave(1);
  }
}
