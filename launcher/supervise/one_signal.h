// Whether a signal is a second wish of the user's, or the first one that came on another way.
#pragma once

#include <signal.h>

namespace lockstep::launcher {

// True for a signal that its sender had sent to this process alone, and then to the whole group, or the other
// way round, as GNU timeout does: the same number, within half a second of the first one heard, from the
// parent of this process, which leads its process group. Ctrl-C comes from the kernel and kill from
// elsewhere: each of theirs is a wish of its own. For handlers (set with SA_SIGINFO), each signal once; calls
// nothing that a handler may not.
bool same_as_first(int signal, const siginfo_t* info);

}  // namespace lockstep::launcher
