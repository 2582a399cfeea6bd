// Reading any safetensors file, in blocks.
#include "checkpoint/io/read_safetensors.h"

#include <cstring>

#include "checkpoint/io/write_shard.h"
#include "checkpoint/plan/blocks.h"
#include "checkpoint/plan/fit.h"

namespace lockstep::checkpoint {

SafeTensorsHeader read_safetensors_header(const InFile& file, const std::string& path) {
  std::string first(8, '\0');
  if (file.bytes() >= 8) file.read(0, first.data(), 8);
  int64_t length = safetensors_header_length(first, file.bytes(), path);
  std::string json(length, '\0');
  file.read(8, json.data(), json.size());
  return parse_safetensors_header(json, file.bytes(), path);
}

void read_safetensor(const InFile& file, const SafeTensor& tensor, Array& array) {
  LS_CHECK(tensor.other.empty() && tensor.shape == array.shape &&
               (tensor.dtype == array.dtype || widens(tensor.dtype, array.dtype)),
           tensor.name);
  LS_CHECK(array.data.bytes() >= array.local_bytes(), array.fqn, " has room for ", array.data.bytes(), " of ",
           array.local_bytes(), " bytes");
  int64_t from_size = static_cast<int64_t>(size_of(tensor.dtype)),
          to_size = static_cast<int64_t>(size_of(array.dtype));
  Box stored = whole(tensor.shape);
  array.fetch();
  array.host_wrote();
  std::vector<std::byte> buffer;
  for (const auto& piece : array.pieces) {
    Box frame = piece.frame(array.local_shape);
    // Only the rows of the first dim that the piece touches are read.
    Box rows = stored;
    if (!rows.size.empty()) rows.offset[0] = piece.global.offset[0], rows.size[0] = piece.global.size[0];
    int64_t skip = contiguous_at(rows, stored);
    for_each_block(rows, kBlockBytes / from_size, [&](const Box& block, int64_t at) {
      auto part = intersect(block, piece.global);
      if (!part) return;
      buffer.resize(numel(block) * from_size);
      file.read(tensor.offset + (skip + at) * from_size, buffer.data(), buffer.size());
      for_each_run(*part, block, frame, [&](int64_t from, int64_t to, int64_t count) {
        const std::byte* source = buffer.data() + from * from_size;
        std::byte* into = array.data.data() + to * to_size;
        if (tensor.dtype == array.dtype)
          std::memcpy(into, source, count * to_size);
        else
          for (int64_t i = 0; i < count; ++i)
            set_double(array.dtype, into, i, get_double(tensor.dtype, source, i));
      });
    });
  }
  if (Device* const device = array.device()) array.on(*device);  // the host holds a tensor at a time
}

}  // namespace lockstep::checkpoint
