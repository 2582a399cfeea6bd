// The rules of the root cause.
#include "launcher/supervise/cause.h"

#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <regex>

#include "core/base/error.h"

namespace lockstep {

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

// What a program may say with its exit code, in the words of trainrun's own; any other code is the program's
// own business.
bool is_documented(int code) {
  return code == kExitProgram || code == kExitUser || code == kExitInternal || code == kExitPeer;
}

// An error that ranks agreed on says itself whose it is ("rank 2: disk full"), and each of them records it.
// Wrong input before the first step is wrong for all of them.
const std::regex& agreed() {
  static const std::regex out(R"(^rank \d+: )");
  return out;
}
std::string record_text(const ErrorRecord& record, int64_t nproc) {
  std::string who = nproc > 1 && (record.step >= 0 || record.kind != "UserError")
                        ? str("rank ", record.rank, ": ")
                        : "",
              message = record.message;
  std::smatch found;
  if (std::regex_search(message, found, agreed())) who = found[0], message = found.suffix();
  return str(who, record.kind, record.step >= 0 ? str(" at step ", record.step) : "", ": ", message);
}
// Of ranks that read the same input each meets what is wrong with it, and the peers of a rank that throws may
// quote it: it is told once. The logs of the ranks hold all.
bool repeats(const ErrorRecord& record, const ErrorRecord& told) {
  if (std::smatch rank; record.kind == "PeerError" && std::regex_search(record.message, rank, agreed()))
    if (told.message.find(rank.suffix()) != std::string::npos) return true;
  return record.kind == told.kind && (record.message == told.message || told.kind == "UserError");
}
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }
}  // namespace

AttemptOutcome diagnose(const AttemptFacts& facts) {
  AttemptOutcome out;
  if (!facts.hung.empty()) {
    out.exit_code = kExitPeer;
    out.restartable = true;
    out.cause = facts.hung;
    return out;
  }
  if (facts.killed) {
    out.exit_code = facts.stop_signal ? 128 + facts.stop_signal : kExitPeer;
    out.cause = facts.stop_signal
                    ? str("killed after ", signal_text(facts.stop_signal), " before the run could save")
                    : "killed: it did not end by itself after a failure";
    if (!facts.stop_signal && !facts.records.empty())
      out.cause = record_text(facts.records[0], facts.nproc), out.exit_code = code_of(facts.records[0].kind);
    out.restartable = !facts.stop_signal && out.exit_code == kExitPeer;
    return out;
  }
  const ErrorRecord* own = nullptr;
  const ErrorRecord* peer = nullptr;
  for (const auto& record : facts.records) {
    auto& first = record.kind == "PeerError" ? peer : own;
    if (!first) first = &record;
  }

  const bool stopping = facts.stop_signal != 0;
  const RankEnd *death = nullptr, *asked = nullptr, *early = nullptr, *failed = nullptr;
  bool stopped = facts.stopped_ranks > 0;
  for (const RankEnd& end : facts.ends) {
    if (end.ours) continue;
    if (WIFSIGNALED(end.wait_status)) {
      auto& first = stopping && asks_to_end(WTERMSIG(end.wait_status)) ? asked : death;
      if (!first) first = &end;
    } else if (WEXITSTATUS(end.wait_status) == kExitStopped) {
      stopped = true;
    } else if (WEXITSTATUS(end.wait_status) != 0) {
      if (!failed) failed = &end;
    } else if (end.early && !early) {
      early = &end;
    }
  }
  auto who = [&](const RankEnd& end) {
    return facts.nproc > 1 ? str("rank ", end.rank) : std::string("the worker");
  };
  auto where = [&](const RankEnd& end) {
    std::string place = facts.where ? facts.where(end.rank) : "";
    return place.empty() ? "" : "; " + place;
  };
  const ErrorRecord* chosen = nullptr;

  if (own) {
    chosen = own;
    out.exit_code = code_of(own->kind);
    out.cause = record_text(*own, facts.nproc);
  } else if (death) {
    const int signal = WTERMSIG(death->wait_status);
    out.cause = str("rank ", death->rank, " died: ", signal_text(signal), perhaps(signal), where(*death));
    out.exit_code = is_defect(signal) ? kExitInternal : kExitPeer;
    out.restartable = true;
    out.dead = {death->rank};
  } else if (early) {
    out.exit_code = kExitPeer;
    out.restartable = true;
    out.cause = str("rank ", early->rank, " left early, with exit code 0 while its peers still worked",
                    where(*early));
  } else if (peer) {
    chosen = peer;
    out.exit_code = kExitPeer;
    out.restartable = true;
    out.cause = facts.disagreement.empty() ? record_text(*peer, facts.nproc) : facts.disagreement;
  } else if (asked) {
    out.exit_code = 128 + facts.stop_signal;
    out.cause = str("ended by ", signal_text(facts.stop_signal), " before it could save");
  } else if (failed) {
    const int code = WEXITSTATUS(failed->wait_status);
    out.exit_code = is_documented(code) ? code : kExitProgram;
    out.restartable = code == kExitPeer;
    out.cause = str(who(*failed), " exited with code ", code, " and left no error record", where(*failed));
  } else {
    out.exit_code = stopped ? kExitStopped : kExitOk;
  }
  std::vector<const ErrorRecord*> told;
  if (chosen) told.push_back(chosen);
  for (const auto& record : facts.records) {
    if (std::any_of(told.begin(), told.end(),
                    [&](const ErrorRecord* other) { return repeats(record, *other); }))
      continue;
    told.push_back(&record);
    out.others.push_back(first_line(record_text(record, facts.nproc)));
  }
  return out;
}

}  // namespace lockstep
