// Fuzz target: the header of a safetensors file. The first two bytes are the length of the data behind the
// rest, which reads as zeros.
#include <algorithm>
#include <cstring>

#include "checkpoint/io/read_safetensors.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {

using namespace checkpoint;

namespace {
struct MemoryFile : InFile {
  std::string_view head;
  int64_t zeros = 0;
  int64_t bytes() const override { return static_cast<int64_t>(head.size()) + zeros; }
  void read(int64_t offset, void* out, size_t size) const override {
    FUZZ_CHECK(offset >= 0 && offset <= bytes() && static_cast<int64_t>(size) <= bytes() - offset, offset,
               " + ", size, " of ", bytes());
    std::memset(out, 0, size);
    if (auto at = static_cast<size_t>(offset); at < head.size())
      std::memcpy(out, head.data() + at, std::min(size, head.size() - at));
  }
};
}  // namespace

void safetensors(std::string_view bytes) {
  if (bytes.size() < 2) return;
  MemoryFile file;
  file.zeros = static_cast<unsigned char>(bytes[0]) | static_cast<unsigned char>(bytes[1]) << 8;
  file.head = bytes.substr(2);
  SafeTensorsHeader header;
  if (!answers([&] { header = read_safetensors_header(file, "fuzz.safetensors"); })) return;
  int64_t sum = header.data_start;
  for (const auto& tensor : header.tensors) sum += tensor.bytes;
  FUZZ_CHECK(sum == file.bytes(), "tensors hold ", sum, " of ", file.bytes(), " bytes");
  // Written again, it reads as the same tensors in the same order.
  auto tensors = header.tensors;
  std::string again;
  if (!answers([&] { again = make_safetensors_header(tensors, header.metadata); })) return;
  const std::string json = again.substr(8);
  auto read_back = parse_safetensors_header(
      json, static_cast<int64_t>(again.size()) + file.bytes() - header.data_start, "again");
  FUZZ_CHECK(read_back.tensors.size() == header.tensors.size() && read_back.metadata == header.metadata,
             json);
}

}  // namespace lockstep::fuzz
