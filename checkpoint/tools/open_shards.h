// A step folder's data files, opened when they are first read, and any box of a tensor from them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/format/checksum.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint {

class OpenShards {
 public:
  // `manifest` and `storage` outlive this object.
  OpenShards(std::string folder, const Manifest& manifest, Storage& storage);
  const std::string& folder() const { return folder_; }
  const InFile& file(const std::string& name);  // DamagedError and VanishedError as open_shard
  // The elements of `box` of a tensor, row-major and dense, from all chunks that hold them. Checksums cover
  // whole chunks and are not verified.
  void read(const TensorRecord& tensor, const Box& box, std::byte* out);

 private:
  std::string folder_;
  const Manifest& manifest_;
  Storage& storage_;
  std::map<std::string, std::unique_ptr<InFile>> open_;
  std::vector<std::byte> buffer_;
};

// Reads a tensor front to back and verifies the checksums of its chunks, for any split into chunks.
class TensorStream {
 public:
  TensorStream(OpenShards& shards, const TensorRecord& tensor);
  // Reads the next block of for_each_block over the whole tensor. In this order each chunk's bytes arrive
  // front to back, as its checksum needs.
  void read(const Box& block, std::byte* out);
  void finish();  // DamagedError naming a chunk whose bytes are not those that were written

 private:
  OpenShards& shards_;
  const TensorRecord& tensor_;
  std::vector<std::unique_ptr<Checksum>> sums_;  // of the chunks
  std::vector<std::byte> buffer_;
};

}  // namespace lockstep::checkpoint
