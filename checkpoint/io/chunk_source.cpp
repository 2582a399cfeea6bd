// ChunkSource: reads blocks of chunks from the arrays or from their snapshot.
#include "checkpoint/io/chunk_source.h"

#include <cstring>

#include "checkpoint/plan/blocks.h"
#include "core/base/error.h"

namespace lockstep::checkpoint {

namespace {
int64_t element_of(const Holding& chunk) { return static_cast<int64_t>(size_of(chunk.dtype)); }

// Position of a planned chunk's box in the rank's part of its tensor.
Box frame_of(const Array& array, const Box& box) {
  LS_CHECK(array.data.bytes() >= array.local_bytes(), array.fqn, " holds ", array.data.bytes(), " of ",
           array.local_bytes(), " bytes");
  for (const auto& piece : array.pieces)
    if (piece.global == box) return piece.frame(array.local_shape);
  throw InternalError(
      str(array.fqn, ": the save plan gives this rank box ", text(box), ", which it does not hold"));
}

using Where = std::function<Array::Newest(const Array&)>;
std::vector<Holding> chunks_of(const SavePlan& plan, int64_t rank, const std::vector<const Array*>& arrays,
                               const Where& where) {
  std::vector<Holding> out;
  for (const PlannedChunk& chunk : plan.by_rank[rank]) {
    const Array& array = *arrays[chunk.tensor];
    const bool empty = numel(chunk.box) == 0;
    const Array::Newest at = empty ? Array::Newest{} : where(array);
    out.push_back({array.fqn, array.dtype, array.shape, chunk.box,
                   empty ? chunk.box : frame_of(array, chunk.box), at.data, at.device});
  }
  return out;
}

class InPlace : public ChunkSource {
 public:
  explicit InPlace(std::vector<Holding> chunks) { chunks_ = std::move(chunks); }
};

void copy_block(const Box& block, const Holding& from, std::byte* to) {
  const int64_t element = element_of(from);
  for_each_run(block, from.frame, block, [&](int64_t source, int64_t into, int64_t count) {
    std::memcpy(to + into * element, from.data + source * element, static_cast<size_t>(count * element));
  });
}
void copy_block(const Box& block, const Holding& from, std::byte* to, Device& device, Stream& stream) {
  const int64_t element = element_of(from);
  for_each_run(block, from.frame, block, [&](int64_t source, int64_t into, int64_t count) {
    device.copy(to + into * element, from.data + source * element, static_cast<size_t>(count * element),
                stream);
  });
}

// Chunks begin at multiples of this, so that elements of every dtype are aligned.
constexpr size_t kAlignment = 64;
size_t room_of(int64_t bytes) {
  return (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
}
}  // namespace

const std::byte* ChunkSource::in_place(size_t index, const Box& block) const {
  const Holding& chunk = chunks_[index];
  const int64_t at = chunk.device ? -1 : contiguous_at(block, chunk.frame);
  return at < 0 ? nullptr : chunk.data + at * element_of(chunk);
}

void ChunkSource::copy(size_t index, const Box& block, std::byte* room) {
  const Holding& chunk = chunks_[index];
  if (!chunk.device) return copy_block(block, chunk, room);
  chunk.device->enter();
  if (!stream_) stream_ = chunk.device->make_stream();
  copy_block(block, chunk, room, *chunk.device, *stream_);
  stream_->synchronize();
}

Device* ChunkSource::device() const {
  for (const Holding& chunk : chunks_)
    if (chunk.device) return chunk.device;
  return nullptr;
}

std::vector<Buffer>& ChunkSource::rooms(size_t count) {
  Device* const from = device();
  if (from) from->enter();
  while (rooms_.size() < count) rooms_.emplace_back(kBlockBytes, from ? from->staging() : cpu_allocator());
  return rooms_;
}

std::unique_ptr<ChunkSource> in_place(const SavePlan& plan, int64_t rank,
                                      const std::vector<const Array*>& arrays) {
  return std::make_unique<InPlace>(
      chunks_of(plan, rank, arrays, [](const Array& array) { return array.newest(); }));
}

size_t Snapshot::bytes_of(const SavePlan& plan, int64_t rank) {
  size_t out = 0;
  for (const auto& chunk : plan.by_rank[rank])
    out += room_of(numel(chunk.box) * static_cast<int64_t>(size_of(plan.tensors[chunk.tensor].dtype)));
  return out;
}

void Snapshot::take(const SavePlan& plan, int64_t rank, const std::vector<const Array*>& arrays) {
  chunks_.clear();
  if (!holds(plan, rank)) {
    held_ = Buffer();  // before the larger one is made
    held_ = Buffer(bytes_of(plan, rank), on_device() ? side_.device->memory() : cpu_allocator());
  }
  std::vector<Holding> from = chunks_of(plan, rank, arrays, [&](const Array& array) -> Array::Newest {
    if (on_device()) return {side_.device, side_.data(array)};
    array.fetch();
    return {nullptr, array.data.data()};
  });
  std::vector<std::byte*> to;
  std::byte* at = held_.data();
  for (const Holding& chunk : from) to.push_back(at), at += room_of(chunk.bytes());
  on_device() ? copy_on_device(from, to) : copy_on_host(from, to);
  for (size_t i = 0; i < from.size(); ++i) {
    from[i].frame = from[i].box;
    from[i].data = to[i];
    from[i].device = side_.device;
  }
  chunks_ = std::move(from);
}

void Snapshot::copy_on_device(const std::vector<Holding>& from, const std::vector<std::byte*>& to) {
  Device& device = *side_.device;
  auto stream = device.make_stream();
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i].bytes() > 0) copy_block(from[i].box, from[i], to[i], device, *stream);
  stream->synchronize();
}

void Snapshot::copy_on_host(const std::vector<Holding>& from, const std::vector<std::byte*>& to) {
  struct Block {
    Box box;
    const Holding* of;
    std::byte* to;
  };
  std::vector<Block> blocks;
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t element = element_of(from[i]);
    for_each_block(from[i].box, kBlockBytes / element, [&](const Box& block, int64_t at) {
      blocks.push_back({block, &from[i], to[i] + at * element});
    });
  }
#pragma omp parallel for schedule(dynamic) if (blocks.size() > 1)
  for (size_t i = 0; i < blocks.size(); ++i) copy_block(blocks[i].box, *blocks[i].of, blocks[i].to);
}

}  // namespace lockstep::checkpoint
