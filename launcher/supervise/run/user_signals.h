// Counts the signals by which the user controls trainrun.
#pragma once

namespace lockstep::launcher {

// Signals of the user to trainrun, counted by handlers that install_signals sets (SIGTERM, SIGINT, and SIGHUP
// unless it is ignored, as under nohup; SIGPIPE is ignored). A signal that GNU timeout sends twice counts
// once. `restart_calls`: true if ranks run in this process, so that a signal does not interrupt their system
// calls; false for a supervisor, whose poll must end.
void install_signals(bool restart_calls = false);
int signals_seen();  // how many arrived
int first_signal();  // the first of them, 0 for none

}  // namespace lockstep::launcher
