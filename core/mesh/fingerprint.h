// Fingerprint: the settings that must be equal on all ranks, as named parts with named lines. Ranks compare
// them in one message of fixed size. Only a difference costs more messages; the error names its key, both
// values, the rank and the way out.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/mesh/array.h"

namespace lockstep {

inline constexpr size_t kFingerprintParts = 14;  // at most

struct FingerprintPart {
  std::string name;  // a noun in the singular: "config", "mesh", "list of collectives"
  std::vector<std::pair<std::string, std::string>>
      lines;            // key, value; the first line that differs is named. A key "" shows only its value
  std::string way_out;  // the end of the message: "start every rank with the same config"
  bool input = true;    // a difference is a UserError; false: a PeerError, which a restart may cure
};

// Compares the parts of all ranks in order. Every rank passes parts of the same names, at most
// kFingerprintParts. `when` is the place in the program ("before step 1"). It is compared first, so that
// ranks that call compare() from different places get an error that says so. On a difference every rank
// throws the same message about the first part that differs. It names the lowest rank that differs from the
// majority (without one, from rank 0), its first line that differs, both values, and how many other lines and
// ranks differ. The part decides between UserError and PeerError. Collective over `world`: returns or throws
// on all ranks once all have called.
void compare(Group& world, const std::string& when, const std::vector<FingerprintPart>& parts);

// The collectives that this rank has started so far: per group their number, their hash, and the last one.
FingerprintPart issued_part(const LiveMesh& mesh);

}  // namespace lockstep
