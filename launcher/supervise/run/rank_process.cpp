// RankProcess: starts a rank with Boost.Process and reads its pipes.
#include "launcher/supervise/run/rank_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <boost/process/args.hpp>
#include <boost/process/env.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/extend.hpp>
#include <boost/process/io.hpp>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"

namespace lockstep::launcher {

namespace bp = boost::process;

namespace {
constexpr const char* kFiles = "; each rank takes two files of this process: raise ulimit -n";

bp::pipe make_pipe() {
  try {
    return bp::pipe();
  } catch (const bp::process_error& error) {
    throw UserError(str("cannot start the ranks: ", error.code().message(), kFiles));
  }
}

bp::environment environment_of(const LaunchCommand& command, int64_t rank,
                               const std::vector<std::pair<std::string, std::string>>& more) {
  bp::environment out = boost::this_process::environment();
  std::vector<std::string> inherited;
  for (const auto& entry : out) inherited.push_back(entry.get_name());
  for (const auto& name : inherited)
    for (const auto& prefix : command.without)
      if (name.rfind(prefix, 0) == 0 && (prefix.back() == '_' || name == prefix || prefix.find("OMPI") == 0))
        out.erase(name);
  std::vector<std::pair<std::string, std::string>> place;  // for ranks under mpirun, mpirun sets these itself
  if (!command.hosts.several()) place = place_variables(str(rank), command.nproc);
  for (const auto& variables : {command.variables, place, more})
    for (const auto& [name, value] : variables)
      out.set(name, value);  // operator[] of Boost 1.74 reads past the end of short variables
  return out;
}

std::string program_of(const LaunchCommand& command) {
  if (!command.hosts.several()) return command.argv[0];
  const std::string found = found_in_path(command.argv[0]);
  if (found.empty())
    throw UserError(str(command.argv[0],
                        " is not found, which starts the ranks of several hosts: install Open "
                        "MPI (openmpi-bin), or put its bin folder into PATH"));
  return found;
}

// At most a MiB at a time, except for the final rest: a rank that writes without end must not starve the
// others.
void drain(int fd, LineCutter& into, bool rest) {
  char buffer[16384];
  size_t taken = 0;
  for (ssize_t n; (rest || taken < (1 << 20)) && (n = read(fd, buffer, sizeof buffer)) > 0;
       taken += static_cast<size_t>(n))
    into.add(buffer, n);
}

std::vector<LineCutter::Piece> pieces(LineCutter& cutter, bool rest) {
  std::vector<LineCutter::Piece> out;
  for (LineCutter::Piece piece; cutter.next(piece);) out.push_back(piece);
  if (rest)
    if (auto last = cutter.rest(); !last.empty()) out.push_back({last, false});
  return out;
}
}  // namespace

RankProcess::RankProcess(const LaunchCommand& command, int64_t rank,
                         const std::vector<std::pair<std::string, std::string>>& more,
                         const std::string& log_file)
    : out_(make_pipe()), err_(make_pipe()), log_(log_file) {
  for (bp::pipe* pipe : {&out_, &err_}) {
    fcntl(pipe->native_source(), F_SETFD, FD_CLOEXEC);
    fcntl(pipe->native_sink(), F_SETFD, FD_CLOEXEC);
    fcntl(pipe->native_source(), F_SETFL, O_NONBLOCK);
  }
  const int parent = getpid();
  // mpirun handles signals at any time
  const bool heeds_stop = command.heeds_stop && !command.hosts.several();
  auto before_exec = [parent, heeds_stop](auto&) {
    setpgid(0, 0);  // Ctrl-C reaches only trainrun, which signals the ranks
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // the parent died before the prctl took effect
    signal(SIGPIPE, SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
    sigset_t waiting;
    sigemptyset(&waiting);
    if (heeds_stop)
      for (int each : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&waiting, each);
    sigprocmask(SIG_SETMASK, &waiting, nullptr);
  };
  const std::vector<std::string> arguments(command.argv.begin() + 1, command.argv.end());
  try {
    child_ = bp::child(bp::exe = program_of(command), bp::args = arguments,
                       environment_of(command, rank, more), bp::std_in<bp::null, bp::std_out> out_,
                       bp::std_err > err_, bp::extend::on_exec_setup = before_exec);
  } catch (const bp::process_error& error) {
    const bool files = error.code() == std::errc::too_many_files_open;
    throw UserError(str("cannot start ", command.argv[0], ": ", error.code().message(), files ? kFiles : ""));
  }
  pid_ = child_.id();
}

bool RankProcess::look() {
  if (ended_) return false;
  std::error_code gone;  // nothing else reaps it, so there is no error
  ended_ = !child_.running(gone);
  return ended_;
}

void RankProcess::kill_group() {
  if (ended_) return;
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
}

RankProcess::Words RankProcess::words(bool rest) {
  drain(out_.native_source(), out_cutter_, rest);
  drain(err_.native_source(), err_cutter_, rest);
  log_.read(log_cutter_);
  if (rest) log_.read(log_cutter_);  // the rest of a log that was just replaced
  return {pieces(out_cutter_, rest), pieces(err_cutter_, rest), pieces(log_cutter_, rest)};
}

}  // namespace lockstep::launcher
