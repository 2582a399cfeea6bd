// read_arrays: reads several chunks at a time, each to its destination in host memory or on a device.
#include <omp.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "checkpoint/io/chunk_source.h"
#include "checkpoint/io/read_chunks.h"
#include "checkpoint/io/side_by_side.h"
#include "checkpoint/plan/blocks.h"

namespace lockstep::checkpoint {

namespace {
// Chunks read at a time: an object store serves many requests at once, and each has a latency.
int reading_threads(Storage& storage, const std::string& folder) {
  return storage.commit(folder) == Commit::rename ? std::clamp(omp_get_max_threads(), 4, 8) : 16;
}

// The open files, each opened once for all threads.
class SharedShards {
 public:
  SharedShards(Storage& storage, std::string folder, const Manifest& manifest)
      : storage_(storage), folder_(std::move(folder)), manifest_(manifest) {}
  std::shared_ptr<const InFile> open(const std::string& name) {
    std::lock_guard<std::mutex> hold(guard_);
    auto& slot = open_[name];
    if (auto there = slot.lock()) return there;
    const FileRecord* record = manifest_.find_file(name);
    LS_CHECK(record, name);
    std::shared_ptr<const InFile> file = open_shard(storage_, folder_, *record, manifest_);
    last_ = file;  // a file stays open from one of its chunks to the next
    slot = file;
    return file;
  }

 private:
  Storage& storage_;
  const std::string folder_;
  const Manifest& manifest_;
  std::mutex guard_;
  std::map<std::string, std::weak_ptr<const InFile>> open_;
  std::shared_ptr<const InFile> last_;
};

// The memory of an array to fill.
struct Home {
  Array* array = nullptr;
  Device* device = nullptr;  // null: the host's copy
  std::byte* data = nullptr;
};
Home home_of(Array& array) {
  LS_CHECK(array.data.bytes() >= array.local_bytes(), array.fqn, " has room for ", array.data.bytes(), " of ",
           array.local_bytes(), " bytes");
  if (Device* const device = array.device()) {
    std::byte* const data = array.on(*device);
    array.device_wrote(*device);
    return {&array, device, data};
  }
  array.host_wrote();
  return {&array, nullptr, array.data.data()};
}

// A thread's two staging buffers (rooms) to a device: one is filled while the other is copied.
class Passage {
 public:
  ~Passage() {  // even after a failed load, copies out of the rooms may be in progress
    try {
      end();
    } catch (...) {}  // the first failure is the one reported
  }
  std::byte* room(Device& device) {
    if (!stream_) {
      device.enter();
      stream_ = device.make_stream();
      for (Buffer& room : rooms_) room = Buffer(kBlockBytes, device.staging());
    }
    at_ = 1 - at_;
    if (copied_[at_]) copied_[at_]->synchronize();
    return rooms_[at_].data();
  }
  Stream& stream() { return *stream_; }
  void sent() { copied_[at_] = stream_->record(); }
  void end() {
    if (stream_) stream_->synchronize();
  }

 private:
  Buffer rooms_[2];
  std::shared_ptr<Event> copied_[2];
  int at_ = 0;
  std::unique_ptr<Stream> stream_;
};

class Reader {
 public:
  Reader(Storage& storage, const std::string& folder, const Manifest& manifest,
         const std::vector<Array*>& arrays)
      : folder_(folder),
        threads_(reading_threads(storage, folder)),
        shards_(storage, folder, manifest),
        reads_(plan_load(manifest, arrays)),
        buffers_(static_cast<size_t>(threads_)),
        passages_(static_cast<size_t>(threads_)) {
    for (Array* array : arrays) homes_.push_back(home_of(*array));
  }
  void run() {
    side_by_side(reads_.size(), threads_, [&](size_t i, int thread) {
      read(reads_[i], buffers_[static_cast<size_t>(thread)], passages_[static_cast<size_t>(thread)]);
    });
    for (Passage& passage : passages_) passage.end();
  }

 private:
  void read(const PlannedRead& read, std::vector<std::byte>& buffer, Passage& passage) {
    const std::shared_ptr<const InFile> file = shards_.open(read.chunk->file);
    Device* const device = homes_[read.targets.at(0).array].device;  // the targets are of one tensor
    if (device) device->enter();
    ChunkSink sink;
    sink.room = [&](const Box& block) { return device ? passage.room(*device) : in_place(read, block); };
    sink.take = [&](const Box& block, const std::byte* data) {
      for (const ChunkTarget& target : read.targets) put(target, block, data, device ? &passage : nullptr);
      if (device) passage.sent();
    };
    stream_chunk(*file, folder_, *read.tensor, *read.chunk, sink, buffer);
  }

  // The address when the block is contiguous in the host's copy of its only target; else null.
  std::byte* in_place(const PlannedRead& read, const Box& block) const {
    if (read.targets.size() != 1) return nullptr;
    const Home& home = homes_[read.targets[0].array];
    const Piece& piece = home.array->pieces[read.targets[0].piece];
    if (intersect(block, piece.global) != block) return nullptr;
    const int64_t at = contiguous_at(block, piece.frame(home.array->local_shape));
    return at < 0 ? nullptr : home.data + at * static_cast<int64_t>(size_of(home.array->dtype));
  }

  void put(const ChunkTarget& target, const Box& block, const std::byte* data, Passage* passage) const {
    const Home& home = homes_[target.array];
    const Piece& piece = home.array->pieces[target.piece];
    const auto element = static_cast<int64_t>(size_of(home.array->dtype));
    const auto part = intersect(block, piece.global);
    if (!part) return;
    for_each_run(*part, block, piece.frame(home.array->local_shape),
                 [&](int64_t from, int64_t to, int64_t count) {
                   std::byte* const into = home.data + to * element;
                   const std::byte* const bytes = data + from * element;
                   const auto size = static_cast<size_t>(count * element);
                   if (passage)
                     home.device->copy(into, bytes, size, passage->stream());
                   else if (into != bytes)  // else it was read there
                     std::memcpy(into, bytes, size);
                 });
  }

  const std::string folder_;
  const int threads_;
  SharedShards shards_;
  const std::vector<PlannedRead> reads_;
  std::vector<Home> homes_;
  std::vector<std::vector<std::byte>> buffers_;  // of each thread
  std::vector<Passage> passages_;
};
}  // namespace

void read_arrays(Storage& storage, const std::string& folder, const Manifest& manifest,
                 const std::vector<Array*>& arrays) {
  Reader(storage, folder, manifest, arrays).run();
}

}  // namespace lockstep::checkpoint
