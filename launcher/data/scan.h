// A pass over the whole of a data file: the hash of its content and its largest token. Made once, and kept
// until the file changes.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/data/source.h"

namespace lockstep::launcher::data {

// How much of a file is read.
struct ScanPlan {
  int64_t stride =
      0;  // 0: every byte; else blocks of kScanBlock, one at each multiple of the stride, and the last one
  std::string text() const;  // "read whole", "read in blocks of 64 KiB every 16 MiB"
};
inline constexpr int64_t kScanBlock = int64_t{64} << 10;

// Whole while `total` bytes of data are at most `limit`; else blocks, so far apart that at most about 4 GiB
// are read.
ScanPlan scan_plan(int64_t total, int64_t limit);

struct Scan {
  uint64_t content = 0;  // hash of the bytes that were read
  uint32_t largest = 0;  // token
  int64_t at = 0;        // the first token that is as large
};

// Reads the file. UserError as FileBytes::read, and where it is read whole and has bytes with another sum
// than Source::sums say.
Scan scan(const Source& source, const ScanPlan& plan);

// The same through a cache: the folder holds an entry per file, found by its path, good while device, inode,
// size and times are those of `source`, and private to this user. Of several processes that want one file at
// once, one reads it and the others take what it found. A folder that cannot be made or trusted, "" among
// them, is done without. `read` counts the bytes that were read.
Scan scan_once(const Source& source, const ScanPlan& plan, const std::string& folder, int64_t& read);

}  // namespace lockstep::launcher::data
