// Who may come in at the port where the ranks of a host meet (rank_server.h): processes of this user.
#pragma once

namespace lockstep::launcher {

// From here on what connects to the ports on which this process listens now is let in where its other end is
// a process of this user; any other connection is ended at once, without a byte read. One that is let in and
// says nothing is given up after two seconds. Where the kernel does not say whose a connection is, all are
// let in.
void guard_listeners();

}  // namespace lockstep::launcher
