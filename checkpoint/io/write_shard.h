// write_shard: writes one rank's file of a checkpoint block by block and computes checksums on the way.
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
  StateHash hash;                   // of the elements hashed on the host
};

// Called for each block of a chunk that no device hashes (summed_in_place), from several threads at a time.
using PassingBlock = std::function<void(const Holding& of, const Box& block, const std::byte* data)>;
// Writes the chunks of `source` as a safetensors file, synced and closed. Blocks whose memory differs from
// the file's order pass through rooms of the source. The calling thread computes checksums; up to `threads`
// others write, each block at its offset. A rank without chunks writes no file (bytes 0). StorageError as the
// storage gives it, and between two blocks once `given_up` is set.
ShardReceipt write_shard(Storage& storage, const std::string& path, ChunkSource& source,
                         const std::map<std::string, std::string>& metadata, int threads,
                         const std::atomic<bool>& given_up, const PassingBlock& passes);

}  // namespace lockstep::checkpoint
