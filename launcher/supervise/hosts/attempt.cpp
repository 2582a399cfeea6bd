// Runs one attempt on several hosts: the supervisor's loop around an mpirun.
#include "launcher/supervise/hosts/attempt.h"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>

#include "core/base/error.h"
#include "core/base/steady_seconds.h"
#include "core/files/plain_file.h"
#include "core/files/private_file.h"
#include "launcher/supervise/folders/run.h"
#include "launcher/supervise/hosts/mpirun_words.h"
#include "launcher/supervise/run/leftovers.h"
#include "launcher/supervise/run/rank_process.h"
#include "launcher/supervise/run/stop_request.h"
#include "launcher/supervise/watch/late.h"
#include "launcher/supervise/watch/link.h"

namespace lockstep::launcher {

namespace fs = std::filesystem;

namespace {
// Seconds, in order: until the other ranks are ended after one recorded an error; for mpirun to end all ranks
// before it is killed; until a program that never reports ready gets the stop signal; for mpirun to exit
// after it lost a host.
constexpr double kAfterHostError = 10, kToEnd = 8, kHostNeverReady = 5;
constexpr double kLinks = 1;  // seconds between two checks of the links

std::vector<std::string> hosts_by_rank(const LaunchCommand& command) {
  std::vector<std::string> out;
  for (int64_t rank = 0; rank < command.nproc; ++rank) out.push_back(command.hosts.of(rank));
  return out;
}

class HostsAttempt {
 public:
  HostsAttempt(const LaunchCommand& command, const std::string& log_dir, StopRequest& stop, Console& console)
      : command_(command),
        log_dir_(log_dir),
        stop_(stop),
        console_(console),
        late_(std::make_shared<LateWatch>(log_dir, command.nproc, command.deadlines, process_state,
                                          hosts_by_rank(command))),
        links_(hosts_by_rank(command)),
        launcher_log_(made_private(log_dir + "/launcher.log"), std::ios::app) {
    facts_.nproc = command.nproc;
    write_whole(host_file(log_dir), host_file_text(command.hosts));
    for (int64_t rank = 1; rank < command.nproc; ++rank)
      logs_.push_back({rank, LogTail(rank_log_file(log_dir, rank)), {}});
    mpirun_ = std::make_unique<RankProcess>(command, 0, Variables{}, rank_log_file(log_dir, 0));
    leftovers_.known_child(mpirun_->pid());
  }
  ~HostsAttempt() {
    if (mpirun_) mpirun_->kill_group();
  }

  AttemptFacts run() {
    while (!mpirun_->look()) {
      wait_for_words();
      obey_stop();
      end_survivors();
      if (killed_since_ != 0) continue;
      for (const auto& line : late_->look()) console_.notice(line);
      watch_links();
      if (facts_.hung.empty() && !late_->verdict().empty() && signals_seen() == 0) {
        facts_.hung = late_->verdict();
        kill_all("a rank keeps the others waiting, or they do not agree");
      }
      // This uses the shorter step deadline: during a start a rank may be silent for good reasons, a link may
      // not.
      if (const double limit = command_.deadlines.step_s;
          facts_.hung.empty() && links_.cut_s() >= limit && signals_seen() == 0) {
        facts_.hung = str("it was not back within ", limit, " s (watch.deadline)");
        kill_all("a link between two hosts is cut");
      }
    }
    leftovers_.end_all();
    echo(true);
    console_.live("");
    gather();
    return std::move(facts_);
  }

 private:
  using Variables = std::vector<std::pair<std::string, std::string>>;
  struct Log {
    int64_t rank;
    LogTail tail;
    LineCutter cutter;
  };

  void wait_for_words() {
    pollfd fds[] = {{mpirun_->out_fd(), POLLIN, 0}, {mpirun_->err_fd(), POLLIN, 0}};
    poll(fds, 2, 20);  // SIGCHLD of mpirun interrupts it
    if (((fds[0].revents | fds[1].revents) & (POLLHUP | POLLIN)) == POLLHUP) poll(nullptr, 0, 5);
    echo(false);
  }

  void echo(bool rest) {
    auto words = mpirun_->words(rest);
    for (const auto& piece : words.log)
      if (!piece.live) rank_line(0, piece.text);
    for (const auto& piece : words.out)
      piece.live && !rest ? console_.live(piece.text) : console_.line(piece.text);
    for (auto& log : logs_) {
      log.tail.read(log.cutter);
      if (rest) log.tail.read(log.cutter);  // the rest of a log that was just replaced
      for (LineCutter::Piece piece; log.cutter.next(piece);)
        if (!piece.live) rank_line(log.rank, piece.text);
      if (const std::string last = rest ? log.cutter.rest() : ""; !last.empty()) rank_line(log.rank, last);
    }
    for (const auto& piece : words.err) err_line(piece.text);
  }

  void rank_line(int64_t rank, const std::string& text) {
    words_.take_rank_line(text);
    console_.rank_line(rank, text);
  }

  void err_line(const std::string& text) {
    std::string line = text;
    // from a rank that cannot write its record file
    if (auto record = parse_error_record_line(text, &line)) {
      told_records_.push_back(*record);
      if (line.empty()) return;
    }
    launcher_log_ << line << std::endl;
    if (words_.take(line)) {
      if (lost_since_ == 0 && !words_.meaning().lost_hosts.empty()) lost_since_ = steady_seconds();
      return;
    }
    if (!trim(line).empty()) last_line_ = trim(line);
    console_.line(line);
  }

  void watch_links() {
    const double now = steady_seconds();
    if (now - links_looked_ < kLinks) return;
    links_looked_ = now;
    std::vector<Links> words(command_.nproc);
    for (int64_t rank = 0; rank < command_.nproc; ++rank) {
      std::string text, why;  // without a file no link is reported
      read_plain(links_file(log_dir_, rank), text, why, 1 << 20);
      if (auto links = parse_links(text)) words[rank] = std::move(*links);
    }
    for (const auto& line : links_.look(words, distributed::flight_clock_ns())) console_.notice(line);
  }

  void obey_stop() {
    if (!stop_.look([this] { return late_->slow(); })) return;
    if (!told_ && (all_ready() || stop_.also_unready())) {
      kill(mpirun_->pid(), SIGUSR1);  // which mpirun forwards to every rank
      told_ = true;
    }
    if (const std::string why = stop_.kill_reason(); !facts_.killed && !why.empty()) kill_all(why);
  }

  bool all_ready() const {
    for (int64_t rank = 0; rank < command_.nproc; ++rank)
      if (!fs::exists(worker_file(log_dir_, rank))) return false;
    return true;
  }

  void end_survivors() {
    const double now = steady_seconds();
    if (killed_since_ != 0) {
      if (now - killed_since_ > kToEnd) mpirun_->kill_group();
      return;
    }
    if (lost_since_ != 0 && now - lost_since_ > kToEnd) return kill_all("a host was lost");
    if (now - looked_ < 0.2) return;
    looked_ = now;
    if (error_since_ == 0 && (!told_records_.empty() || fs::exists(log_dir_ + "/error-1.json")))
      error_since_ = now;
    if (error_since_ != 0 && now - error_since_ > kAfterHostError)
      kill_all("a rank failed and the others did not end");
  }

  // mpirun makes the daemons of all hosts end their ranks; it is killed if it does not exit.
  void kill_all(const std::string& why) {
    console_.notice(str("killing all ranks: ", why));
    facts_.killed = true;
    if (killed_since_ == 0) killed_since_ = steady_seconds();
    kill(mpirun_->pid(), SIGTERM);
  }

  void gather() {
    read_what_ranks_left(facts_, log_dir_, told_records_, *late_, stop_);
    // A copy of a record is at least a second old.
    facts_.where = [late = late_, dir = log_dir_](int64_t rank) {
      return last_step(dir, rank) < 0 ? "" : str("last seen at ", late->place(rank));
    };
    facts_.host = [hosts = command_.hosts](int64_t rank) { return hosts.of(rank); };
    auto meaning = words_.meaning();
    facts_.lost_hosts = meaning.lost_hosts;
    const bool own = std::any_of(facts_.records.begin(), facts_.records.end(),
                                 [](const auto& record) { return record.kind != "PeerError"; });
    // A scheduler that stops a run may end daemons and ranks after they saved: all had agreed to stop.
    const bool saved = facts_.stopped_ranks > 0 && facts_.records.empty();
    if (!facts_.lost_hosts.empty() && !own && !saved && !facts_.stop_signal) {
      facts_.hung =
          str("host ", join(facts_.lost_hosts, ", "), " was lost: its connection ended, or answered no more");
      return;
    }
    if (facts_.lost_hosts.empty()) facts_.lost_hosts = late_->silent_hosts();
    if (facts_.lost_hosts.empty() && !own && !saved && !links_.cut().empty() &&
        (!facts_.hung.empty() || !facts_.records.empty())) {
      facts_.hung = str(links_.cut(), facts_.hung.empty() ? "" : "; ", facts_.hung);
      facts_.lost_hosts = links_.cut_hosts();
    }
    if (facts_.lost_hosts.empty() && !own && !saved && !meaning.unreached.empty())
      name_unreached(meaning.unreached);
    if (killed_since_ != 0 || saved) return;
    facts_.ends = std::move(meaning.ends);
    const int status = mpirun_->wait_status();
    if (facts_.ends.empty() && facts_.records.empty() && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
      facts_.not_started = not_started_words(status);
  }

  // Links without any connection: during a start, when no kernel has yet noticed a missing answer.
  void name_unreached(const std::vector<MpirunWords::Meaning::Unreached>& unreached) {
    const auto& first = unreached.front();
    facts_.hung =
        str(first.from, " cannot connect to ", first.to, " (", first.why,
            "); look whether routes and firewalls let each host reach each other one on the network ",
            "of --network", facts_.hung.empty() ? "" : "; ", facts_.hung);
    std::set<std::pair<std::string, std::string>> links;
    const std::vector<std::string> hosts = hosts_by_rank(command_);
    auto known = [&](const std::string& host) {
      return std::find(hosts.begin(), hosts.end(), host) != hosts.end();
    };
    for (const auto& link : unreached)
      if (known(link.from) && known(link.to)) links.insert({link.from, link.to});
    facts_.lost_hosts = hosts_to_leave_out(links, hosts);
  }

  std::string not_started_words(int status) const {
    const std::string said = words_.shown(400);
    const bool begun = facts_.furthest_step >= 0 || fs::exists(worker_file(log_dir_, 0));
    if (begun && WIFSIGNALED(status))
      return str("mpirun died: ", signal_text(WTERMSIG(status)), ", and the ranks of all hosts with it",
                 facts_.furthest_step >= 0 ? str("; they were at step ", facts_.furthest_step) : "",
                 "; look who ended it (the kernel's memory killer, an administrator)");
    return str("mpirun ended with ",
               WIFEXITED(status) ? str("code ", WEXITSTATUS(status)) : signal_text(WTERMSIG(status)),
               " and started no rank",
               last_line_.empty() ? "" : str("; the last line: ", shortened(last_line_, 300)),
               said.empty() ? "" : str("; Open MPI says: ", said),
               "; look whether each host is reached without a password (ssh HOST true) and has Open MPI ",
               "and this folder");
  }

  const LaunchCommand command_;
  std::string log_dir_;
  StopRequest& stop_;
  Console& console_;
  std::shared_ptr<LateWatch> late_;
  LinkWatch links_;
  std::ofstream launcher_log_;
  AttemptFacts facts_;
  Leftovers leftovers_;
  std::vector<Log> logs_;
  std::unique_ptr<RankProcess> mpirun_;
  MpirunWords words_;
  std::string last_line_;
  std::vector<ErrorRecord> told_records_;
  bool told_ = false;
  double error_since_ = 0, looked_ = 0, links_looked_ = 0, killed_since_ = 0, lost_since_ = 0;
};

}  // namespace

AttemptFacts run_hosts_attempt(const LaunchCommand& command, const std::string& log_dir, StopRequest& stop,
                               Console& console) {
  return HostsAttempt(command, log_dir, stop, console).run();
}

}  // namespace lockstep::launcher
