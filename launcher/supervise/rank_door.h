// Who may come in at the port where the ranks of a host meet (rank_server.h): processes of this user.
#pragma once

namespace lockstep::launcher {

// From here on what connects to the ports on which this process listens now is ended at once, without a byte
// read, where the kernel says that its other end is another user's. Any other is let in, also one of which
// the kernel says nothing, and is given up where two seconds pass without a byte.
void guard_listeners();

}  // namespace lockstep::launcher
