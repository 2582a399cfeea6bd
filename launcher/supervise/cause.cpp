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
bool is_defect(int signal) { return signal == SIGSEGV || signal == SIGBUS || signal == SIGABRT || signal == SIGILL || signal == SIGFPE; }

int code_of(const std::string& kind) { return kind == "UserError" ? kExitUser : kind == "PeerError" ? kExitPeer : kExitInternal; }

// An error that ranks agreed on says itself whose it is ("rank 2: disk full"), and each of them records it. Wrong input before the first step
// is wrong for all of them.
std::string record_text(const ErrorRecord& record, int64_t nproc) {
  static const std::regex agreed(R"(^rank \d+: )");
  std::string who = nproc > 1 && (record.step >= 0 || record.kind != "UserError") ? str("rank ", record.rank, ": ") : "", message = record.message;
  std::smatch found;
  if (std::regex_search(message, found, agreed)) who = found[0], message = found.suffix();
  return str(who, record.kind, record.step >= 0 ? str(" at step ", record.step) : "", ": ", message);
}
// Of ranks that read the same input each meets what is wrong with it: it is told once. The logs of the ranks hold all.
bool repeats(const ErrorRecord& record, const ErrorRecord& told) {
  return record.kind == told.kind && (record.message == told.message || told.kind == "UserError");
}
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }
}  // namespace

LauncherReport read_launcher_words(const std::string& words) {
  LauncherReport out;
  std::smatch found;
  static const std::regex by_signal(R"(process rank\s+(\d+)\s+with PID\s+\d+\s+on\s+node\s+\S+\s+exited on\s+signal\s+(\d+))");
  static const std::regex by_code(R"(Process name:\s+\[\[\d+,\d+\],(\d+)\]\s+Exit code:\s+(\d+))");
  static const std::regex too_early(R"(process rank\s+(\d+)\s+with PID\s+\d+\s+on\s+node\s+\S+\s+exiting\s+improperly)");
  if (std::regex_search(words, found, by_signal))
    out.rank = std::stoll(found[1]), out.signal = std::stoi(found[2]);
  else if (std::regex_search(words, found, too_early))
    out.rank = std::stoll(found[1]), out.early = true;
  else if (std::regex_search(words, found, by_code))
    out.rank = std::stoll(found[1]), out.exit_code = std::stoi(found[2]);
  return out;
}

Outcome diagnose(const AttemptFacts& facts) {
  Outcome out;
  if (facts.killed) {
    out.exit_code = facts.stop_signal ? 128 + facts.stop_signal : kExitPeer;
    out.cause = facts.stop_signal ? str("killed after ", signal_text(facts.stop_signal), " before the run could save")
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

  LauncherReport report;
  if (facts.direct) {
    report.rank = 0;
    if (WIFSIGNALED(facts.wait_status))
      report.signal = WTERMSIG(facts.wait_status);
    else
      report.exit_code = WEXITSTATUS(facts.wait_status);
  } else {
    report = read_launcher_words(facts.launcher_words);
  }
  bool clean = WIFEXITED(facts.wait_status) && WEXITSTATUS(facts.wait_status) == 0;
  bool stopping = facts.stop_signal != 0;
  const ErrorRecord* chosen = nullptr;

  if (own) {
    chosen = own;
    out.exit_code = code_of(own->kind);
    out.cause = record_text(*own, facts.nproc);
  } else if (report.signal && !(stopping && (report.signal == SIGUSR1 || report.signal == SIGTERM || report.signal == SIGINT))) {
    std::string where = facts.where ? facts.where(report.rank) : "";
    out.cause = str("rank ", report.rank, " died: ", signal_text(report.signal), perhaps(report.signal), where.empty() ? "" : "; " + where);
    out.exit_code = is_defect(report.signal) ? kExitInternal : kExitPeer;
    out.restartable = true;
    out.dead = {report.rank};
  } else if (peer) {
    chosen = peer;
    out.exit_code = kExitPeer;
    out.restartable = true;
    out.cause = record_text(*peer, facts.nproc);
  } else if (report.signal) {
    out.exit_code = 128 + facts.stop_signal;
    out.cause = str("ended by ", signal_text(facts.stop_signal), " before it could save");
  } else if (clean) {
    out.exit_code = facts.stopped_ranks > 0 ? kExitStopped : kExitOk;
  } else if (report.exit_code == kExitStopped) {
    out.exit_code = kExitStopped;
  } else if (report.early) {
    std::string where = facts.where ? facts.where(report.rank) : "";
    out.exit_code = kExitPeer;
    out.cause = str("rank ", report.rank, " left early, with exit code 0 while its peers still worked", where.empty() ? "" : "; " + where);
  } else if (report.rank >= 0 && report.exit_code) {
    out.exit_code = report.exit_code;
    out.restartable = report.exit_code == kExitPeer;
    out.cause = str(facts.nproc > 1 ? str("rank ", report.rank) : "the worker", " exited with code ", report.exit_code,
                    " and left no error record");
  } else {
    bool by_signal = WIFSIGNALED(facts.wait_status);
    out.exit_code = by_signal ? kExitPeer : WEXITSTATUS(facts.wait_status);
    out.restartable = by_signal;
    std::string words = trim(facts.launcher_words);
    out.cause =
        str("mpirun ",
            by_signal ? str("died: ", signal_text(WTERMSIG(facts.wait_status))) : str("exited with code ", WEXITSTATUS(facts.wait_status)),
            words.empty() ? "" : ":\n" + words);
  }
  std::vector<const ErrorRecord*> told;
  if (chosen) told.push_back(chosen);
  for (const auto& record : facts.records) {
    if (std::any_of(told.begin(), told.end(), [&](const ErrorRecord* other) { return repeats(record, *other); })) continue;
    told.push_back(&record);
    out.others.push_back(first_line(record_text(record, facts.nproc)));
  }
  return out;
}

}  // namespace lockstep
