// write_shard: writes the header, then each chunk in blocks, which several threads hash and write.
#include "checkpoint/io/write_shard.h"

#include <cerrno>
#include <mutex>

#include "checkpoint/format/checksum.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/io/block_writers.h"
#include "checkpoint/plan/blocks.h"
#include "core/base/hash.h"

namespace lockstep::checkpoint {

namespace {
// One chunk, front to back: the checksum needs the bytes in order, the writes do not.
uint64_t write_chunk(ChunkSource& source, size_t index, int64_t offset, BlockWriters& writers,
                     const std::function<void(const Box& block, const std::byte* data)>& look,
                     const std::function<void()>& alive) {
  const Holding& chunk = source.chunks()[index];
  const auto element = static_cast<int64_t>(size_of(chunk.dtype));
  Checksum checksum;
  for_each_block(chunk.box, kBlockBytes / element, [&](const Box& block, int64_t at) {
    alive();
    const std::byte* data = source.in_place(index, block);
    if (!data) {
      std::byte* const room = writers.room();
      source.copy(index, block, room);
      data = room;
    }
    const auto bytes = static_cast<size_t>(numel(block) * element);
    checksum.add(data, bytes);
    auto work = look ? std::function<void()>([look, block, data] { look(block, data); }) : nullptr;
    writers.put(offset + at * element, data, bytes, std::move(work));
  });
  return checksum.value();
}
}  // namespace

ShardReceipt write_shard(Storage& storage, const std::string& path, ChunkSource& source,
                         const std::map<std::string, std::string>& metadata, int threads,
                         const std::atomic<bool>& given_up, const PassingBlock& passes) {
  const std::vector<Holding>& chunks = source.chunks();
  ShardReceipt receipt;
  if (chunks.empty()) return receipt;
  receipt.file = last_part(path);
  std::vector<SafeTensor> tensors;
  for (const Holding& chunk : chunks)
    tensors.push_back({chunk_name(chunk.fqn, chunk.shape, chunk.box), chunk.dtype, chunk.box.size, 0, 0});
  const std::string header = make_safetensors_header(tensors, metadata);
  auto file = storage.create(path);
  int64_t bytes = static_cast<int64_t>(header.size());
  for (const Holding& chunk : chunks) bytes += chunk.bytes();
  file->expect(bytes);
  file->write(header.data(), header.size());
  receipt.header_bytes = static_cast<int64_t>(header.size());
  receipt.header_xxh3 = hash64(header);
  receipt.bytes = receipt.header_bytes;
  auto alive = [&] {
    if (given_up) throw StorageError(str("the save into ", path, " was given up"), path, ECANCELED);
  };
  std::mutex guard;
  const size_t rooms = static_cast<size_t>(threads) + 2;
  {
    BlockWriters writers(*file, threads, rooms, [&](size_t i) { return source.rooms(i + 1)[i].data(); });
    for (size_t i = 0; i < chunks.size(); ++i) {
      const Holding& chunk = chunks[i];
      LS_CHECK(receipt.bytes == tensors[i].offset, path, ": ", tensors[i].name, " at byte ", receipt.bytes,
               ", planned ", tensors[i].offset);
      auto look = [&chunk, &passes, &guard, &receipt](const Box& block, const std::byte* data) {
        if (passes) passes(chunk, block, data);
        const StateHash hash = hash_box(chunk.fqn, chunk.dtype, chunk.shape, block, data);
        std::lock_guard hold(guard);
        receipt.hash.add(hash);
      };
      receipt.offsets.push_back(tensors[i].offset);
      receipt.checksums.push_back(summed_in_place(chunk)
                                      ? write_chunk(source, i, receipt.bytes, writers, nullptr, alive)
                                      : write_chunk(source, i, receipt.bytes, writers, look, alive));
      receipt.bytes += chunk.bytes();
    }
    writers.finish();
  }
  LS_CHECK(file->bytes() == receipt.bytes, path, " has ", file->bytes(), " bytes, planned ", receipt.bytes);
  file->sync();
  file->close();
  return receipt;
}

}  // namespace lockstep::checkpoint
