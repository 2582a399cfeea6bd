// Runs ranks as threads, with their logs and records, and watches them.
#include "launcher/worker/ranks_in_place.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/files/private_file.h"
#include "distributed/local/local_world.h"
#include "distributed/open_world.h"
#include "distributed/watch/flight_record.h"
#include "launcher/data/tokenizer/stop.h"
#include "launcher/supervise/run/attempt.h"
#include "launcher/supervise/worker/side.h"
#include "launcher/supervise/worker/signals_apart.h"

namespace lockstep::launcher {

using namespace distributed;

namespace {
using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

// How long ranks may continue after one failed: they notice at their next collective.
constexpr double kAfterFailure = 10;

class Ranks {
 public:
  Ranks(const InPlace& options, Console& console, const RankBody& body)
      : options_(options), console_(console), body_(body) {
    steps_ = std::vector<std::atomic<int64_t>>(options.nproc);
    for (auto& step : steps_) step = -1;
    for (int64_t rank = 0; !options.log_dir.empty() && rank < options.nproc; ++rank)
      logs_.emplace_back(made_private(rank_log_file(options.log_dir, rank)), std::ios::app);
  }

  AttemptOutcome run() {
    install_signals(true);
    SignalsApart apart({SIGTERM, SIGINT, SIGHUP, SIGUSR1});
    data::stop_reading_when([] { return signals_seen() > 0; });
    logs::set_sink([this](int rank, const std::string& line) { say(rank, line); });
    std::thread watch([this] { watch_over(); });
    try {
      auto each = [this](std::shared_ptr<World> world) { run_rank(std::move(world)); };
      if (options_.nproc == 1)
        each(solo_world());
      else
        with_world(static_cast<int>(options_.nproc), each);
    } catch (...) {}  // already recorded
    over_ = true;
    watch.join();
    logs::set_sink({});
    std::lock_guard lock(mutex_);
    hear_stop();  // for a run that ended before the first check
    console_.live("");
    return diagnose(facts());
  }

 private:
  void run_rank(std::shared_ptr<World> world) {
    const int rank = world->rank();
    WorkerPlace at{rank, options_.nproc, rank, options_.nproc, options_.run_dir, options_.log_dir, "", 0};
    logs::set_thread_rank(rank);
    try {
      if (at.supervised()) {
        set_thread_flight_recorder(std::make_shared<FlightRecorder>(progress_file(at.log_dir, rank), rank));
        announce_worker(at);
      }
      RunHooks hooks;
      hooks.stop_requested = [] { return signals_seen() > 0; };
      hooks.report_step = [this, at](int64_t step) {
        steps_[at.rank] = step;
        if (auto recorder = flight_recorder()) recorder->progress(step, -1);
        fire_fault(at, step);
      };
      hooks.progress = {console_.columns(), [this](const std::string& text) { return live(text); },
                        [this](const std::string& line) { say(0, line); }};
      hooks.device = options_.device;
      if (body_(at, std::move(world), hooks) == kExitStopped) {
        ++stopped_;
        if (at.supervised()) append_private(stopped_file(at.log_dir, rank), str(steps_[rank].load(), "\n"));
      }
    } catch (...) {
      record(rank, std::current_exception());
      leave_thread();
      throw;
    }
    leave_thread();
  }

  static void leave_thread() {
    set_thread_flight_recorder(nullptr);
    logs::set_thread_rank(-1);
  }

  void record(int rank, std::exception_ptr failure) {
    ErrorRecord record = describe_failure(failure).record;
    record.rank = rank;
    record.step = steps_[rank];
    record.time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
    std::lock_guard lock(mutex_);
    record.ticket = static_cast<int64_t>(records_.size()) + 1;
    records_.push_back(record);
    failed_at_ = Clock::now();
    if (logs_.empty()) return;
    write_error_record(options_.log_dir, record);
    logs_[rank] << record.kind << ": " << record.message << std::endl;
  }

  void say(int rank, const std::string& line) {
    std::lock_guard lock(mutex_);
    console_.rank_line(rank, line);
    if (!logs_.empty()) logs_[rank] << line << std::endl;
  }
  bool live(const std::string& text) {
    std::lock_guard lock(mutex_);
    LineCutter cutter;
    cutter.add(text.data(), text.size());
    for (LineCutter::Piece piece; cutter.next(piece);)
      piece.live ? console_.live(piece.text) : console_.line(piece.text);
    return true;
  }

  // With the lock held.
  AttemptFacts facts() const {
    AttemptFacts out;
    out.nproc = options_.nproc;
    out.records = records_;
    out.stopped_ranks = stopped_;
    for (const auto& step : steps_) out.furthest_step = std::max(out.furthest_step, step.load());
    out.stop_signal = first_signal();
    return out;
  }

  // Ends the process: ranks are threads, which cannot be ended individually.
  [[noreturn]] void end_process(AttemptFacts facts, const std::string& why) {
    console_.notice(str("ending the process: ", why));
    facts.killed = true;
    AttemptOutcome outcome = diagnose(facts);
    tell_failure(outcome, options_.log_dir, console_);
    World::leave(outcome.exit_code);
  }

  // Reports once that a signal arrived. With the lock held.
  void hear_stop() {
    if (stopping_ || signals_seen() == 0) return;
    stopping_ = true;
    stop_since_ = Clock::now();
    console_.notice(
        str(signal_text(first_signal()), ": ", options_.when_stopped, "; a second signal kills at once"));
  }

  void watch_over() {
    for (; !over_; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
      std::lock_guard lock(mutex_);
      hear_stop();
      if (signals_seen() > 1) end_process(facts(), "second signal");
      if (stopping_ && seconds_since(stop_since_) > options_.grace)
        end_process(facts(), str("not done ", number_text(options_.grace), " s after the first signal"));
      if (!records_.empty() && seconds_since(failed_at_) > kAfterFailure) {
        AttemptFacts all = facts();
        all.stop_signal = 0;
        end_process(all, "a rank failed and the others did not end");
      }
    }
  }

  const InPlace& options_;
  Console& console_;
  const RankBody& body_;
  std::mutex mutex_;  // protects the console, the logs and the records
  std::vector<std::ofstream> logs_;
  std::vector<ErrorRecord> records_;
  Clock::time_point failed_at_, stop_since_;
  bool stopping_ = false;  // a signal was reported; and when
  std::vector<std::atomic<int64_t>> steps_;
  std::atomic<int64_t> stopped_{0};
  std::atomic<bool> over_{false};
};
}  // namespace

AttemptOutcome run_in_place(const InPlace& options, Console& console, const RankBody& body) {
  return Ranks(options, console, body).run();
}

void tell_failure(const AttemptOutcome& outcome, const std::string& log_dir, Console& console) {
  console.notice(str("root cause: ", outcome.cause));
  if (!log_dir.empty()) append_private(log_dir + "/launcher.log", str("root cause: ", outcome.cause, "\n"));
  for (const auto& line : outcome.others) console.notice(str("  then ", line));
  if (!log_dir.empty()) console.notice(str("logs: ", log_dir));
}

}  // namespace lockstep::launcher
