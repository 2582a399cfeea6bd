// write_shard: header, then chunk after chunk in blocks, checksums and hash made as they pass.
#include "checkpoint/io/write_shard.h"

#include <cerrno>
#include <future>

#include "checkpoint/format/checksum.h"
#include "checkpoint/format/safetensors.h"
#include "core/base/hash.h"

namespace lockstep::checkpoint {

namespace {
constexpr size_t kWorthAThread = 256 << 10;
}  // namespace

ShardReceipt write_shard(Storage& storage, const std::string& path, const SavePlan& plan, int64_t rank,
                         ChunkSource& source, const std::map<std::string, std::string>& metadata,
                         const std::atomic<bool>& given_up, const PassingBlock& passes) {
  const auto& chunks = plan.by_rank[rank];
  ShardReceipt receipt;
  if (chunks.empty()) return receipt;
  receipt.file = last_part(path);
  std::vector<SafeTensor> tensors;
  for (const auto& chunk : chunks) {
    const TensorSpec& spec = plan.tensors[chunk.tensor];
    tensors.push_back({chunk_name(spec.fqn, spec.shape, chunk.box), spec.dtype, chunk.box.size, 0, 0});
  }
  std::string header = make_safetensors_header(tensors, metadata);
  auto file = storage.create(path);
  file->write(header.data(), header.size());
  receipt.header_bytes = static_cast<int64_t>(header.size());
  receipt.header_xxh3 = hash64(header);
  for (size_t i = 0; i < chunks.size(); ++i) {
    LS_CHECK(file->bytes() == tensors[i].offset, path, ": ", tensors[i].name, " at byte ", file->bytes(),
             ", planned ", tensors[i].offset);
    receipt.offsets.push_back(tensors[i].offset);
    const TensorSpec& spec = plan.tensors[chunks[i].tensor];
    Checksum checksum;
    source.each_block(i, [&](const Box& block, const std::byte* data) {
      if (given_up) throw StorageError(str("the save into ", path, " was given up"), path, ECANCELED);
      const auto bytes = static_cast<size_t>(numel(block)) * size_of(spec.dtype);
      // While the bytes are written they are looked at.
      auto written = bytes < kWorthAThread
                         ? std::future<void>()
                         : std::async(std::launch::async, [&] { file->write(data, bytes); });
      passes(spec, block, data);
      checksum.add(data, bytes);
      receipt.hash.add(hash_box(spec.fqn, spec.dtype, spec.shape, block, data));
      written.valid() ? written.get() : file->write(data, bytes);
    });
    receipt.checksums.push_back(checksum.value());
  }
  receipt.bytes = file->bytes();
  file->sync();
  file->close();
  return receipt;
}

}  // namespace lockstep::checkpoint
