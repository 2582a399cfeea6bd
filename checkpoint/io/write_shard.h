// write_shard: one rank's file of a checkpoint, block by block, with checksums made on the way.
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
  StateHash hash;                   // of the elements that were summed as they passed
};

// A block of a chunk that no device sums (summed_in_place), on its way; from several threads at a time.
using PassingBlock = std::function<void(const Holding& of, const Box& block, const std::byte* data)>;
// Writes the chunks of a rank, those of `source`, as a safetensors file, synced and closed: blocks pass
// through rooms of the source where they do not lie as they are written, checksums are made by the caller,
// and up to `threads` others write, each block at its place. A rank without chunks writes no file (bytes 0).
// StorageError as the storage gives it, and between two blocks once `given_up` is set.
ShardReceipt write_shard(Storage& storage, const std::string& path, ChunkSource& source,
                         const std::map<std::string, std::string>& metadata, int threads,
                         const std::atomic<bool>& given_up, const PassingBlock& passes);

}  // namespace lockstep::checkpoint
