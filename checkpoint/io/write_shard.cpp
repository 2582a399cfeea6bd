// write_shard: header, then chunk after chunk in blocks, hashed as they pass.
#include "checkpoint/io/write_shard.h"

#include <cstring>

#include "checkpoint/format/checksum.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/plan/blocks.h"
#include "core/base/hash.h"

namespace lockstep::checkpoint {

namespace {
const Piece& piece_of(const Array& array, const Box& box) {
  for (const auto& piece : array.pieces)
    if (piece.global == box) return piece;
  throw InternalError(
      str(array.fqn, ": the save plan gives this rank box ", text(box), ", which it does not hold"));
}

uint64_t write_chunk(OutFile& file, const Array& array, const Box& box, std::vector<std::byte>& buffer) {
  Checksum checksum;
  if (numel(box) == 0) return checksum.value();
  LS_CHECK(array.data.bytes() >= array.local_bytes(), array.fqn, " holds ", array.data.bytes(), " of ",
           array.local_bytes(), " bytes");
  int64_t element = static_cast<int64_t>(size_of(array.dtype));
  Box frame = piece_of(array, box).frame(array.local_shape);
  array.fetch();
  const std::byte* data = array.data.data();
  for_each_block(box, kBlockBytes / element, [&](const Box& block, int64_t) {
    size_t bytes = numel(block) * element;
    const std::byte* source;
    if (int64_t at = contiguous_at(block, frame); at >= 0) {
      source = data + at * element;
    } else {
      buffer.resize(bytes);
      for_each_run(block, frame, block, [&](int64_t from, int64_t to, int64_t count) {
        std::memcpy(buffer.data() + to * element, data + from * element, count * element);
      });
      source = buffer.data();
    }
    checksum.add(source, bytes);
    file.write(source, bytes);
  });
  return checksum.value();
}
}  // namespace

ShardReceipt write_shard(Storage& storage, const std::string& path, const SavePlan& plan, int64_t rank,
                         const std::vector<const Array*>& arrays,
                         const std::map<std::string, std::string>& metadata) {
  const auto& chunks = plan.by_rank[rank];
  ShardReceipt receipt;
  if (chunks.empty()) return receipt;
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
  std::vector<std::byte> buffer;
  for (size_t i = 0; i < chunks.size(); ++i) {
    LS_CHECK(file->bytes() == tensors[i].offset, path, ": ", tensors[i].name, " at byte ", file->bytes(),
             ", planned ", tensors[i].offset);
    receipt.offsets.push_back(tensors[i].offset);
    receipt.checksums.push_back(write_chunk(*file, *arrays[chunks[i].tensor], chunks[i].box, buffer));
  }
  receipt.bytes = file->bytes();
  file->sync();
  file->close();
  return receipt;
}

}  // namespace lockstep::checkpoint
