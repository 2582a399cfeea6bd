// RankDoor: lets only processes of this user connect to the port where a host's ranks meet (rank_server.h).
#pragma once

#include <vector>

namespace lockstep::launcher {

// Descriptors on which this process listens for connections by IPv4, ascending.
std::vector<int> listeners();
// Guards the ports on which this process listens now. A connection whose other end belongs to another user is
// closed at once, without reading a byte. Any other is accepted, even with an unknown owner, and is dropped
// after two seconds without a byte. The inherited listeners in `but` are not guarded.
void guard_listeners(const std::vector<int>& but);

}  // namespace lockstep::launcher
