// Cases of NCCL's group that pass: the suite, streams, graphs, the flight record, meshes.
#include "tests/gpu/nccl_cases.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>

#include "core/base/error.h"
#include "distributed/mesh/device_mesh.h"
#include "distributed/nccl/nccl_group.h"
#include "distributed/watch/flight_record.h"
#include "tests/conformance/group_conformance.h"
#include "tests/conformance/over_device.h"
#include "tests/conformance/values.h"

namespace lockstep::gpu_nccl {

using namespace distributed;

using conformance::expect;

namespace {
template <class T>
class OnDevice {
 public:
  OnDevice(cuda::CudaDevice& device, size_t count)
      : device_(device), count_(count), data_(count * sizeof(T), device.memory()) {}
  T* data() const { return data_.as<T>(); }
  void put(const std::vector<T>& values) {
    copy_to_device(device_, data(), values.data(), values.size() * sizeof(T));
  }
  std::vector<T> get() const {
    std::vector<T> out(count_);
    copy_to_host(device_, out.data(), data(), count_ * sizeof(T));
    return out;
  }

 private:
  cuda::CudaDevice& device_;
  size_t count_;
  Buffer data_;
};

// As expect, for loops over many elements: the words are made only when they are needed.
template <class... Words>
void expect_element(bool right, const Words&... words) {
  if (!right) expect(false, str(words...));
}

void wait_for(Stream& stream, Group& group) {
  Group* one = &group;
  wait_on_host(*stream.record(), std::span(&one, 1));
}
}  // namespace

std::shared_ptr<Group> Conformance::all() {
  if (!all_) all_ = nccl_group(*rank_.device, *rank_.world->group(), "all", true);
  return all_;
}
std::shared_ptr<Group> Conformance::half() {
  if (!half_) half_ = split_nccl_group(*all(), rank_.world->rank() % 2, -rank_.world->rank(), "half");
  return half_;
}
void Conformance::forget() { half_.reset(), all_.reset(); }

std::vector<Conformance::Case> Conformance::cases() {
  static const bool once = (conformance::leave_out(DType::u16), true);  // NCCL reduces no 16-bit integers
  (void)once;
  std::vector<Case> out;
  out.push_back({"communicator", [this] {
                   const World& world = *rank_.world;
                   expect(all()->size() == world.size() && all()->rank() == world.rank(), "rank in all");
                   if (world.rank() == 0)
                     std::printf("NCCL %s, %s, communicator of %d ranks: %s\n", nccl_version().c_str(),
                                 rank_.device->describe().c_str(), world.size(),
                                 bytes_text(static_cast<double>(communicator_bytes(*all()))).c_str());
                 }});
  out.push_back({"split", [this] {
                   const World& world = *rank_.world;
                   expect(half()->size() == (world.size() + 1 - world.rank() % 2) / 2, "size of half");
                   expect(half()->rank() == half()->size() - 1 - world.rank() / 2, "rank in half");
                 }});
  for (bool part : {false, true})
    for (const auto& one : conformance::group_cases()) {
      if (one.name == "tags" || one.name == "start_returns_at_once")
        continue;  // NCCL has neither tags nor messages that overtake
      out.push_back({str(part ? "half/" : "all/", one.name), [this, part, one] {
                       auto group = part ? half() : all();
                       if (one.name == "send_recv" && group->size() == 1) return;  // nobody to send to
                       one.run(*conformance::over_device(*rank_.device, group));
                     }});
    }
  return out;
}

void order_case(const Rank& rank) {
  // The collective sees a copy that stands before it on the stream, and the copy behind the wait sees the
  // result.
  auto group = nccl_group(*rank.device, *rank.world->group(), "order", true);
  auto stream = rank.device->make_stream();
  const int n = group->size();
  constexpr size_t kCount = 1 << 20;
  OnDevice<float> from(*rank.device, kCount), data(*rank.device, kCount), to(*rank.device, kCount);
  for (int round = 0; round < 5; ++round) {
    std::vector<float> values(kCount);
    for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<float>((i + round + group->rank()) % 97);
    from.put(values);
    to.put(std::vector<float>(kCount, -1));
    rank.device->copy(data.data(), from.data(), kCount * sizeof(float), *stream);
    group->start(AllReduce{data.data(), data.data(), kCount, DType::f32}, "order", *stream)->wait(*stream);
    rank.device->copy(to.data(), data.data(), kCount * sizeof(float), *stream);
    wait_for(*stream, *group);
    auto got = to.get();
    for (size_t i = 0; i < kCount; ++i) {
      float wanted = 0;
      for (int r = 0; r < n; ++r) wanted += static_cast<float>((i + round + r) % 97);
      expect_element(got[i] == wanted, "round ", round, ", element ", i, " is ", got[i], ", expected ",
                     wanted);
    }
  }
}

void capture_case(const Rank& rank) {
  cuda::CudaDevice& device = *rank.device;
  auto group = nccl_group(device, *rank.world->group(), "captured", true);
  const int n = group->size(), me = group->rank();
  auto stream = device.make_stream();
  for (int64_t count : {1, 1023, 300001}) {
    auto total = static_cast<size_t>(count * n);
    OnDevice<float> in(device, total), exchanged(device, total);
    OnDevice<uint16_t> mine(device, static_cast<size_t>(count)), gathered(device, total),
        uneven(device, total + n * n);
    OnDevice<int64_t> words(device, 8);
    std::vector<int64_t> parts(n, count), uneven_counts;
    int64_t before = 0;
    for (int r = 0; r < n; ++r)
      uneven_counts.push_back(count + r - (n - 1)),
          before += r < me ? std::max<int64_t>(0, uneven_counts[r]) : 0;
    for (auto& one : uneven_counts) one = std::max<int64_t>(0, one);
    auto graph = device.capture(*stream, [&] {
      auto exchange =
          group->start(AllToAll{in.data(), exchanged.data(), parts, parts, DType::f32}, "gradients", *stream);
      auto sum = group->start(AllReduce{words.data(), words.data(), 8, DType::i64}, "norm", *stream);
      exchange->wait(*stream);
      sum->wait(*stream);
      auto weights =
          group->start(AllGather{mine.data(), gathered.data(), parts, DType::bf16, true}, "weights",
                       *stream);  // with the next, in one launch
      auto more = group->start(AllGather{mine.data(), uneven.data(), uneven_counts, DType::bf16},
                               "uneven weights", *stream);
      weights->wait(*stream), more->wait(*stream);
      group->start(Barrier{}, "captured barrier", *stream)->wait(*stream);
    });
    expect(graph != nullptr && graph->nodes() > 0, "the device captures");
    std::mt19937_64 random(7 + count);  // the same on all ranks
    for (int round = 0; round < 4; ++round) {
      std::vector<std::vector<float>> ins(n, std::vector<float>(total));
      std::vector<std::vector<uint16_t>> weights(n, std::vector<uint16_t>(static_cast<size_t>(count)));
      std::vector<int64_t> sums(8);
      std::vector<std::vector<int64_t>> addends(n, std::vector<int64_t>(8));
      for (int r = 0; r < n; ++r) {
        for (auto& value : ins[r]) value = static_cast<float>(static_cast<int32_t>(random()));
        for (auto& value : weights[r]) value = static_cast<uint16_t>(random());
        for (int i = 0; i < 8; ++i)
          addends[r][i] = static_cast<int64_t>(random() >> 4), sums[i] += addends[r][i];
      }
      in.put(ins[me]), mine.put(weights[me]), words.put(addends[me]);
      exchanged.put(std::vector<float>(total, -7)), gathered.put(std::vector<uint16_t>(total, 0xA7A7));
      graph->launch(*stream);
      group->note_launch("step", *stream);
      wait_for(*stream, *group);
      auto got = exchanged.get();
      auto got_weights = gathered.get(), got_uneven = uneven.get();
      expect(words.get() == sums, str("captured all_reduce of i64, round ", round));
      size_t at = 0;
      for (int r = 0; r < n; ++r) {
        for (int64_t i = 0; i < count; ++i) {
          expect_element(got[r * count + i] == ins[r][me * count + i], "captured all_to_all, round ", round,
                         ", from ", r, ", element ", i);
          expect_element(got_weights[r * count + i] == weights[r][i], "captured all_gather, round ", round,
                         ", from ", r, ", element ", i);
        }
        for (int64_t i = 0; i < uneven_counts[r]; ++i)
          expect_element(got_uneven[at++] == weights[r][i], "captured uneven all_gather, round ", round,
                         ", from ", r, ", element ", i);
      }
      // The same communicator outside the graph, between its launches.
      OnDevice<int64_t> eager(device, 1);
      eager.put({int64_t{me} + round});
      group->start(AllReduce{eager.data(), eager.data(), 1, DType::i64}, "between", *stream)->wait(*stream);
      wait_for(*stream, *group);
      expect(eager.get()[0] == int64_t{n} * (n - 1) / 2 + int64_t{n} * round,
             "a collective between the launches of a graph");
    }
  }
}

void record_case(const Rank& rank) {
  auto path =
      std::filesystem::temp_directory_path() / str("gpu_nccl_flight_", getpid(), "_", rank.world->rank());
  // One recorder per process: with ranks as threads, rank 0 has it.
  const bool threads = std::getenv("OMPI_COMM_WORLD_RANK") == nullptr && rank.world->size() > 1;
  if (threads) return;
  set_flight_recorder(std::make_shared<FlightRecorder>(path.string(), rank.world->rank()));
  {
    auto group = nccl_group(*rank.device, *rank.world->group(), "recorded", true);
    auto stream = rank.device->make_stream();
    OnDevice<float> data(*rank.device, 100);
    group->start(AllReduce{data.data(), data.data(), 100, DType::f32}, "loss", *stream)->wait(*stream);
    wait_for(*stream, *group);
    auto graph = rank.device->capture(*stream, [&] {
      group->start(AllReduce{data.data(), data.data(), 100, DType::f32}, "inside", *stream)->wait(*stream);
    });
    for (int i = 0; i < 2; ++i) {
      graph->launch(*stream);
      group->note_launch("step", *stream);
    }
    wait_for(*stream, *group);
  }
  set_flight_recorder(nullptr);
  auto log = read_flight_log(path.string());
  int losses = 0, inside = 0, launches = 0;
  for (const auto& entry : log.entries) {
    if (entry.group.name != "recorded") continue;
    expect(entry.state == FlightState::done, str("\"", entry.label, "\" is ", name(entry.state)));
    losses += entry.label == "loss" && entry.verb == "all_reduce" && entry.bytes == 400;
    inside += entry.label == "inside";
    launches += entry.label == "step" && entry.verb == "graph";
  }
  expect(losses == 1 && inside == 0 && launches == 2,
         str(losses, " collectives, ", inside, " captured, ", launches, " launches:\n", text(log)));
  std::filesystem::remove(path);
}

void mesh_case(const Rank& rank) {
  int n = rank.world->size();
  auto whole = live_mesh(rank.world, Mesh{{n}, {"dp_replicate"}}, *rank.device);
  expect(
      whole.device_data && whole.device_data->size() == n && whole.device_data->rank() == whole.data->rank(),
      "the device's data group");
  expect(whole.device_data->capturable(), "the device's data group is capturable");
  if (n % 2 || n < 4) return;
  DeviceMesh mesh(rank.world, Mesh{{n / 2, 2}, {"dp_replicate", "tp"}}, rank.device.get());
  auto stream = rank.device->make_stream();
  for (const char* dim : {"dp_replicate", "tp"}) {
    auto group = mesh.device_group(dim);
    auto host = mesh.group(dim);
    OnDevice<int64_t> data(*rank.device, 1);
    int64_t wanted = rank.world->rank();
    data.put({wanted});
    all_reduce(*host, {&wanted, &wanted, 1, DType::i64});
    group->start(AllReduce{data.data(), data.data(), 1, DType::i64}, dim, *stream)->wait(*stream);
    wait_for(*stream, *group);
    expect(data.get()[0] == wanted, str("all_reduce over ", dim));
  }
}

}  // namespace lockstep::gpu_nccl
