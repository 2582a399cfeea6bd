// Scans a data file for its content hash and largest token, once; the result is cached until the file
// changes.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/data/source.h"

namespace lockstep::launcher::data {

// How much of a file is read.
struct ScanPlan {
  // 0: every byte; else blocks of kScanBlock, one at each multiple of the stride, and the last one
  int64_t stride = 0;
  std::string text() const;  // "read whole", "read in blocks of 64 KiB every 16 MiB"
};
inline constexpr int64_t kScanBlock = int64_t{64} << 10;

// Whole if the data's `total` bytes are at most `limit`; else blocks spaced so that about 4 GiB at most are
// read.
ScanPlan scan_plan(int64_t total, int64_t limit);

struct Scan {
  uint64_t content = 0;  // hash of the bytes that were read
  uint32_t largest = 0;  // token
  int64_t at = 0;        // its first position
};

// Reads the file. UserError as FileBytes::read, and if it is read whole and a part does not match its
// checksum in Source::sums.
Scan scan(const Source& source, const ScanPlan& plan);

// The same through a cache. The folder has an entry per path, private to this user and valid while device,
// inode, size and times are those of `source`. If several processes need a file at once, one reads it and the
// others use its result. Without a folder ("", or one that cannot be created or trusted) nothing is cached.
// `read` counts the bytes read.
Scan scan_once(const Source& source, const ScanPlan& plan, const std::string& folder, int64_t& read);

}  // namespace lockstep::launcher::data
