// Reading chunks: reads each chunk once, in blocks, and verifies its checksum; contiguous blocks go straight
// into place.
#pragma once

#include <functional>
#include <memory>

#include "checkpoint/plan/load_plan.h"
#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint {

// Opens a file of the checkpoint in `folder` and compares its size and header with the record. DamagedError,
// worded apart, when it is missing, truncated, too long or its header changed. VanishedError when the whole
// folder is gone.
std::unique_ptr<InFile> open_shard(Storage& storage, const std::string& folder, const FileRecord& record,
                                   const Manifest& manifest);

// Destination of a chunk's blocks. Both functions get the block in global coordinates.
struct ChunkSink {
  // memory to read it into; if unset or null, a buffer is used
  std::function<std::byte*(const Box& block)> room;
  // Called with the bytes of each block that was read; may be empty.
  std::function<void(const Box& block, const std::byte* data)> take;
};
// Streams one chunk in blocks of at most kBlockBytes and compares its checksum at the end. DamagedError
// naming file, tensor and bytes.
void stream_chunk(const InFile& file, const std::string& folder, const TensorRecord& tensor,
                  const Chunk& chunk, const ChunkSink& sink, std::vector<std::byte>& buffer);

// Fills the pieces of `arrays` (allocated; of the types in the manifest) in place, several chunks at a time,
// and verifies their checksums. A block that is contiguous in the host's copy is read straight into it, else
// through a buffer of at most kBlockBytes. An array with a copy on a device is filled there, through two
// staging buffers a thread. On DamagedError their contents are unspecified.
void read_arrays(Storage& storage, const std::string& folder, const Manifest& manifest,
                 const std::vector<Array*>& arrays);

// Checks part `part` of `parts` of a checkpoint's chunks (all, for 0 of 1) without arrays: files, headers,
// checksums. Returns every problem found; empty when whole. Adds the content hash of the elements it read to
// `hash` when given.
std::vector<std::string> verify_chunks(Storage& storage, const std::string& folder, const Manifest& manifest,
                                       int64_t part, int64_t parts, StateHash* hash = nullptr);

// The content hash of a block's elements (row-major, dense), which adds up to the state hash.
StateHash hash_block(const TensorRecord& tensor, const Box& block, const std::byte* data);

}  // namespace lockstep::checkpoint
