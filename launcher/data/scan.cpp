// Scans a file in blocks: computes its hash and largest token.
#include "launcher/data/scan.h"

#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/reading/one_line.h"
#include "launcher/data/tokenizer/stop.h"

namespace lockstep::launcher::data {

namespace {
constexpr int64_t kReadBlock = int64_t{4} << 20, kFewestApart = int64_t{16} << 20, kBlocks = int64_t{1} << 16;

template <class Token>
void take_largest(const std::vector<std::byte>& block, int64_t bytes, int64_t first_token, Scan& out,
                  bool& any) {
  const auto* tokens = reinterpret_cast<const Token*>(block.data());
  const int64_t count = bytes / static_cast<int64_t>(sizeof(Token));
  Token largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, tokens[i]);
  if (count == 0 || (any && largest <= out.largest)) return;
  any = true;
  out.largest = largest;
  out.at = first_token + (std::find(tokens, tokens + count, largest) - tokens);
}

// Checksums of a file's parts, computed while it is read from begin to end.
class Sums {
 public:
  explicit Sums(const Source& source) : source_(source), found_(source.sums.size(), 0) {}
  void take(int64_t from, const std::vector<std::byte>& block) {
    const int64_t end = from + static_cast<int64_t>(block.size());
    for (size_t i = 0; i < found_.size(); ++i) {
      const SummedBytes& sum = source_.sums[i];
      const int64_t first = std::max(from, sum.begin), last = std::min(end, sum.begin + sum.size);
      if (first >= last) continue;
      const auto* bytes = reinterpret_cast<const Bytef*>(block.data() + (first - from));
      found_[i] = crc32_z(found_[i], bytes, static_cast<size_t>(last - first));
    }
  }
  void compare() const {
    for (size_t i = 0; i < found_.size(); ++i)
      if (found_[i] != source_.sums[i].crc)
        throw UserError(str("data.paths: ", one_line(source_.path), " is damaged: the bytes of ",
                            one_line(source_.sums[i].name), " have the CRC-32 ", hex(found_[i]),
                            ", and the archive says ", hex(source_.sums[i].crc),
                            "; copy or make the file again"));
  }

 private:
  static std::string hex(uLong sum) {
    char text[12];
    std::snprintf(text, sizeof text, "%08lx", sum);
    return text;
  }
  const Source& source_;
  std::vector<uLong> found_;
};
}  // namespace

std::string ScanPlan::text() const {
  return stride ? str("read in blocks of ", bytes_text(kScanBlock), " every ",
                      bytes_text(static_cast<double>(stride)))
                : "read whole";
}

ScanPlan scan_plan(int64_t total, int64_t limit) {
  if (total <= limit) return {};
  int64_t stride = kFewestApart;
  while (total / stride > kBlocks) stride *= 2;
  return {stride};
}

Scan scan(const Source& source, const ScanPlan& plan) {
  Scan out;
  bool any = false;
  std::vector<std::byte> block;
  Sums sums(source);
  auto take = [&](int64_t from, int64_t bytes) {
    check_stop();
    block.resize(bytes);
    source.bytes.read(from, block.data(), bytes);
    out.content = hash64(block.data(), block.size(), out.content);
    if (!plan.stride) sums.take(from, block);
    // Offsets are multiples of a token's width, except for the last block of a sampled file; the header is
    // scanned as its own row.
    int64_t begin = std::max(from, source.header);
    begin = source.header + (begin - source.header + source.width - 1) / source.width * source.width;
    const int64_t end =
        source.header +
        (std::min(from + bytes, source.header + source.tokens * source.width) - source.header) /
            source.width * source.width;
    if (begin >= end) return;
    if (begin > from) std::memmove(block.data(), block.data() + (begin - from), end - begin);
    const int64_t token = (begin - source.header) / source.width;
    if (source.width == 1) take_largest<uint8_t>(block, end - begin, token, out, any);
    if (source.width == 2) take_largest<uint16_t>(block, end - begin, token, out, any);
    if (source.width == 4) take_largest<uint32_t>(block, end - begin, token, out, any);
  };
  const int64_t size = source.bytes.size();
  if (!plan.stride) {
    for (int64_t from = 0; from < size; from += kReadBlock) take(from, std::min(kReadBlock, size - from));
    sums.compare();
    return out;
  }
  for (int64_t from = 0; from < size; from += plan.stride) take(from, std::min(kScanBlock, size - from));
  if (size > kScanBlock) take(size - kScanBlock, kScanBlock);
  return out;
}

}  // namespace lockstep::launcher::data
