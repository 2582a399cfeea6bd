// Tells whether a signal is a second request by the user, or a duplicate of the first one.
#pragma once

#include <signal.h>

namespace lockstep::launcher {

// True for a duplicate, as GNU timeout sends it: once to this process and once to its group. A duplicate has
// the same number, arrives within half a second of the first, and comes from this process's parent, which
// leads its process group. Ctrl-C comes from the kernel and kill from elsewhere: each of those is a separate
// request. Call it once per signal from SA_SIGINFO handlers; it is async-signal-safe.
bool same_as_first(int signal, const siginfo_t* info);

}  // namespace lockstep::launcher
