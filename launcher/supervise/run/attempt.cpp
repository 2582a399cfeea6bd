// Runs one attempt on one host: the supervisor's loop over the processes of its ranks.
#include "launcher/supervise/run/attempt.h"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/base/steady_seconds.h"
#include "core/files/plain_file.h"
#include "core/files/private_file.h"
#include "core/reading/whole_number.h"
#include "distributed/watch/flight_record.h"
#include "launcher/supervise/run/leftovers.h"
#include "launcher/supervise/run/rank_process.h"
#include "launcher/supervise/run/rank_server.h"
#include "launcher/supervise/run/stop_request.h"
#include "launcher/supervise/watch/late.h"

namespace lockstep::launcher {

namespace fs = std::filesystem;

namespace {

// How long the other ranks may continue: after one recorded an error but has not exited; after one exited
// with an error, so that the others can report theirs; after one exited with code 0 without MPI_Finalize,
// when all may be exiting.
constexpr double kAfterError = 5, kAfterExit = 1, kAfterEarly = 1;

class Attempt {
 public:
  Attempt(const LaunchCommand& command, const std::string& log_dir, StopRequest& stop, Console& console)
      : log_dir_(log_dir),
        stop_(stop),
        console_(console),
        late_(std::make_shared<LateWatch>(log_dir, command.nproc, command.deadlines)),
        launcher_log_(made_private(log_dir + "/launcher.log"), std::ios::app) {
    facts_.nproc = command.nproc;
    if (command.nproc > 1) server_.emplace(command.nproc);
    for (int64_t rank = 0; rank < command.nproc; ++rank) start(command, rank);
  }
  ~Attempt() { kill_ranks(); }  // after a start that failed halfway

  AttemptFacts run() {
    while (facts_.ends.size() < ranks_.size()) {
      wait_for_words();
      meet_ends();
      obey_stop();
      end_survivors();
      for (const auto& line : late_->look()) console_.notice(line);
      if (facts_.hung.empty() && !late_->verdict().empty() && signals_seen() == 0) {
        facts_.hung = late_->verdict();
        kill_group("a rank keeps the others waiting, or they do not agree");
      }
    }
    leftovers_.end_all();
    echo(true);
    console_.live("");
    late_->keep();
    if (std::error_code none; !fs::exists(log_dir_, none))
      console_.notice(str(log_dir_, " is gone: it was moved or removed while the run wrote its logs there"));
    read_what_ranks_left(facts_, log_dir_, told_records_, *late_, stop_);
    facts_.where = [late = late_](int64_t rank) { return late->place(rank); };
    return std::move(facts_);
  }

 private:
  void start(const LaunchCommand& command, int64_t rank) {
    auto more = server_ ? server_->variables(rank) : std::vector<std::pair<std::string, std::string>>{};
    ranks_.push_back(std::make_unique<RankProcess>(command, rank, more, rank_log_file(log_dir_, rank)));
    leftovers_.known_child(ranks_.back()->pid());
    late_->started(rank, ranks_.back()->pid());
  }

  void wait_for_words() {
    std::vector<pollfd> fds;
    for (const auto& rank : ranks_)
      if (!rank->ended()) fds.insert(fds.end(), {{rank->out_fd(), POLLIN, 0}, {rank->err_fd(), POLLIN, 0}});
    poll(fds.data(), fds.size(), 20);  // SIGCHLD of a finished rank interrupts it
    bool said = false, closed = false;
    for (const auto& fd : fds) said |= (fd.revents & POLLIN) != 0, closed |= (fd.revents & POLLHUP) != 0;
    if (closed && !said) poll(nullptr, 0, 5);  // a rank that closed its output, or is ending
    echo(false);
  }

  // Output of a rank before its log is open comes through its pipes; rank 0's pipe also carries the progress
  // line.
  void echo(bool rest) {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const auto rank = static_cast<int64_t>(i);
      auto words = ranks_[i]->words(rest);
      for (const auto& piece : words.log)
        if (!piece.live) console_.rank_line(rank, piece.text);
      for (const auto& piece : words.out)
        if (!piece.live || rest)
          console_.rank_line(rank, piece.text);
        else if (rank == 0)
          console_.live(piece.text);
      for (const auto& piece : words.err) err_line(rank, piece.text);
      if (server_)
        for (const auto& line : split(trim(server_->words(rank)), '\n'))
          if (!line.empty()) err_line(rank, line);
    }
  }

  void err_line(int64_t rank, const std::string& text) {
    std::string line = text;
    // from a rank that cannot write its record file
    if (auto record = parse_error_record_line(text, &line)) {
      told_records_.push_back(*record);
      if (error_since_ == 0) error_since_ = steady_seconds();
      if (line.empty()) return;
    }
    if (std::any_of(line.begin(), line.end(),
                    [](unsigned char c) { return std::isalnum(c); }))  // no rule of dashes
      facts_.last_words[rank] = trim(line);
    launcher_log_ << "[rank " << rank << "] " << line << std::endl;
    console_.rank_line(rank, line);
  }

  void meet_ends() {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (!ranks_[i]->look()) continue;
      const int status = ranks_[i]->wait_status();
      const auto rank = static_cast<int64_t>(i);
      facts_.ends.push_back({rank, status, killing_, false});
      if (killing_) continue;
      const bool hard = WIFSIGNALED(status) && WTERMSIG(status) != SIGTERM && WTERMSIG(status) != SIGINT &&
                        WTERMSIG(status) != SIGUSR1;
      if (hard)
        kill_ranks();  // its peers would wait for it
      else if (status != 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == kExitStopped))
        sooner(end_at_, steady_seconds() + kAfterExit);
      else if (server_ && !server_->left(rank))
        early_.push_back({facts_.ends.size() - 1, steady_seconds()});
    }
  }
  static void sooner(double& when, double then) { when = when == 0 ? then : std::min(when, then); }

  void end_survivors() {
    if (facts_.ends.size() == ranks_.size()) return;
    const double now = steady_seconds();
    if (end_at_ != 0 && now > end_at_) return kill_ranks();
    if (!early_.empty() && now - early_[0].since > kAfterEarly && anyone_in_mpi()) {
      for (const auto& [end, since] : early_) facts_.ends[end].early = true;
      return kill_ranks();
    }
    if (now - looked_ < 0.1) return;
    looked_ = now;
    if (error_since_ == 0 && fs::exists(log_dir_ + "/error-1.json")) error_since_ = now;
    if (error_since_ != 0 && now - error_since_ > kAfterError && !facts_.killed)
      kill_group("a rank failed and the others did not end");
  }

  bool anyone_in_mpi() const {
    for (size_t i = 0; i < ranks_.size(); ++i)
      if (const auto rank = static_cast<int64_t>(i);
          !ranks_[i]->ended() && server_->joined(rank) && !server_->left(rank))
        return true;
    return false;
  }

  void obey_stop() {
    if (!stop_.look([this] { return late_->slow(); })) return;
    const bool gone = !fs::exists(log_dir_);  // and with it the files that mark ranks as ready
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (told_.count(i) || ranks_[i]->ended()) continue;
      const bool ready = gone || fs::exists(worker_file(log_dir_, static_cast<int64_t>(i)));
      if (!ready && !stop_.also_unready()) continue;
      kill(ranks_[i]->pid(), SIGUSR1);
      told_.insert(i);
    }
    if (const std::string why = stop_.kill_reason(); !facts_.killed && !why.empty()) kill_group(why);
  }

  void kill_group(const std::string& why) {
    console_.notice(str("killing all ranks: ", why));
    facts_.killed = true;
    kill_ranks();
  }

  void kill_ranks() {
    killing_ = true;
    for (auto& rank : ranks_) rank->kill_group();
  }

  struct Early {
    size_t end;  // index in facts_.ends
    double since;
  };

  std::string log_dir_;
  StopRequest& stop_;
  Console& console_;
  std::shared_ptr<LateWatch> late_;
  std::ofstream launcher_log_;
  AttemptFacts facts_;
  Leftovers leftovers_;
  std::optional<RankServer> server_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  std::set<size_t> told_;                  // ranks that were sent the stop signal
  std::vector<ErrorRecord> told_records_;  // that came as output lines instead of files
  std::vector<Early> early_;
  bool killing_ = false;
  double error_since_ = 0, looked_ = 0, end_at_ = 0;
};

}  // namespace

AttemptFacts run_attempt(const LaunchCommand& command, const std::string& log_dir, StopRequest& stop,
                         Console& console) {
  return Attempt(command, log_dir, stop, console).run();
}

void read_what_ranks_left(AttemptFacts& facts, const std::string& log_dir,
                          const std::vector<ErrorRecord>& told, const LateWatch& late,
                          const StopRequest& stop) {
  facts.records = read_error_records(log_dir);
  facts.records.insert(facts.records.end(), told.begin(), told.end());
  for (const auto& record : facts.records)
    append_private(rank_log_file(log_dir, record.rank), str(record.kind, ": ", record.message, "\n"));
  for (int64_t rank = 0; rank < facts.nproc; ++rank) {
    std::string stopped, none;
    facts.stopped_ranks += read_plain(stopped_file(log_dir, rank), stopped, none);
    facts.furthest_step =
        std::max({facts.furthest_step, last_step(log_dir, rank), whole_number(trim(stopped)).value_or(-1)});
  }
  facts.stop_reason = stop.wish();
  facts.stop_signal = first_signal() == 0 && stop.insists() ? SIGTERM : first_signal();
  facts.disagreement = late.disagreement();
}

int64_t last_step(const std::string& log_dir, int64_t rank) {
  try {
    return distributed::read_flight_log(progress_file(log_dir, rank)).progress.step;
  } catch (const Error&) {
    return -1;  // no record, or none that can be read
  }
}

}  // namespace lockstep::launcher
