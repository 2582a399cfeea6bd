// ChunkSource: where a save reads the chunks that this rank writes: the arrays as they are, or a snapshot.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "checkpoint/plan/save_plan.h"
#include "core/mesh/array.h"
#include "core/mesh/content.h"

namespace lockstep::checkpoint {

inline constexpr int64_t kBlockBytes = int64_t{4} << 20;  // what passes through memory at a time

// The chunks of a rank, in the order of the plan, and rooms of kBlockBytes for blocks that are not one run in
// host memory. The rooms are kept from one save to the next.
class ChunkSource {
 public:
  ChunkSource() = default;
  ChunkSource(ChunkSource&&) = default;
  ChunkSource& operator=(ChunkSource&&) = default;
  virtual ~ChunkSource() = default;
  const std::vector<Holding>& chunks() const { return chunks_; }
  // The bytes of a block of chunk `index`, dense and row-major, where they lie; null: they want a room.
  const std::byte* in_place(size_t index, const Box& block) const;
  // Copies them into `room`, and waits for the device where they are on one. By one thread at a time.
  void copy(size_t index, const Box& block, std::byte* room);
  // The first `count` rooms.
  std::vector<Buffer>& rooms(size_t count);

 protected:
  std::vector<Holding> chunks_;

 private:
  Device* device() const;  // in whose memory chunks lie, where the host does not address it
  std::vector<Buffer> rooms_;
  std::unique_ptr<Stream> stream_;
};
// Whether the device that holds a chunk sums it itself; else that is done on the host as its bytes pass.
inline bool summed_in_place(const Holding& chunk) { return chunk.device && chunk.device->content_sums(); }

// The arrays themselves, in the order of plan.tensors, where they were last written. They stay as they are
// while the source is read.
std::unique_ptr<ChunkSource> in_place(const SavePlan& plan, int64_t rank,
                                      const std::vector<const Array*>& arrays);

// Where the arrays lie that a device computes with, and that the host does not address.
struct DeviceSide {
  Device* device = nullptr;                                 // null: the host's copy is the one
  std::function<const std::byte*(const Array&)> data = {};  // of an array, as it is now
};

// A copy of the chunks in memory that is kept from one save to the next: in the device's, from where blocks
// come through staging memory, or in the host's.
class Snapshot : public ChunkSource {
 public:
  explicit Snapshot(DeviceSide side = {}) : side_(std::move(side)) {}
  // Copies plan.by_rank[rank] of the arrays; in host memory on all threads of the caller. UserError when
  // memory is out: the snapshot is then empty and holds none.
  void take(const SavePlan& plan, int64_t rank, const std::vector<const Array*>& arrays);
  // Whether take() needs no memory beside what is held.
  bool holds(const SavePlan& plan, int64_t rank) const { return held_.bytes() >= bytes_of(plan, rank); }
  static size_t bytes_of(const SavePlan& plan, int64_t rank);
  bool on_device() const { return side_.device != nullptr; }

 private:
  void copy_on_device(const std::vector<Holding>& from, const std::vector<std::byte*>& to);
  void copy_on_host(const std::vector<Holding>& from, const std::vector<std::byte*>& to);

  DeviceSide side_;
  Buffer held_;
};

}  // namespace lockstep::checkpoint
