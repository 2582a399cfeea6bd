// Reading chunks: files, blocks and checksums.
#include "checkpoint/io/read_chunks.h"

#include <algorithm>
#include <cerrno>
#include <map>

#include "checkpoint/format/checksum.h"
#include "checkpoint/format/damage.h"
#include "checkpoint/io/write_shard.h"
#include "checkpoint/plan/blocks.h"
#include "core/base/hash.h"

namespace lockstep::checkpoint {

namespace {
// The first tensor of a file that needs bytes from `end` on, for messages.
std::string first_cut(const Manifest& manifest, const std::string& file, int64_t end) {
  const TensorRecord* best = nullptr;
  int64_t offset = 0;
  for (const auto& tensor : manifest.tensors)
    for (const auto& chunk : tensor.chunks)
      if (chunk.file == file && chunk.offset + chunk.bytes > end && (!best || chunk.offset < offset))
        best = &tensor, offset = chunk.offset;
  return best ? str("; the first tensor concerned is ", best->fqn, " at offset ", offset) : "";
}

constexpr int64_t kMaxHeader = 100'000'008;
}  // namespace

std::unique_ptr<InFile> open_shard(Storage& storage, const std::string& folder, const FileRecord& record,
                                   const Manifest& manifest) {
  std::string path = folder + "/" + record.name;
  std::unique_ptr<InFile> file;
  try {
    file = storage.open(path);
  } catch (const StorageError& e) {
    if (e.code != ENOENT) throw;
    const bool manifest_last = storage.commit(folder) == Commit::manifest_last;
    if (!storage.exists(manifest_last ? str(folder, "/", kManifestName) : folder))
      throw VanishedError(str(folder, " was removed while it was read"));
    throw DamagedError(
        str(path, " is missing (", record.bytes, " bytes)", first_cut(manifest, record.name, 0)));
  }
  if (file->bytes() < record.bytes)
    throw DamagedError(str(path, " is truncated: ", file->bytes(), " of ", record.bytes, " bytes",
                           first_cut(manifest, record.name, file->bytes())));
  if (file->bytes() > record.bytes)
    throw DamagedError(str(path, " has grown: ", file->bytes(), " bytes, ", record.bytes, " were written"));
  if (record.header_bytes > kMaxHeader)
    throw DamagedError(
        str(path, ": a header of ", record.header_bytes, " bytes; the format allows ", kMaxHeader));
  std::string header(record.header_bytes, '\0');
  file->read(0, header.data(), header.size());
  if (hash64(header) != record.xxh3)
    throw DamagedError(str(path, ": the header (bytes 0..", record.header_bytes, ") is damaged: checksum ",
                           checksum_text(hash64(header)), ", written ", checksum_text(record.xxh3)));
  return file;
}

void stream_chunk(const InFile& file, const std::string& folder, const TensorRecord& tensor,
                  const Chunk& chunk, const ChunkSink& sink, std::vector<std::byte>& buffer) {
  Checksum checksum;
  int64_t element = static_cast<int64_t>(size_of(tensor.dtype));
  for_each_block(chunk.box, kBlockBytes / element, [&](const Box& block, int64_t at) {
    size_t bytes = numel(block) * element;
    std::byte* into = sink.room ? sink.room(block) : nullptr;
    if (!into) {
      buffer.resize(std::max(buffer.size(), bytes));
      into = buffer.data();
    }
    file.read(chunk.offset + at * element, into, bytes);
    checksum.add(into, bytes);
    if (sink.take) sink.take(block, into);
  });
  if (checksum.value() != chunk.xxh3)
    throw DamagedError(str(folder, "/", chunk.file, ": tensor ", tensor.fqn, ", box ", text(chunk.box),
                           ", bytes at offset ", chunk.offset, "..", chunk.offset + chunk.bytes,
                           " are damaged: checksum ", checksum_text(checksum.value()), ", written ",
                           checksum_text(chunk.xxh3)));
}

StateHash hash_block(const TensorRecord& tensor, const Box& block, const std::byte* data) {
  return hash_box(tensor.fqn, tensor.dtype, tensor.shape, block, data);
}

std::vector<std::string> verify_chunks(Storage& storage, const std::string& folder, const Manifest& manifest,
                                       int64_t part, int64_t parts, StateHash* hash) {
  struct Item {
    const TensorRecord* tensor;
    const Chunk* chunk;
  };
  std::map<std::string, std::vector<Item>> by_file;
  int64_t index = 0;
  for (const auto& tensor : manifest.tensors)
    for (const auto& chunk : tensor.chunks)
      if (index++ % parts == part) by_file[chunk.file].push_back({&tensor, &chunk});
  std::vector<std::string> problems;
  std::vector<std::byte> buffer;
  for (const auto& [name, items] : by_file) {
    std::unique_ptr<InFile> file;
    try {
      file = open_shard(storage, folder, *manifest.find_file(name), manifest);
    } catch (const VanishedError&) { throw; } catch (const UserError& e) {
      problems.push_back(e.what());
      continue;
    }
    for (const auto& item : items) try {
        ChunkSink sink;
        if (hash)
          sink.take = [&](const Box& block, const std::byte* data) {
            hash->add(hash_block(*item.tensor, block, data));
          };
        stream_chunk(*file, folder, *item.tensor, *item.chunk, sink, buffer);
      } catch (const UserError& e) { problems.push_back(e.what()); }
  }
  return problems;
}

}  // namespace lockstep::checkpoint
