// write_shard: one rank's file of a checkpoint, from its arrays to storage through a buffer of fixed size.
#pragma once

#include <map>

#include "checkpoint/plan/save_plan.h"
#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint {

inline constexpr int64_t kBlockBytes = int64_t{4} << 20;  // what passes through memory at a time

// What rank 0 needs for the manifest.
struct ShardReceipt {
  int64_t bytes = 0;
  int64_t header_bytes = 0;
  uint64_t header_xxh3 = 0;
  std::vector<int64_t> offsets;     // per planned chunk of the rank, from the start of the file
  std::vector<uint64_t> checksums;  // per planned chunk, XXH3-64
};

// Writes plan.by_rank[rank] as a safetensors file, synced and closed. `arrays` are this rank's, in the order
// of plan.tensors. A rank without chunks writes no file (bytes 0). StorageError as the storage gives it.
ShardReceipt write_shard(Storage& storage, const std::string& path, const SavePlan& plan, int64_t rank,
                         const std::vector<const Array*>& arrays,
                         const std::map<std::string, std::string>& metadata);

}  // namespace lockstep::checkpoint
