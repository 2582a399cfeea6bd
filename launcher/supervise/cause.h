// From what is known of a finished attempt to its root cause and its exit code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/supervise/contract.h"

namespace lockstep {

// Everything that is known when the last process of an attempt has ended.
struct AttemptFacts {
  int64_t nproc = 1;
  bool direct = true;          // one rank without mpirun: wait_status is the rank's own
  int wait_status = 0;         // of the started process, as waitpid gives it
  std::string launcher_words;  // mpirun's stderr
  std::vector<ErrorRecord> records;
  int64_t stopped_ranks = 0;                  // ranks that stopped on request, their state saved
  int stop_signal = 0;                        // what the user sent to trainrun, 0 for nothing
  bool killed = false;                        // trainrun killed the group: second signal, or the grace was over
  std::function<std::string(int64_t)> where;  // "step 60, in all_reduce #12" for a rank; "" when not known
};

struct Outcome {
  int exit_code = 0;
  bool restartable = false;
  std::vector<int64_t> dead;        // ranks that died by a signal
  std::string cause;                // "" when all is well
  std::vector<std::string> others;  // later failures, one line each
};

// The order: a user's or our own error (lowest ticket); a death by signal; a PeerError (lowest ticket; the peers of a dead rank report it
// as lost, so the death outranks them); an exit code without a record; mpirun's own words.
Outcome diagnose(const AttemptFacts& facts);

// "SIGKILL (9)".
std::string signal_text(int signal);

// A rank and how it ended, from mpirun's message. rank is -1 where the text has none.
struct LauncherReport {
  int64_t rank = -1;
  int signal = 0;
  int exit_code = 0;
  bool early = false;  // left without MPI_Finalize
};
LauncherReport read_launcher_words(const std::string& words);

}  // namespace lockstep
