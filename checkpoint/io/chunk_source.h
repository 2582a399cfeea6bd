// ChunkSource: where a save reads the chunks that this rank writes: the arrays as they are, or a snapshot.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "checkpoint/plan/save_plan.h"
#include "core/mesh/array.h"

namespace lockstep::checkpoint {

inline constexpr int64_t kBlockBytes = int64_t{4} << 20;  // what passes through memory at a time

class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  using Visit = std::function<void(const Box& block, const std::byte* data)>;
  // Visits chunk `index` of the rank front to back, in blocks of at most kBlockBytes; `data` is dense and
  // stays until `visit` returns. A chunk without elements is not visited.
  virtual void each_block(size_t index, const Visit& visit) = 0;
};

// The arrays themselves, in the order of plan.tensors, through a buffer of one block where a block is not one
// run. They and the plan outlive it and stay as they are.
std::unique_ptr<ChunkSource> in_place(const SavePlan& plan, int64_t rank,
                                      const std::vector<const Array*>& arrays);

// Where the arrays lie that a device computes with, and that the host does not address.
struct DeviceSide {
  Device* device = nullptr;                                 // null: the host's copy is the one
  std::function<const std::byte*(const Array&)> data = {};  // of an array, as it is now
};

// A copy of the chunks in memory that is kept from one save to the next: in the device's, from where it comes
// through two blocks of staging memory, or in the host's.
class Snapshot : public ChunkSource {
 public:
  explicit Snapshot(DeviceSide side = {}) : side_(std::move(side)) {}
  // Copies plan.by_rank[rank] of the arrays; in host memory on all threads of the caller. UserError when
  // memory is out: the snapshot is then empty and holds none. The plan outlives what is read.
  void take(const SavePlan& plan, int64_t rank, const std::vector<const Array*>& arrays);
  // Whether take() needs no memory beside what is held.
  bool holds(const SavePlan& plan, int64_t rank) const { return held_.bytes() >= bytes_of(plan, rank); }
  static size_t bytes_of(const SavePlan& plan, int64_t rank);
  bool on_device() const { return side_.device != nullptr; }
  void each_block(size_t index, const Visit& visit) override;

 private:
  void copy_on_device(const std::vector<const Array*>& arrays);
  void copy_on_host(const std::vector<const Array*>& arrays);
  void each_staged_block(size_t index, const Visit& visit);

  DeviceSide side_;
  Buffer staged_[2];
  const SavePlan* plan_ = nullptr;
  int64_t rank_ = 0;
  Buffer held_;
  std::vector<size_t> at_;  // per chunk, where it begins in held_
};

}  // namespace lockstep::checkpoint
