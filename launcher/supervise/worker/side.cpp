// The worker's side of supervision: signals, log files, exceptions and injected faults.
#include "launcher/supervise/worker/side.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/files/plain_file.h"
#include "core/files/private_file.h"
#include "core/mesh/deadline.h"
#include "distributed/watch/flight_record.h"
#include "distributed/watch/kept_record.h"
#include "launcher/supervise/worker/corruption.h"
#include "launcher/supervise/worker/links.h"
#include "launcher/supervise/worker/one_signal.h"
#include "launcher/supervise/worker/program_error.h"
#include "launcher/supervise/worker/rank_log.h"
#include "launcher/supervise/worker/signals_apart.h"

namespace lockstep::launcher {

namespace {

std::atomic<bool> g_stop{false};
std::atomic<int64_t> g_step{-1};
std::unique_ptr<RankLog> g_log;  // of a supervised worker
int g_terminal_fd = STDOUT_FILENO;
int g_trainrun_fd = STDERR_FILENO;  // the stderr that trainrun reads, independent of the log
WorkerPlace g_place;
Main g_main = Main::lockstep;

// Under trainrun only trainrun acts on a second signal: a scheduler sends it to all processes, and the ranks
// must stop together.
void on_signal(int signal, siginfo_t* info, void*) {
  if (same_as_first(signal, info)) return;
  if (g_stop.exchange(true) && !g_place.supervised()) _exit(128 + signal);
}

void handle_signals() {
  struct sigaction action{}, before{};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  // SIGHUP still ends a program without trainrun; under nohup it stays ignored.
  const bool hangup =
      g_place.supervised() && sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN;
  // With these signals ignored, a write to a dead peer or beyond the file size limit fails with EPIPE or
  // EFBIG. The signal would end the rank without a message, and hide which rank failed first. A program on
  // its own keeps SIGPIPE.
  ::signal(SIGXFSZ, SIG_IGN);
  if (g_place.supervised() || g_place.world_size > 1) ::signal(SIGPIPE, SIG_IGN);
  for (int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP})
    if (signal != SIGHUP || hangup) sigaction(signal, &action, nullptr);
  static auto* apart = new SignalsApart({SIGTERM, SIGINT, SIGUSR1, SIGHUP});  // until the process ends
  (void)apart;
}

std::string host_name() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return host;
}

// stdout and stderr append to the rank's log; the old stdout stays open for the progress line.
void redirect(const WorkerPlace& at) {
  g_log = std::make_unique<RankLog>(rank_log_file(at.log_dir, at.rank));
  if (!g_log->open())
    throw UserError(str("cannot write ", rank_log_file(at.log_dir, at.rank), ": ", std::strerror(errno),
                        env("LOCKSTEP_HOSTS").empty()
                            ? ""
                            : str(" (on ", host_name(),
                                  "); all hosts must see the "
                                  "same folder runs: put it on a file system that they share")));
  g_terminal_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  g_trainrun_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  std::fflush(nullptr);
  g_log->take_output();
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
}

}  // namespace

void leave_worker(Failure failure, bool told) {
  std::fflush(nullptr);
  ErrorRecord& record = failure.record;
  int code = failure.exit_code;
  record.rank = g_place.rank;
  record.step = g_step.load();
  record.time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  const bool recorded = g_place.supervised() && write_error_record(g_place.log_dir, record) != 0;
  if (g_place.supervised() && !recorded) write_fully(g_trainrun_fd, error_record_line(record));
  if (!recorded && !(told && !g_place.supervised()) &&
      (!g_place.supervised() || g_trainrun_fd != STDERR_FILENO)) {
    std::string line = str(g_place.world_size > 1 ? str("[rank ", g_place.rank, "] ") : "", record.kind, ": ",
                           record.message, "\n");
    if (write(STDERR_FILENO, line.data(), line.size()) < 0) code = code ? code : kExitInternal;
  }
  if (auto recorder = distributed::flight_recorder()) recorder->keep();
  _exit(code);
}

namespace {
struct Fault {
  std::string kind;
  int64_t rank, step;
};

std::optional<Fault> read_fault() {
  std::string text = env("LOCKSTEP_FAULT");
  if (text.empty()) return std::nullopt;
  Fault fault;
  char kind[16] = "";
  long long rank = 0, step = 0;
  if (std::sscanf(text.c_str(), "%15[a-z]:rank=%lld,step=%lld", kind, &rank, &step) == 3) {
    for (const char* known :
         {"kill", "segv", "hang", "throw", "exit", "flip", "burst", "spike", "wrong", "glitch"})
      if (std::string(kind) == known) return Fault{kind, rank, step};
  }
  throw UserError(
      str("LOCKSTEP_FAULT is \"", text,
          "\"; write KIND:rank=R,step=S with KIND one of kill, segv, hang, throw, exit, flip, burst, spike, "
          "wrong, glitch"));
}

}  // namespace

bool stop_requested() { return g_stop.load(); }
bool stop_of_any_rank() {
  constexpr std::chrono::milliseconds kLook(250);
  static bool known = false;
  static std::chrono::steady_clock::time_point looked;
  if (known || !g_place.supervised() || g_place.world_size == 1) return known = known || stop_requested();
  const std::string told = stop_file(g_place.log_dir);
  if (stop_requested()) {
    append_private(told, "");
    return known = true;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now - looked < kLook) return false;
  looked = now;
  std::error_code unknown;
  return known = std::filesystem::exists(told, unknown);
}
bool regroup_requested() {
  std::error_code unknown;
  return stop_requested() && g_place.supervised() &&
         std::filesystem::exists(regroup_file(g_place.log_dir), unknown);
}
int terminal_fd() { return g_terminal_fd; }

int terminal_columns() {
  if (g_place.supervised()) return std::atoi(env("LOCKSTEP_TERMINAL").c_str());
  winsize size{};
  if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col ? size.ws_col : 80;
}

// Written last in the setup: from here on stop requests are handled.
void announce_worker(const WorkerPlace& at) {
  Json json = {{"rank", at.rank}, {"pid", getpid()}, {"host", host_name()}};
  append_private(worker_file(at.log_dir, at.rank), json.dump() + "\n");
}

void report_step(int64_t step) {
  g_step = step;
  if (g_log) g_log->rotate_if_large();
  if (auto recorder = distributed::flight_recorder()) recorder->progress(step, -1);
  fire_fault(g_place, step);
}

namespace {
const std::optional<Fault>& injected() {
  static const std::optional<Fault> fault = read_fault();
  return fault;
}
}  // namespace
void check_fault() { (void)injected(); }
namespace {
const Fault* fault_of(const WorkerPlace& place, int64_t step) {
  const std::optional<Fault>& fault = injected();
  return fault && fault->rank == place.rank && fault->step == step && place.restart == 0 ? &*fault : nullptr;
}
}  // namespace

bool fault_lasts(const WorkerPlace& place, std::string_view kind, int64_t step) {
  const std::optional<Fault>& fault = injected();
  return fault && fault->kind == kind && fault->rank == place.rank && fault->step <= step &&
         place.restart == 0;
}

bool fault_due(const WorkerPlace& place, std::string_view kind, int64_t step) {
  const Fault* fault = fault_of(place, step);
  return fault && fault->kind == kind;
}

void fire_fault(const WorkerPlace& place, int64_t step) {
  const Fault* fault = fault_of(place, step);
  if (!fault) return;
  if (fault->kind == "kill") raise(SIGKILL);
  if (fault->kind == "hang") raise(SIGSTOP);
  if (fault->kind == "exit") _exit(0);
  if (fault->kind == "throw") throw InternalError(str("fault injected by LOCKSTEP_FAULT at step ", step));
  if (fault->kind == "segv") {
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
  }
}

WorkerPlace enter_worker(Main whose) {
  g_main = whose;
  g_place = worker_place();
  export_place(g_place);
  logs::set_rank(static_cast<int>(g_place.rank));
  handle_signals();
  if (g_place.supervised()) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // trainrun set it for its own children; a script may be in between
    redirect(g_place);
    auto recorder = std::make_shared<distributed::FlightRecorder>(
        progress_file(g_place.log_dir, g_place.rank), static_cast<int>(g_place.rank),
        !env("LOCKSTEP_HOSTS").empty());
    recorder->start_heart([path = links_file(g_place.log_dir, g_place.rank)] {
      const std::string text = links_text(read_links());
      distributed::write_kept_record(path, text.data(), text.size());
    });
    distributed::set_flight_recorder(std::move(recorder));
    set_supervised(true);
    announce_worker(g_place);
  }
  return g_place;
}

namespace {
// clone(2) failed with EAGAIN.
std::string no_thread_text() {
  rlimit limit{};
  getrlimit(RLIMIT_NPROC, &limit);
  return str("the system gives no more threads or processes",
             limit.rlim_cur == RLIM_INFINITY ? "" : str(" (`ulimit -u` is ", limit.rlim_cur, ")"),
             "; raise `ulimit -u`, or the limit of pids of the container, or take fewer ranks or threads "
             "(compile.threads)");
}
}  // namespace

Failure describe_failure(std::exception_ptr failure) {
  auto of = [](const char* kind, int code, const std::string& message) {
    return Failure{{.kind = kind, .message = message}, code};
  };
  try {
    if (failure) std::rethrow_exception(failure);
    return of("InternalError", kExitInternal, "terminated without an exception");
  } catch (const CorruptionError& error) {
    Failure out = of(error.kind(), error.exit_code(), error.what());
    out.record.wrong = error.wrong;
    return out;
  } catch (const Error& error) {
    return of(error.kind(), error.exit_code(), error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    return of("UserError", kExitUser, file_error_text(error));
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again)
      return of("InternalError", kExitInternal, str("exception that is not of Lockstep: ", error.what()));
    return of("UserError", kExitUser, no_thread_text());
  } catch (const std::bad_alloc&) {
    return of("InternalError", kExitInternal, "out of memory (std::bad_alloc)");
  } catch (const std::exception& error) {
    return of("InternalError", kExitInternal, str("exception that is not of Lockstep: ", error.what()));
  } catch (...) { return of("InternalError", kExitInternal, "exception of unknown type"); }
}

std::string file_error_text(const std::filesystem::filesystem_error& error) {
  // "filesystem error: cannot create directories: Not a directory [runs/x/ckpt]"
  std::string what = error.what();
  const std::string before = "filesystem error: ", after = str(": ", error.code().message());
  if (what.rfind(before, 0) == 0) what = what.substr(before.size());
  if (auto at = what.find(after); at != std::string::npos) what.resize(at);
  const bool one = error.path2().empty();
  return str(what, error.path1().empty() ? "" : str(" ", error.path1().string()),
             one ? "" : str(" to ", error.path2().string()), after,
             "; look at what is there and whether you may use it");
}

void leave_worker(std::exception_ptr failure) {
  Failure known = describe_failure(failure);
  bool own = false;  // the user's
  if (g_main == Main::user) try {
      if (failure) std::rethrow_exception(failure);
      own = true;
    } catch (const Error&) {
    } catch (...) { own = true; }
  if (own)
    known = {{.kind = kProgramError, .message = exception_text(failure) + where_thrown()}, kExitProgram};
  leave_worker(std::move(known), false);
}

int worker_main(const std::function<int(const WorkerPlace&)>& body) {
  // Only UserErrors are caught, because the ranks have agreed on them. Other exceptions find no handler, so
  // that no frame is unwound before terminate.
  std::set_terminate([] { leave_worker(std::current_exception()); });
  try {
    int code = body(enter_worker());
    std::fflush(nullptr);
    if (code != kExitStopped || !g_place.supervised()) return code;
    // If the log folder is gone, the exit code reports the stop.
    return append_private(stopped_file(g_place.log_dir, g_place.rank), str(g_step.load(), "\n")) ? kExitOk
                                                                                                 : code;
  } catch (const UserError&) { leave_worker(std::current_exception()); }
}

}  // namespace lockstep::launcher
