// write_shard: one rank's file of a checkpoint, block by block, with checksums and hash made on the way.
#pragma once

#include <atomic>
#include <map>

#include "checkpoint/io/chunk_source.h"
#include "checkpoint/plan/save_plan.h"
#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint {

// What the manifest needs of a rank.
struct ShardReceipt {
  std::string file;  // its name; "" where the rank wrote none
  int64_t bytes = 0;
  int64_t header_bytes = 0;
  uint64_t header_xxh3 = 0;
  std::vector<int64_t> offsets;     // per planned chunk of the rank, from the start of the file
  std::vector<uint64_t> checksums;  // per planned chunk, XXH3-64
  StateHash hash;                   // of the elements that were written
};

// Writes plan.by_rank[rank] as a safetensors file, synced and closed; `source` gives the chunks of the rank.
// A rank without chunks writes no file (bytes 0). `passes` is shown each block. StorageError as the storage
// gives it, and between two blocks once `given_up` is set.
using PassingBlock = std::function<void(const TensorSpec& of, const Box& block, const std::byte* data)>;
ShardReceipt write_shard(Storage& storage, const std::string& path, const SavePlan& plan, int64_t rank,
                         ChunkSource& source, const std::map<std::string, std::string>& metadata,
                         const std::atomic<bool>& given_up, const PassingBlock& passes);

}  // namespace lockstep::checkpoint
