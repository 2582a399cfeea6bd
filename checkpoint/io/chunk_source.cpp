// Blocks of chunks, out of the arrays or of their copy.
#include "checkpoint/io/chunk_source.h"

#include <cstring>
#include <optional>

#include "checkpoint/plan/blocks.h"
#include "core/base/error.h"

namespace lockstep::checkpoint {

namespace {
// Where the box of a planned chunk lies in the rank's part of its tensor.
Box frame_of(const Array& array, const Box& box) {
  LS_CHECK(array.data.bytes() >= array.local_bytes(), array.fqn, " holds ", array.data.bytes(), " of ",
           array.local_bytes(), " bytes");
  for (const auto& piece : array.pieces)
    if (piece.global == box) return piece.frame(array.local_shape);
  throw InternalError(
      str(array.fqn, ": the save plan gives this rank box ", text(box), ", which it does not hold"));
}

void copy_block(const Box& block, const Box& frame, int64_t element, const std::byte* from, std::byte* to) {
  for_each_run(block, frame, block, [&](int64_t source, int64_t into, int64_t count) {
    std::memcpy(to + into * element, from + source * element, count * element);
  });
}

class InPlace : public ChunkSource {
 public:
  InPlace(const SavePlan& plan, int64_t rank, std::vector<const Array*> arrays)
      : plan_(plan), rank_(rank), arrays_(std::move(arrays)) {}
  void each_block(size_t index, const Visit& visit) override {
    const PlannedChunk& chunk = plan_.by_rank[rank_][index];
    const Array& array = *arrays_[chunk.tensor];
    if (numel(chunk.box) == 0) return;
    const auto element = static_cast<int64_t>(size_of(array.dtype));
    const Box frame = frame_of(array, chunk.box);
    array.fetch();
    for_each_block(chunk.box, kBlockBytes / element, [&](const Box& block, int64_t) {
      if (const int64_t at = contiguous_at(block, frame); at >= 0)
        return visit(block, array.data.data() + at * element);
      buffer_.resize(static_cast<size_t>(numel(block) * element));
      copy_block(block, frame, element, array.data.data(), buffer_.data());
      visit(block, buffer_.data());
    });
  }

 private:
  const SavePlan& plan_;
  int64_t rank_;
  std::vector<const Array*> arrays_;
  std::vector<std::byte> buffer_;
};

int64_t element_of(const SavePlan& plan, const PlannedChunk& chunk) {
  return static_cast<int64_t>(size_of(plan.tensors[chunk.tensor].dtype));
}
// Chunks begin at multiples of this, so that elements of every dtype are aligned.
constexpr size_t kAlignment = 64;
size_t room_of(const SavePlan& plan, const PlannedChunk& chunk) {
  const auto bytes = static_cast<size_t>(numel(chunk.box) * element_of(plan, chunk));
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}
}  // namespace

std::unique_ptr<ChunkSource> in_place(const SavePlan& plan, int64_t rank,
                                      const std::vector<const Array*>& arrays) {
  return std::make_unique<InPlace>(plan, rank, arrays);
}

size_t Snapshot::bytes_of(const SavePlan& plan, int64_t rank) {
  size_t out = 0;
  for (const auto& chunk : plan.by_rank[rank]) out += room_of(plan, chunk);
  return out;
}

void Snapshot::take(const SavePlan& plan, int64_t rank, const std::vector<const Array*>& arrays) {
  if (!holds(plan, rank)) {
    held_ = Buffer();  // before the larger one is made
    held_ = Buffer(bytes_of(plan, rank), on_device() ? side_.device->memory() : cpu_allocator());
  }
  plan_ = &plan, rank_ = rank;
  at_.clear();
  size_t at = 0;
  for (const auto& chunk : plan.by_rank[rank]) at_.push_back(at), at += room_of(plan, chunk);
  on_device() ? copy_on_device(arrays) : copy_on_host(arrays);
}

void Snapshot::copy_on_device(const std::vector<const Array*>& arrays) {
  Device& device = *side_.device;
  auto stream = device.make_stream();
  const auto& chunks = plan_->by_rank[rank_];
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (numel(chunks[i].box) == 0) continue;
    const Array& array = *arrays[chunks[i].tensor];
    const int64_t element = element_of(*plan_, chunks[i]);
    const std::byte* from = side_.data(array);
    for_each_run(chunks[i].box, frame_of(array, chunks[i].box), chunks[i].box,
                 [&](int64_t source, int64_t into, int64_t count) {
                   device.copy(held_.data() + at_[i] + into * element, from + source * element,
                               static_cast<size_t>(count * element), *stream);
                 });
  }
  stream->synchronize();
}

void Snapshot::copy_on_host(const std::vector<const Array*>& arrays) {
  struct Block {
    Box box, frame;
    const Array* array;
    size_t to;
  };
  std::vector<Block> blocks;
  const auto& chunks = plan_->by_rank[rank_];
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (numel(chunks[i].box) == 0) continue;
    const Array& array = *arrays[chunks[i].tensor];
    const int64_t element = element_of(*plan_, chunks[i]);
    const Box frame = frame_of(array, chunks[i].box);
    array.fetch();
    for_each_block(chunks[i].box, kBlockBytes / element, [&](const Box& block, int64_t from) {
      blocks.push_back({block, frame, &array, at_[i] + static_cast<size_t>(from * element)});
    });
  }
#pragma omp parallel for schedule(dynamic) if (blocks.size() > 1)
  for (size_t i = 0; i < blocks.size(); ++i)
    copy_block(blocks[i].box, blocks[i].frame, static_cast<int64_t>(size_of(blocks[i].array->dtype)),
               blocks[i].array->data.data(), held_.data() + blocks[i].to);
}

void Snapshot::each_block(size_t index, const Visit& visit) {
  if (on_device()) return each_staged_block(index, visit);
  const PlannedChunk& chunk = plan_->by_rank[rank_][index];
  const int64_t element = element_of(*plan_, chunk);
  for_each_block(chunk.box, kBlockBytes / element, [&](const Box& block, int64_t from) {
    visit(block, held_.data() + at_[index] + from * element);
  });
}

// While one block is visited the next one is on its way.
void Snapshot::each_staged_block(size_t index, const Visit& visit) {
  Device& device = *side_.device;
  device.enter();
  for (Buffer& buffer : staged_)
    if (!buffer) buffer = Buffer(kBlockBytes, device.staging());
  auto stream = device.make_stream();
  const PlannedChunk& chunk = plan_->by_rank[rank_][index];
  const int64_t element = element_of(*plan_, chunk);
  std::optional<Box> under_way;
  std::shared_ptr<Event> arrived;
  int slot = 0;
  auto visit_it = [&] {
    arrived->synchronize();
    visit(*under_way, staged_[1 - slot].data());
  };
  for_each_block(chunk.box, kBlockBytes / element, [&](const Box& block, int64_t from) {
    device.copy(staged_[slot].data(), held_.data() + at_[index] + from * element,
                static_cast<size_t>(numel(block) * element), *stream);
    auto copied = stream->record();
    if (under_way) visit_it();
    under_way = block, arrived = copied, slot = 1 - slot;
  });
  if (under_way) visit_it();
}

}  // namespace lockstep::checkpoint
