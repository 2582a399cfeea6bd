// ChunkSource: gives a save the chunks that this rank writes, from the arrays themselves or a snapshot.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "checkpoint/plan/save_plan.h"
#include "core/mesh/array.h"
#include "core/mesh/content.h"

namespace lockstep::checkpoint {

inline constexpr int64_t kBlockBytes = int64_t{4} << 20;  // bytes in memory at a time

// The chunks of a rank, in plan order, and rooms (buffers of kBlockBytes) for blocks that are not contiguous
// in host memory. The rooms are reused by the next save.
class ChunkSource {
 public:
  ChunkSource() = default;
  ChunkSource(ChunkSource&&) = default;
  ChunkSource& operator=(ChunkSource&&) = default;
  virtual ~ChunkSource() = default;
  const std::vector<Holding>& chunks() const { return chunks_; }
  // The bytes of a block of chunk `index` in place, if they are dense and row-major there; null: they need a
  // room.
  const std::byte* in_place(size_t index, const Box& block) const;
  // Copies them into `room`, and waits for the device if they are on one. Called by one thread at a time.
  void copy(size_t index, const Box& block, std::byte* room);
  // The first `count` rooms.
  std::vector<Buffer>& rooms(size_t count);

 protected:
  std::vector<Holding> chunks_;

 private:
  Device* device() const;  // the device whose memory has the chunks, if the host cannot address it
  std::vector<Buffer> rooms_;
  std::unique_ptr<Stream> stream_;
};
// Whether the device that holds a chunk computes its hash; otherwise the host does, as the bytes pass.
inline bool summed_in_place(const Holding& chunk) { return chunk.device && chunk.device->content_sums(); }

// The arrays themselves, in the order of plan.tensors, at the place last written (host or device). They must
// not change while the source is read.
std::unique_ptr<ChunkSource> in_place(const SavePlan& plan, int64_t rank,
                                      const std::vector<const Array*>& arrays);

// The memory of arrays on a device, which the host cannot address.
struct DeviceSide {
  Device* device = nullptr;                                 // null: use the host's copy
  std::function<const std::byte*(const Array&)> data = {};  // of an array, as it is now
};

// A copy of the chunks in memory that is reused by later saves: in device memory, from which blocks are
// copied through staging memory, or in host memory.
class Snapshot : public ChunkSource {
 public:
  explicit Snapshot(DeviceSide side = {}) : side_(std::move(side)) {}
  // Copies plan.by_rank[rank] of the arrays; into host memory with all threads of the caller. UserError when
  // out of memory: the snapshot is then empty and holds no memory.
  void take(const SavePlan& plan, int64_t rank, const std::vector<const Array*>& arrays);
  // Whether take() needs no additional memory.
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
