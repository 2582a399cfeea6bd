// Derives the root cause and exit code of a finished attempt from the known facts.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/supervise/worker/contract.h"

namespace lockstep::launcher {

// How one rank's process ended.
struct RankEnd {
  int64_t rank = 0;
  int wait_status = 0;  // as waitpid gives it
  bool ours = false;    // trainrun killed it, after the failure of another rank or on request
  bool early = false;   // with code 0, without MPI_Finalize, while its peers still worked
};

// Everything that is known when the last process of an attempt has ended.
struct AttemptFacts {
  int64_t nproc = 1;
  std::vector<RankEnd> ends;  // in the order of discovery; empty when ranks are threads
  std::vector<ErrorRecord> records;
  int64_t stopped_ranks = 0;  // ranks that stopped on request, their state saved where they began a step
  int stop_signal = 0;        // what the user sent to trainrun, SIGTERM where its own limit of time was over;
                              // 0 for nothing
  std::string stop_reason;    // of trainrun's own (StopRequest::wish); "" for none
  std::string hung;  // why trainrun ended the run: who kept the others waiting (LateWatch::verdict); "" for
                     // no such reason
  std::string disagreement;    // what the ranks started differently; "" where their records agree
                               // (LateWatch::disagreement)
  bool killed = false;         // trainrun killed the group: second signal, or the grace was over
  int64_t furthest_step = -1;  // that a rank of the attempt began; -1 where none said so
  std::map<int64_t, std::string> last_words;  // the last line on stderr of a rank before it had a log
  std::string not_started;                    // on several hosts: why mpirun ended before any rank reported
  std::vector<std::string> lost_hosts;        // hosts whose connection was lost
  std::function<std::string(int64_t)> host;   // of a rank; "" or unset on one host
  std::function<std::string(int64_t)> where;  // "step 60, in all_reduce #12" for a rank; "" when not known
};

struct AttemptOutcome {
  int exit_code = 0;
  bool restartable = false;
  std::optional<WrongRanks> wrong;  // the ranks that computed wrong; the run restarts without them, if at all
  std::vector<int64_t> dead;        // ranks that died by a signal
  bool unbegun = false;             // stopped on request before any step: nothing is new to save
  std::string cause;                // "" when all is well
  std::vector<std::string> others;  // later failures, one line each
};

// The order: a user's or our own error (lowest ticket); a death by signal; a rank that left early; a
// PeerError (lowest ticket; the peers of a lost rank report it, so the loss outranks them); an exit code
// without a record. Codes that are not documented become kExitProgram.
AttemptOutcome diagnose(const AttemptFacts& facts);

// That a run has stopped, by `reason` of trainrun's own, or "" on request; and what goes on with it.
std::string stopped_text(const AttemptOutcome& outcome, const std::string& reason = "");

// The message of a record, or a part of it, for who tells the record's step before it: without "step 9: " in
// front, where that is the record's step.
std::string message_at_step(const ErrorRecord& record, const std::string& message);

// "SIGKILL (9)".
std::string signal_text(int signal);

}  // namespace lockstep::launcher
