// What the user asks trainrun by signals.
#pragma once

namespace lockstep::launcher {

// Signals of the user to trainrun, counted by handlers that install_signals sets (SIGTERM, SIGINT, and SIGHUP
// unless it is ignored, as nohup has it; SIGPIPE is ignored); what GNU timeout sends twice counts once.
// `restart_calls`: where ranks work in this process, system calls of theirs go on after a signal; a
// supervisor's poll ends.
void install_signals(bool restart_calls = false);
int signals_seen();  // how many arrived
int first_signal();  // the first of them, 0 for none

}  // namespace lockstep::launcher
