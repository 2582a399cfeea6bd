// Decides the root cause of a finished attempt.
#include "launcher/supervise/run/cause.h"

#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>

#include "core/base/error.h"
#include "core/reading/sentence.h"

namespace lockstep::launcher {

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? str("SIG", name, " (", signal, ")") : str("signal ", signal);
}

namespace {
const char* perhaps(int signal) {
  switch (signal) {
    case SIGKILL:
      return ", perhaps out of memory, or killed by the administrator";
    case SIGSEGV:
    case SIGBUS:
      return ", an invalid memory access";
    case SIGABRT:
      return ", it called abort";
    case SIGILL:
      return ", an instruction that this processor does not have";
    case SIGFPE:
      return ", an arithmetic fault";
    case SIGXCPU:
      return ", over its limit of processor time";
    default:
      return "";
  }
}
bool is_defect(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGABRT || signal == SIGILL || signal == SIGFPE;
}

int code_of(const std::string& kind) {
  return kind == "UserError"     ? kExitUser
         : kind == "PeerError"   ? kExitPeer
         : kind == kProgramError ? kExitProgram
                                 : kExitInternal;
}
bool asks_to_end(int signal) {
  return signal == SIGUSR1 || signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
}

// Exit codes of trainrun that a program may use with the same meaning; any other code is private to the
// program.
bool is_documented(int code) {
  return code == kExitProgram || code == kExitUser || code == kExitInternal || code == kExitPeer;
}

// An error that ranks agreed on names its rank itself ("rank 2: disk full"), and every rank records it. Wrong
// input before the first step is wrong for all ranks. Returns the length of that prefix; 0 without one.
size_t agreed(const std::string& message) {
  const auto found = find_sentence(message, "rank #: ");
  return found && found->begin == 0 ? found->end : 0;
}
// " on h1": of a rank of several hosts.
std::string on_host(const AttemptFacts& facts, int64_t rank) {
  const std::string host = facts.host ? facts.host(rank) : "";
  return host.empty() ? "" : " on " + host;
}
}  // namespace

std::string message_at_step(const ErrorRecord& record, const std::string& message) {
  const std::string said = str("step ", record.step, ": ");
  return record.step >= 0 && message.starts_with(said) ? message.substr(said.size()) : message;
}

namespace {
std::string record_text(const ErrorRecord& record, const AttemptFacts& facts) {
  std::string who = facts.nproc > 1 && (record.step >= 0 || record.kind != "UserError")
                        ? str("rank ", record.rank, on_host(facts, record.rank), ": ")
                        : "",
              message = record.message;
  if (const size_t end = agreed(message)) who = message.substr(0, end), message = message.substr(end);
  if (record.wrong) who.clear();  // the message names ranks itself, so the reporting rank does not matter
  return str(who, record.kind, record.step >= 0 ? str(" at step ", record.step) : "", ": ",
             message_at_step(record, message));
}
// Ranks that read the same input all find the same fault, and peers of a rank that throws may quote it: it is
// reported once. The ranks' logs have every report.
bool repeats(const ErrorRecord& record, const ErrorRecord& told) {
  if (const size_t end = agreed(record.message); record.kind == "PeerError" && end)
    if (told.message.find(record.message.substr(end)) != std::string::npos) return true;
  return record.kind == told.kind && (record.message == told.message || told.kind == "UserError");
}
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string stop_text(const AttemptFacts& facts) {
  return facts.stop_reason.empty() ? signal_text(facts.stop_signal) : facts.stop_reason;
}

AttemptOutcome killed(const AttemptFacts& facts) {
  AttemptOutcome out;
  if (facts.stop_signal) {
    out.exit_code = 128 + facts.stop_signal;
    out.cause = str("killed after ", stop_text(facts), " before the run had saved and ended");
    return out;
  }
  out.exit_code = kExitPeer;
  out.cause = "killed: it did not end by itself after a failure";
  if (!facts.records.empty())
    out.cause = record_text(facts.records[0], facts), out.exit_code = code_of(facts.records[0].kind),
    out.wrong = facts.records[0].wrong;
  out.restartable = out.exit_code == kExitPeer && !out.wrong;
  return out;
}

// The first rank that ended in each way.
struct FirstEnds {
  const RankEnd* death = nullptr;
  const RankEnd* asked = nullptr;   // killed by the signal that the user sent
  const RankEnd* early = nullptr;   // with code 0
  const RankEnd* failed = nullptr;  // with another code
  bool stopped = false;             // some rank stopped on request, its state saved
};
FirstEnds first_ends(const AttemptFacts& facts) {
  FirstEnds out;
  out.stopped = facts.stopped_ranks > 0;
  for (const RankEnd& end : facts.ends) {
    if (end.ours) continue;
    if (WIFSIGNALED(end.wait_status)) {
      auto& first = facts.stop_signal && asks_to_end(WTERMSIG(end.wait_status)) ? out.asked : out.death;
      if (!first) first = &end;
    } else if (WEXITSTATUS(end.wait_status) == kExitStopped) {
      out.stopped = true;
    } else if (WEXITSTATUS(end.wait_status) != 0) {
      if (!out.failed) out.failed = &end;
    } else if (end.early && !out.early) {
      out.early = &end;
    }
  }
  return out;
}
// Among PeerErrors, prefers the one that names ranks which computed wrong: their exit causes the other
// PeerErrors.
const ErrorRecord* first_record(const AttemptFacts& facts, bool of_peers) {
  for (const auto& record : facts.records)
    if (of_peers && record.wrong) return &record;
  for (const auto& record : facts.records)
    if ((record.kind == "PeerError") == of_peers) return &record;
  return nullptr;
}

// Finds what ended the attempt, in the order that the header states. Returns the record that describes it, if
// any.
const ErrorRecord* find_cause(const AttemptFacts& facts, AttemptOutcome& out) {
  const FirstEnds ends = first_ends(facts);
  auto where = [&](const RankEnd& end) {
    std::string place = facts.where ? facts.where(end.rank) : "";
    return place.empty() ? "" : "; " + place;
  };
  // The last output of a program that failed before it joined the ranks, such as an import or file error.
  auto last_words = [&](const RankEnd& end) {
    const auto said = facts.last_words.find(end.rank);
    return said == facts.last_words.end() ? "" : str("; its last line: ", shortened(said->second, 300));
  };
  if (const ErrorRecord* own = first_record(facts, false)) {
    out.exit_code = code_of(own->kind);
    out.cause = record_text(*own, facts);
    return own;
  }
  if (ends.death) {
    const int signal = WTERMSIG(ends.death->wait_status);
    out.cause =
        str("rank ", ends.death->rank, on_host(facts, ends.death->rank), " died: ", signal_text(signal),
            perhaps(signal), where(*ends.death), signal == SIGABRT ? last_words(*ends.death) : "");
    out.exit_code = is_defect(signal) ? kExitInternal : kExitPeer;
    out.restartable = true;
    out.dead = {ends.death->rank};
  } else if (ends.early) {
    out.exit_code = kExitPeer;
    out.restartable = true;
    out.cause = str("rank ", ends.early->rank, on_host(facts, ends.early->rank),
                    " left early, with exit code 0 while its peers still worked", where(*ends.early));
  } else if (const ErrorRecord* peer = first_record(facts, true)) {
    out.exit_code = kExitPeer;
    out.wrong = peer->wrong;
    out.restartable = !out.wrong;
    out.cause = facts.disagreement.empty() ? record_text(*peer, facts) : facts.disagreement;
    return peer;
  } else if (ends.asked) {
    out.exit_code = 128 + facts.stop_signal;
    out.cause = str("ended by ", stop_text(facts), " before it could save");
  } else if (ends.failed) {
    const int code = WEXITSTATUS(ends.failed->wait_status);
    out.exit_code = is_documented(code) ? code : kExitProgram;
    out.restartable = code == kExitPeer;
    out.cause = str(facts.nproc > 1 ? str("rank ", ends.failed->rank, on_host(facts, ends.failed->rank))
                                    : std::string("the worker"),
                    " exited with code ", code, " and left no error record", where(*ends.failed),
                    last_words(*ends.failed));
  } else if (!facts.not_started.empty()) {
    out.exit_code = kExitPeer;
    out.restartable = true;
    out.cause = facts.not_started;
  } else {
    out.exit_code = ends.stopped ? kExitStopped : kExitOk;
    out.unbegun = facts.stopped_ranks > 0 && facts.furthest_step < 0;
  }
  return nullptr;
}
}  // namespace

AttemptOutcome diagnose(const AttemptFacts& facts) {
  AttemptOutcome out;
  if (!facts.hung.empty()) {
    out.exit_code = kExitPeer;
    out.restartable = true;
    out.cause = facts.hung;
    return out;
  }
  if (facts.killed) return killed(facts);
  std::vector<const ErrorRecord*> told;
  if (const ErrorRecord* cause = find_cause(facts, out)) told.push_back(cause);
  for (const auto& record : facts.records) {
    if (std::any_of(told.begin(), told.end(),
                    [&](const ErrorRecord* other) { return repeats(record, *other); }))
      continue;
    told.push_back(&record);
    out.others.push_back(first_line(record_text(record, facts)));
  }
  return out;
}

std::string stopped_text(const AttemptOutcome& outcome, const std::string& reason) {
  return str("stopped ", reason.empty() ? "on request" : "by " + reason,
             outcome.unbegun
                 ? " before its first step, with nothing new to save; the same command starts it again"
                 : ", saved; the same command continues the run");
}

}  // namespace lockstep::launcher
