// Who may come in at the port where the ranks of a host meet (rank_server.h): processes of this user.
#pragma once

#include <vector>

namespace lockstep::launcher {

// Descriptors on which this process listens for connections by IPv4, ascending.
std::vector<int> listeners();
// From here on what connects to a port on which this process listens now is ended at once, without a byte
// read, where the kernel says that its other end is another user's. Any other is let in, also one of which
// the kernel says nothing, and is given up where two seconds pass without a byte. Left alone are the
// listeners of `but`, those that it inherited.
void guard_listeners(const std::vector<int>& but);

}  // namespace lockstep::launcher
