// Reads boxes from chunks: one read per chunk whose part is contiguous there, or nearly so.
#include "checkpoint/tools/open_shards.h"

#include <cstring>

#include "checkpoint/format/damage.h"
#include "checkpoint/io/read_chunks.h"
#include "checkpoint/plan/blocks.h"
#include "core/base/error.h"

namespace lockstep::checkpoint {

namespace {
constexpr size_t kOpenFiles = 128;  // with more ranks than this, files are reopened
// Separate runs of a chunk are read together if the gaps between them are at most this many times their own
// size; else one by one.
constexpr int64_t kWidest = 4;
}  // namespace

OpenShards::OpenShards(std::string folder, const Manifest& manifest, Storage& storage)
    : folder_(std::move(folder)), manifest_(manifest), storage_(storage) {}

const InFile& OpenShards::file(const std::string& name) {
  auto found = open_.find(name);
  if (found != open_.end()) return *found->second;
  const FileRecord* record = manifest_.find_file(name);
  LS_CHECK(record, name);
  if (open_.size() >= kOpenFiles) open_.clear();
  return *open_.emplace(name, open_shard(storage_, folder_, *record, manifest_)).first->second;
}

void OpenShards::read(const TensorRecord& tensor, const Box& box, std::byte* out) {
  const auto element = static_cast<int64_t>(size_of(tensor.dtype));
  for (const Chunk& chunk : tensor.chunks) {
    const auto part = intersect(box, chunk.box);
    if (!part) continue;
    const InFile& from = file(chunk.file);
    int64_t first = -1, last = 0;
    for_each_run(*part, chunk.box, box, [&](int64_t at, int64_t, int64_t count) {
      if (first < 0) first = at;
      last = at + count;
    });
    const bool at_once = last - first <= kWidest * numel(*part);
    if (at_once) {
      buffer_.resize((last - first) * element);
      from.read(chunk.offset + first * element, buffer_.data(), buffer_.size());
    }
    for_each_run(*part, chunk.box, box, [&](int64_t at, int64_t to, int64_t count) {
      if (at_once)
        std::memcpy(out + to * element, buffer_.data() + (at - first) * element, count * element);
      else
        from.read(chunk.offset + at * element, out + to * element, count * element);
    });
  }
}

TensorStream::TensorStream(OpenShards& shards, const TensorRecord& tensor)
    : shards_(shards), tensor_(tensor) {
  for (size_t i = 0; i < tensor.chunks.size(); ++i) sums_.push_back(std::make_unique<Checksum>());
}

void TensorStream::read(const Box& block, std::byte* out) {
  const auto element = static_cast<int64_t>(size_of(tensor_.dtype));
  for (size_t i = 0; i < tensor_.chunks.size(); ++i) {
    const Chunk& chunk = tensor_.chunks[i];
    const auto part = intersect(block, chunk.box);
    if (!part) continue;
    const int64_t at = contiguous_at(*part, chunk.box);
    LS_CHECK(at >= 0, tensor_.fqn, ": block ", text(block), " of chunk ", text(chunk.box));
    buffer_.resize(numel(*part) * element);
    shards_.file(chunk.file).read(chunk.offset + at * element, buffer_.data(), buffer_.size());
    sums_[i]->add(buffer_.data(), buffer_.size());
    for_each_run(*part, *part, block, [&](int64_t from, int64_t to, int64_t count) {
      std::memcpy(out + to * element, buffer_.data() + from * element, count * element);
    });
  }
}

void TensorStream::finish() {
  for (size_t i = 0; i < tensor_.chunks.size(); ++i)
    if (const Chunk& chunk = tensor_.chunks[i]; sums_[i]->value() != chunk.xxh3)
      throw DamagedError(str(shards_.folder(), "/", chunk.file, ": tensor ", tensor_.fqn, ", box ",
                             text(chunk.box), ", bytes at offset ", chunk.offset, "..",
                             chunk.offset + chunk.bytes, " are damaged: checksum ",
                             checksum_text(sums_[i]->value()), ", written ", checksum_text(chunk.xxh3)));
}

}  // namespace lockstep::checkpoint
