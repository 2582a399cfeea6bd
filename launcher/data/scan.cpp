// Blocks in order: hash, largest token.
#include "launcher/data/scan.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/hash.h"
#include "core/base/text.h"
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
  auto take = [&](int64_t from, int64_t bytes) {
    check_stop();
    block.resize(bytes);
    source.bytes.read(from, block.data(), bytes);
    out.content = hash64(block.data(), block.size(), out.content);
    // Offsets are multiples of a token's width but for the last block of a sampled file, and the header is
    // one token row of its own.
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
    return out;
  }
  for (int64_t from = 0; from < size; from += plan.stride) take(from, std::min(kScanBlock, size - from));
  if (size > kScanBlock) take(size - kScanBlock, kScanBlock);
  return out;
}

}  // namespace lockstep::launcher::data
