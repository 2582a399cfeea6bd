// Reading chunks: blocks, checksums and the copies into pieces.
#include "checkpoint/io/read_chunks.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "checkpoint/format/checksum.h"
#include "checkpoint/format/damage.h"
#include "checkpoint/io/side_by_side.h"
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

// Chunks that are read at a time, each through a buffer of kBlockBytes: an object store answers many at once,
// and each answer is waited for.
int reading_threads(Storage& storage, const std::string& folder) {
  return storage.commit(folder) == Commit::rename ? 4 : 16;
}

// The files that some thread reads, each opened once for all of them.
class SharedShards {
 public:
  SharedShards(Storage& storage, std::string folder, const Manifest& manifest)
      : storage_(storage), folder_(std::move(folder)), manifest_(manifest) {}
  std::shared_ptr<const InFile> open(const std::string& name) {
    std::lock_guard<std::mutex> hold(guard_);
    auto& slot = open_[name];
    if (auto there = slot.lock()) return there;
    const FileRecord* record = manifest_.find_file(name);
    LS_CHECK(record, name);
    std::shared_ptr<const InFile> file = open_shard(storage_, folder_, *record, manifest_);
    last_ = file;  // a file stays open from one of its chunks to the next
    slot = file;
    return file;
  }

 private:
  Storage& storage_;
  const std::string folder_;
  const Manifest& manifest_;
  std::mutex guard_;
  std::map<std::string, std::weak_ptr<const InFile>> open_;
  std::shared_ptr<const InFile> last_;
};
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
    std::byte* into = sink.direct ? sink.direct(block) : nullptr;
    bool in_place = into != nullptr;
    if (!in_place) {
      buffer.resize(std::max(buffer.size(), bytes));
      into = buffer.data();
    }
    file.read(chunk.offset + at * element, into, bytes);
    checksum.add(into, bytes);
    if (!in_place && sink.take) sink.take(block, into);
  });
  if (checksum.value() != chunk.xxh3)
    throw DamagedError(str(folder, "/", chunk.file, ": tensor ", tensor.fqn, ", box ", text(chunk.box),
                           ", bytes at offset ", chunk.offset, "..", chunk.offset + chunk.bytes,
                           " are damaged: checksum ", checksum_text(checksum.value()), ", written ",
                           checksum_text(chunk.xxh3)));
}

void read_arrays(Storage& storage, const std::string& folder, const Manifest& manifest,
                 const std::vector<Array*>& arrays) {
  for (const Array* array : arrays)
    LS_CHECK(array->data.bytes() >= array->local_bytes(), array->fqn, " has room for ", array->data.bytes(),
             " of ", array->local_bytes(), " bytes");
  for (Array* array : arrays) array->host_wrote();
  const auto reads = plan_load(manifest, arrays);
  const int threads = reading_threads(storage, folder);
  SharedShards shards(storage, folder, manifest);
  std::vector<std::vector<std::byte>> buffers(static_cast<size_t>(threads));
  side_by_side(reads.size(), threads, [&](size_t i, int thread) {
    const PlannedRead& read = reads[i];
    const std::shared_ptr<const InFile> file = shards.open(read.chunk->file);
    int64_t element = static_cast<int64_t>(size_of(read.tensor->dtype));
    ChunkSink sink;
    sink.direct = [&](const Box& block) -> std::byte* {
      if (read.targets.size() != 1) return nullptr;
      Array& array = *arrays[read.targets[0].array];
      const Piece& piece = array.pieces[read.targets[0].piece];
      if (intersect(block, piece.global) != block) return nullptr;
      int64_t at = contiguous_at(block, piece.frame(array.local_shape));
      return at < 0 ? nullptr : array.data.data() + at * element;
    };
    sink.take = [&](const Box& block, const std::byte* data) {
      for (const auto& target : read.targets) {
        Array& array = *arrays[target.array];
        const Piece& piece = array.pieces[target.piece];
        auto part = intersect(block, piece.global);
        if (!part) continue;
        for_each_run(*part, block, piece.frame(array.local_shape),
                     [&](int64_t from, int64_t to, int64_t count) {
                       std::memcpy(array.data.data() + to * element, data + from * element, count * element);
                     });
      }
    };
    stream_chunk(*file, folder, *read.tensor, *read.chunk, sink, buffers[static_cast<size_t>(thread)]);
  });
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
