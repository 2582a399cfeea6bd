// The supervisor's loop around one group of processes.
#include "launcher/supervise/attempt.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/env.hpp>
#include <boost/process/environment.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/extend.hpp>
#include <boost/process/io.hpp>
#include <boost/process/pipe.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/private_file.h"
#include "distributed/watch/flight_record.h"
#include "launcher/supervise/late_watch.h"
#include "launcher/supervise/leftovers.h"

namespace lockstep {

namespace bp = boost::process;
namespace fs = std::filesystem;

namespace {

std::atomic<int> g_seen{0}, g_first{0};
void on_signal(int signal) {
  int none = 0;
  g_first.compare_exchange_strong(none, signal);
  ++g_seen;
}

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// How long a group may live on after one of its ranks recorded an error, and after it was told to end.
constexpr double kAfterError = 3, kAfterTerm = 2;
constexpr double kNeverReady = 5, kAfterDeath = 1;

class Attempt {
 public:
  Attempt(const LaunchCommand& command, int64_t nproc, const std::string& log_dir, double grace, Console& console)
      : log_dir_(log_dir), grace_(grace), console_(console), late_(log_dir, nproc, workers_deadline()), mpirun_log_(made_private(log_dir + "/launcher.log"), std::ios::app) {
    facts_.nproc = nproc;
    facts_.direct = nproc == 1;
    for (int64_t rank = 0; rank < nproc; ++rank) logs_.push_back({LogTail(rank_log_file(log_dir, rank)), {}});
    start(command);
  }

  AttemptFacts run() {
    while (child_->running()) {
      wait_for_output();
      obey_user();
      end_stragglers();
      for (const auto& line : late_.look()) console_.notice(line);
    }
    facts_.wait_status = child_->native_exit_code();
    leftovers_.end_all();
    if (!facts_.direct) remove_job_files(job(), mpirun_pid_);
    echo();
    for (size_t rank = 0; rank < logs_.size(); ++rank)
      if (auto rest = logs_[rank].cutter.rest(); !rest.empty()) console_.rank_line(static_cast<int64_t>(rank), rest);
    if (auto rest = out_cutter_.rest(); !rest.empty()) console_.line(rest);
    if (auto rest = err_cutter_.rest(); !rest.empty()) launcher_line(rest);
    console_.live("");
    facts_.records = read_error_records(log_dir_);
    facts_.records.insert(facts_.records.end(), told_.begin(), told_.end());
    for (const auto& record : facts_.records) note_in_log(record);
    for (int64_t rank = 0; rank < facts_.nproc; ++rank) facts_.stopped_ranks += fs::exists(stopped_file(log_dir_, rank));
    facts_.stop_signal = first_signal();
    facts_.where = [dir = log_dir_](int64_t rank) { return last_place(dir, rank); };
    return std::move(facts_);
  }

 private:
  struct RankLog {
    LogTail tail;
    LineCutter cutter;
  };

  void start(const LaunchCommand& command) {
    bp::environment variables = boost::this_process::environment();
    std::vector<std::string> inherited;
    for (const auto& entry : variables) inherited.push_back(entry.get_name());
    for (const auto& name : inherited)
      for (const auto& prefix : command.without)
        if (name.rfind(prefix, 0) == 0 && (prefix.back() == '_' || name == prefix || prefix.find("OMPI") == 0)) variables.erase(name);
    for (const auto& [name, value] : command.variables) variables[name] = value;
    for (bp::pipe* pipe : {&out_, &err_}) {
      fcntl(pipe->native_source(), F_SETFD, FD_CLOEXEC);
      fcntl(pipe->native_sink(), F_SETFD, FD_CLOEXEC);
      fcntl(pipe->native_source(), F_SETFL, O_NONBLOCK);
    }
    // mpirun ends its ranks and removes its files on SIGTERM; a lone rank simply goes.
    int at_our_death = facts_.direct ? SIGKILL : SIGTERM;
    auto before_exec = [at_our_death](auto&) {
      setpgid(0, 0);  // Ctrl-C reaches trainrun alone, which forwards it
      prctl(PR_SET_PDEATHSIG, at_our_death);
      std::signal(SIGPIPE, SIG_DFL);
    };
    std::vector<std::string> arguments(command.argv.begin() + 1, command.argv.end());
    try {
      child_.emplace(bp::exe = command.argv[0], bp::args = arguments, variables, bp::std_in<bp::null, bp::std_out> out_, bp::std_err > err_,
                     bp::extend::on_exec_setup = before_exec);
    } catch (const bp::process_error& error) { throw UserError(str("cannot start ", command.argv[0], ": ", error.code().message())); }
    mpirun_pid_ = child_->id();
    leftovers_.known_child(mpirun_pid_);
  }

  void wait_for_output() {
    pollfd fds[] = {{out_.native_source(), POLLIN, 0}, {err_.native_source(), POLLIN, 0}};
    poll(fds, 2, 20);
    if ((fds[0].revents | fds[1].revents) & POLLHUP) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    echo();
  }

  static void drain(int fd, LineCutter& into) {
    char buffer[16384];
    for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) into.add(buffer, static_cast<size_t>(n));
  }

  void echo() {
    drain(out_.native_source(), out_cutter_);
    drain(err_.native_source(), err_cutter_);
    LineCutter::Piece piece;
    for (size_t rank = 0; rank < logs_.size(); ++rank) {
      logs_[rank].tail.read(logs_[rank].cutter);
      while (logs_[rank].cutter.next(piece))
        if (!piece.live) console_.rank_line(static_cast<int64_t>(rank), piece.text);
    }
    while (out_cutter_.next(piece)) piece.live ? console_.live(piece.text) : console_.line(piece.text);
    while (err_cutter_.next(piece)) launcher_line(piece.text);
  }

  // mpirun's messages are kept for the diagnosis; what a rank says before its log is open is shown.
  void launcher_line(const std::string& text) {
    std::string line = text;
    if (auto record = parse_error_record_line(text, &line)) {  // of a rank that cannot write its record
      told_.push_back(*record);
      if (error_since_ == 0) error_since_ = now_s();
      if (line.empty()) return;
    }
    mpirun_log_ << line << std::endl;
    facts_.launcher_words += line + "\n";
    bool rule = line.size() > 40 && line.find_first_not_of('-') == std::string::npos;
    if (rule) in_block_ = !in_block_;
    if (!rule && !in_block_ && line.rfind("mpirun: ", 0) != 0) console_.line(line);
  }

  bool all_ready() const {
    for (int64_t rank = 0; rank < facts_.nproc; ++rank)
      if (!fs::exists(worker_file(log_dir_, rank))) return false;
    return true;
  }

  void obey_user() {
    int seen = signals_seen();
    if (seen == 0) return;
    if (stop_since_ == 0) {
      stop_since_ = now_s();
      console_.notice(str(signal_text(first_signal()), ": finishing the step and saving; a second signal kills at once"));
    }
    // Before a rank handles the signal it would die of it; a program that never says it is ready gets the signal all the same.
    if (!forwarded_ && (all_ready() || now_s() - stop_since_ > kNeverReady)) {
      kill(mpirun_pid_, SIGUSR1);
      forwarded_ = true;
    }
    if (seen > 1 || now_s() - stop_since_ > grace_)
      kill_group(seen > 1 ? "second signal" : str("not done ", number_text(grace_), " s after the first signal"));
  }

  void kill_group(const std::string& why) {
    if (!facts_.killed) console_.notice(str("killing all ranks: ", why));
    facts_.killed = true;
    find_workers();
    kill(-mpirun_pid_, SIGKILL);
    leftovers_.end_all(mpirun_pid_);
  }

  // A rank that recorded an error leaves at once, and mpirun ends the others. Where that does not happen in time, it is done here.
  void end_stragglers() {
    double now = now_s();
    if (now - looked_ < 0.1) return;
    looked_ = now;
    find_workers();
    if (!all_dead())
      dead_since_ = now;
    else if (now - dead_since_ > kAfterDeath)
      leftovers_.end_all(), dead_since_ = now;  // a process that a rank left keeps mpirun's pipe open
    if (error_since_ == 0 && fs::exists(log_dir_ + "/error-1.json")) error_since_ = now;
    if (error_since_ == 0) return;
    if (now - error_since_ > kAfterError && !terminated_) kill(mpirun_pid_, SIGTERM), terminated_ = true;
    if (now - error_since_ > kAfterError + kAfterTerm) kill_group("a rank failed and the others did not end");
  }

  // Open MPI's job id, which names its files in /dev/shm should it not live to remove them. A rank writes its file before it starts MPI,
  // so any one file is enough, also where mpirun died before the last rank was ready.
  std::string job() const {
    for (int64_t rank = 0; rank < facts_.nproc; ++rank) {
      std::ifstream file(worker_file(log_dir_, rank));
      Json json = Json::parse(file, nullptr, false);
      if (json.is_object()) return json.value("job", std::string());
    }
    return "";
  }

  void find_workers() {
    if (!pids_.empty() || facts_.direct || !all_ready()) return;
    for (int64_t rank = 0; rank < facts_.nproc; ++rank) {
      std::ifstream file(worker_file(log_dir_, rank));
      Json json = Json::parse(file, nullptr, false);
      if (!json.is_object()) return pids_.clear();  // being written; the next look will find it
      pids_.push_back(json.value("pid", 0));
    }
  }

  bool all_dead() const {
    return !pids_.empty() && std::all_of(pids_.begin(), pids_.end(), [](int pid) { return kill(pid, 0) != 0; });
  }

  void note_in_log(const ErrorRecord& record) {
    append_private(rank_log_file(log_dir_, record.rank), str(record.kind, ": ", record.message, "\n"));
  }

  std::string log_dir_;
  double grace_;
  Console& console_;
  LateWatch late_;
  std::ofstream mpirun_log_;
  AttemptFacts facts_;
  std::vector<ErrorRecord> told_;  // by lines of ranks instead of files
  std::vector<RankLog> logs_;
  bp::pipe out_, err_;
  LineCutter out_cutter_, err_cutter_;
  std::optional<bp::child> child_;
  Leftovers leftovers_;
  int mpirun_pid_ = 0;
  std::vector<int> pids_;
  bool in_block_ = false, forwarded_ = false, terminated_ = false;
  double stop_since_ = 0, error_since_ = 0, looked_ = 0, dead_since_ = 0;
};

}  // namespace

void install_signals(bool restart_calls) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = restart_calls ? SA_RESTART : 0;
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaction(signal, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}
int signals_seen() { return g_seen.load(); }
int first_signal() { return g_first.load(); }

AttemptFacts run_attempt(const LaunchCommand& command, int64_t nproc, const std::string& log_dir, double grace, Console& console) {
  return Attempt(command, nproc, log_dir, grace, console).run();
}

std::string last_place(const std::string& log_dir, int64_t rank) {
  try {
    FlightLog log = read_flight_log(progress_file(log_dir, rank));
    std::string out = log.progress.step >= 0 ? str("step ", log.progress.step) : "before the first step";
    for (const auto& entry : log.entries)
      if (entry.state == FlightState::started) {
        out += str(", in ", entry.verb, entry.label.empty() ? "" : str(" \"", entry.label, "\""), " of group ", entry.group.name);
        break;
      }
    return out;
  } catch (const Error&) {
    return "";  // no record, or none that can be read: the cause is told without a place
  }
}

}  // namespace lockstep
