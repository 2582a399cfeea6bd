// trainrun top: shows a running job from its flight records and the last rows of metrics.jsonl.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <sstream>
#include <thread>

#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/reading/json_text.h"
#include "distributed/watch/late.h"
#include "launcher/cli/ckpt/paths.h"
#include "launcher/cli/look/attempt_records.h"
#include "launcher/cli/watch_commands.h"

namespace lockstep::launcher::cli {

using namespace distributed;

namespace fs = std::filesystem;

namespace {
constexpr int64_t kTail = 1 << 18;  // bytes read from the end of metrics.jsonl
constexpr double kLate = 1.5;       // seconds that a collective may wait before it is reported
constexpr double kSilent = 2;       // seconds without a heartbeat before a rank counts as stopped

// The newest value of each column in the run's rows.
struct Numbers {
  std::map<std::string, double> newest;
  std::map<std::string, int64_t> of_step;  // the step of the value
  int64_t step = 0, steps = 0;             // the newest row; train.steps, 0: unknown
  double step_ms = 0;                      // median of the newest rows
  std::string unread;                      // why there are no rows; "": there may be none yet

  bool has(const std::string& name) const { return newest.count(name); }
  double at(const std::string& name) const { return newest.at(name); }
};

std::vector<std::string> last_lines(const std::string& path, std::string& unread) {
  const PlainFile file = open_plain(path);
  if (!file.fd) {
    if (file.code != ENOENT) unread = str("metrics.jsonl cannot be read: ", file.why);
    return {};
  }
  const int64_t from = std::max<int64_t>(0, file.bytes - kTail);
  std::string text(static_cast<size_t>(file.bytes - from), '\0');
  text.resize(std::max<int64_t>(0, read_fully(file.fd.get(), text.data(), text.size(), from)));
  auto out = split(text, '\n');
  if (from > 0 && !out.empty()) out.erase(out.begin());  // its beginning is cut off
  return out;
}

Numbers numbers_of(const std::string& run) {
  Numbers out;
  std::vector<double> times;
  for (const auto& line : last_lines(run + "/metrics.jsonl", out.unread)) {
    const Json row = bounded_json(line);
    if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer()) continue;
    out.step = row["step"].get<int64_t>();
    for (const auto& [name, value] : row.items())
      if (value.is_number()) out.newest[name] = value.get<double>(), out.of_step[name] = out.step;
    if (row.contains("step_ms") && row["step_ms"].is_number()) times.push_back(row["step_ms"].get<double>());
  }
  if (times.size() > 20) times.erase(times.begin(), times.end() - 20);
  std::sort(times.begin(), times.end());
  if (!times.empty()) out.step_ms = times[times.size() / 2];
  std::string text, none;  // a program's run has no config
  read_plain(run + "/config.json", text, none);
  const Json config = bounded_json(text);
  if (config.is_object() && config.contains("train") && config["train"].is_object()) {
    const Json steps = config["train"].value("steps", Json(0));
    if (steps.is_number_integer()) out.steps = steps.get<int64_t>();
  }
  return out;
}

std::string figure(double value, const char* format = "%.4g") {
  char out[48];
  std::snprintf(out, sizeof out, format, value);
  return out;
}
std::string clock_text(double seconds) {
  const auto s = static_cast<int64_t>(seconds);
  char out[48];
  std::snprintf(out, sizeof out, "%lld:%02d:%02d", static_cast<long long>(s / 3600),
                static_cast<int>(s / 60 % 60), static_cast<int>(s % 60));
  return out;
}

// Resident bytes of a process; 0 without a process.
int64_t resident(int64_t pid) {
  std::ifstream file(str("/proc/", pid, "/statm"));
  int64_t pages = 0, held = 0;
  file >> pages >> held;
  return held * sysconf(_SC_PAGESIZE);
}

// State kept between two refreshes.
struct Before {
  // for each rank: processor time, and its heartbeat time
  std::map<int64_t, std::pair<int64_t, int64_t>> cpu;
};

class Screen {
 public:
  Screen(const AttemptRecords& at, const Numbers& numbers, Before& before)
      : at_(at), numbers_(numbers), before_(before), now_(at.running ? flight_clock_ns() : at.newest_ns) {}

  std::string text() {
    head();
    losses();
    pace();
    ranks();
    who_is_late();
    return out_.str();
  }

 private:
  int64_t furthest() const {
    int64_t step = numbers_.step;
    for (const RankRecord& rank : at_.ranks)
      if (rank.log) step = std::max(step, rank.log->progress.step);
    return step;
  }
  void head() {
    const int64_t step = furthest();
    out_ << at_.run << (at_.files.empty() ? "" : str(", files in ", at_.files)) << "  attempt " << at_.number
         << ", " << at_.ranks.size() << (at_.ranks.size() == 1 ? " rank" : " ranks") << ", "
         << (at_.running         ? "running"
             : at_.held          ? "held by trainrun, between attempts"
             : at_.cause.empty() ? "not running"
                                 : "failed: see trainrun autopsy")
         << "; step " << step;
    if (numbers_.steps > 0) {
      out_ << " of " << numbers_.steps;
      if (at_.running && numbers_.step_ms > 0 && step < numbers_.steps)
        out_ << ", " << clock_text(static_cast<double>(numbers_.steps - step) * numbers_.step_ms * 1e-3)
             << " left";
    }
    out_ << "\n";
  }
  void add(std::string& to, const std::string& words) { to += (to.empty() ? "" : "   ") + words; }
  void losses() {
    std::string line;
    for (const char* name : {"loss", "grad_norm", "lr", "val_loss"})
      if (numbers_.has(name))
        add(line,
            str(name, " ", figure(numbers_.at(name)),
                numbers_.of_step.at(name) == numbers_.step ? "" : str(" at ", numbers_.of_step.at(name))));
    if (numbers_.has("passed_over")) add(line, str("passed over ", figure(numbers_.at("passed_over"))));
    if (line.empty()) line = numbers_.unread.empty() ? "no row in metrics.jsonl yet" : numbers_.unread;
    out_ << line << "\n";
  }
  void pace() {
    std::string line;
    for (const char* unit : {"tokens", "samples"})
      if (numbers_.has(str(unit, "_per_s")))
        add(line, str(figure(numbers_.at(str(unit, "_per_s")), "%.0f"), " ", unit, "/s"));
    if (numbers_.step_ms > 0) add(line, str(figure(numbers_.step_ms), " ms a step"));
    for (const auto& [name, value] : numbers_.newest)
      if (name.starts_with("exposed_") && name.ends_with("_ms"))
        add(line, str("exposed ", name.substr(8, name.size() - 11), " ", figure(value, "%.3g"), " ms",
                      numbers_.has("step_ms") && numbers_.at("step_ms") > 0
                          ? str(" (", figure(100 * value / numbers_.at("step_ms"), "%.0f"), " %)")
                          : ""));
    if (!line.empty()) out_ << line << "\n";
  }
  std::string cores(const RankRecord& rank) {
    const WorkerProgress& progress = rank.log->progress;
    auto& [cpu, beat] = before_.cpu[rank.rank];
    const double passed = static_cast<double>(progress.beat_ns - beat);
    const std::string out =
        beat == 0 || passed <= 0 ? "-" : figure(static_cast<double>(progress.cpu_ns - cpu) / passed, "%.1f");
    if (progress.beat_ns != beat) cpu = progress.cpu_ns, beat = progress.beat_ns;
    return out;
  }
  std::string condition(const RankRecord& rank) const {
    if (rank.state == 0 || rank.state == 'Z') return "gone";
    if (rank.state == 'T' || rank.state == 't') return "stopped";
    const int64_t beat = rank.log->progress.beat_ns;
    if (beat && static_cast<double>(now_ - beat) * 1e-9 > kSilent)
      return str("silent ", figure(static_cast<double>(now_ - beat) * 1e-9, "%.0f"), " s");
    return "runs";
  }
  void ranks() {
    std::vector<std::vector<std::string>> rows{
        {"rank", "pid", "is", "step", "phase", "own ms", "cores", "memory", "where"}};
    for (const RankRecord& rank : at_.ranks) {
      if (!rank.log) {
        rows.push_back({str(rank.rank), "-", "-", "-", "-", "-", "-", "-", rank.problem});
        continue;
      }
      const WorkerProgress& progress = rank.log->progress;
      const int64_t bytes = rank.state ? resident(progress.pid) : 0;
      rows.push_back(
          {str(rank.rank), str(progress.pid), condition(rank), progress.step < 0 ? "-" : str(progress.step),
           progress.phase.empty() ? "-" : progress.phase,
           progress.busy_steps ? figure(static_cast<double>(progress.busy_ns) /
                                            static_cast<double>(progress.busy_steps) * 1e-6,
                                        "%.1f")
                               : "-",
           cores(rank), bytes ? bytes_text(static_cast<double>(bytes)) : "-", whereabouts(*rank.log)});
    }
    std::ostringstream table;
    print_cells(table, rows);
    out_ << "\n" << table.str();
  }
  void who_is_late() {
    if (numbers_.has("busy_ms_max") && numbers_.has("busy_ms_median") && at_.ranks.size() > 1 &&
        numbers_.at("busy_ms_median") > 0)
      out_ << "slowest: rank " << figure(numbers_.at("slowest_rank"), "%.0f") << ", "
           << figure(numbers_.at("busy_ms_max") / numbers_.at("busy_ms_median"), "%.2f")
           << " times the median of the ranks' own work, at step " << numbers_.of_step.at("busy_ms_max")
           << "\n";
    if (!at_.running) return;
    const auto late = find_late(at_.logs(), kLate, now_);
    for (size_t i = 0; i < std::min<size_t>(3, late.size()); ++i)
      out_ << "late: " << distributed::text(late[i]) << "\n";
    if (late.empty() && at_.ranks.size() > 1) out_ << "late: nobody\n";
  }

  const AttemptRecords& at_;
  const Numbers& numbers_;
  Before& before_;
  int64_t now_;
  std::ostringstream out_;
};

// Cuts lines to the width and height of the terminal.
std::string cut_to(const std::string& text, int columns, int rows) {
  std::string out;
  int n = 0;
  for (const std::string& line : split(text, '\n')) {
    if (++n >= rows) break;
    out += printable(line).substr(0, static_cast<size_t>(columns)) + "\x1b[K\n";
  }
  return out;
}

void write_all(const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}
}  // namespace

int top(const TopArguments& arguments, std::ostream& out) {
  Before before;
  auto look = [&](const AttemptRecords& at) {
    const Numbers numbers = numbers_of(at.files.empty() ? at.run : at.files);
    return Screen(at, numbers, before).text();
  };
  if (arguments.once || !isatty(STDOUT_FILENO)) {
    out << look(read_attempt(arguments.run));
    return kExitOk;
  }
  // Runs until Ctrl-C or the end of the run.
  for (bool seen = false;;) {
    const AttemptRecords at = read_attempt(arguments.run);
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) size.ws_col = 120, size.ws_row = 40;
    write_all("\x1b[H" + std::string(seen ? "" : "\x1b[2J") + cut_to(look(at), size.ws_col, size.ws_row) +
              "\x1b[J");
    seen = true;
    if (!at.running && !at.held) return kExitOk;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

}  // namespace lockstep::launcher::cli
