// ChecksummedGroup: a host group whose messages carry a checksum: number, bytes and XXH3-64 of the sent data,
// which the receiver compares.
//
// For all_gather, broadcast, all_to_all, send and recv each part is checked against its sender's checksum, so
// the error names both ranks. Maxima, minima and integer reductions of up to 64 KiB are gathered, checked,
// and reduced in rank order. Larger integer sums, and reduce_scatter of integers, have a linear checksum: the
// sum of the ranks' checksums is the checksum of the sum. Their error names only the rank that found it.
// Float sums (only with train.numerics=free) cannot be checked, since the library chooses their order;
// barriers have no data.
#pragma once

#include <memory>
#include <string>

#include "core/mesh/group.h"

namespace lockstep::distributed {

// Wraps a group. Waits throw PeerError if data arrived changed or in the place of other data. All ranks must
// wrap it.
std::shared_ptr<Group> checksummed(std::shared_ptr<Group> group);

// Whether LOCKSTEP_VERIFY_COLLECTIVES asks for checksums: "on", or "auto" if messages leave the memory of a
// host (`over_network`). Throws UserError for another word.
bool wants_checksums(bool over_network);

}  // namespace lockstep::distributed
