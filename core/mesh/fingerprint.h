// Fingerprint: what all ranks must have in common, as named parts of named lines. Compared in one message of
// fixed size; only a difference costs more, and is told with its key, both values, the rank and the way out.
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
      lines;            // key, value; the first line that differs is named. A key "" shows its value alone
  std::string way_out;  // the end of the message: "start every rank with the same config"
  bool input = true;    // a difference is a UserError; false: a PeerError, which a restart may cure
};

// Compares the parts of all ranks in their order. Every rank gives parts of the same names, at most
// kFingerprintParts. `when` says where in the program this is ("before step 1"); it is compared first, so
// that ranks that meet here on different ways are told so. On a difference every rank throws the same words,
// of the first part that differs: the lowest rank that has not what the majority has (without a majority:
// what rank 0 has), its first line that differs, both values, how many lines and ranks differ besides.
// UserError or PeerError, as the part says. Collective over `world`; returns or throws on all ranks as soon
// as all have come.
void compare(Group& world, const std::string& when, const std::vector<FingerprintPart>& parts);

// What the groups of this rank were asked to do so far: per group the number of collectives, their hash, and
// the last one.
FingerprintPart issued_part(const LiveMesh& mesh);

}  // namespace lockstep
