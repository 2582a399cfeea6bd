// Reading the logs of attempts: where each began, what ended it, what the guard decided in between.
#include "launcher/cli/run_events.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <regex>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/base/plain_file.h"
#include "launcher/supervise/run_folder.h"

namespace lockstep::launcher::cli {

namespace fs = std::filesystem;

namespace {
std::string text_of(const std::string& path) {
  std::string text, why;  // what cannot be read tells nothing
  read_plain(path, text, why);
  return text;
}

// "2026-11-23 00:18", local, of the file's last change; "" where there is none.
std::string time_of(const std::string& path) {
  std::error_code none;
  const auto changed = fs::last_write_time(path, none);
  if (none) return "";
  const std::time_t at =
      std::chrono::system_clock::to_time_t(std::chrono::time_point_cast<std::chrono::system_clock::duration>(
          changed - fs::file_time_type::clock::now() + std::chrono::system_clock::now()));
  std::tm parts{};
  char out[32];
  return localtime_r(&at, &parts) && std::strftime(out, sizeof out, "%Y-%m-%d %H:%M", &parts) ? out : "";
}

std::string ranks_text(int64_t ranks) { return str(ranks, ranks == 1 ? " rank" : " ranks"); }
constexpr size_t kMostWords = 300;

class Attempt {
 public:
  Attempt(std::string folder, RunAttempts& out) : folder_(std::move(folder)), out_(out) {
    out_.ranks = 0;
    while (fs::exists(str(folder_, "/worker-", out_.ranks, ".json"))) ++out_.ranks;
    read_log();
    read_failure();
  }

 private:
  void add(double step, const std::string& time, const std::string& text, bool bad = false) {
    out_.events.push_back({step, time, shortened(text, kMostWords), bad});
  }

  void read_log() {
    static const std::regex resumed(R"re(resumed from .*\(step (\d+), )re"),
        fresh(R"re(compiled in .*; starting at step 1$)re"),
        stopped(R"re(stopped on request after step (\d+); .*)re"),
        regrouped(R"re(stopped after step (\d+) to go on with other ranks; .*)re"),
        done(R"re(done: (\d+) steps, .*)re"),
        guarded(R"re((?:warning: )?step (\d+)( is passed over|: .*; going on behind it)(.*))re");
    const std::string began = time_of(folder_ + "/worker-0.json"), end = time_of(folder_ + "/rank-0.log");
    for (const std::string& line : split(text_of(folder_ + "/rank-0.log"), '\n')) {
      if (line.size() > 4000) continue;
      std::smatch found;
      if (std::regex_search(line, found, resumed))
        add(static_cast<double>(out_.begin_at(std::stoll(found[1]))), began,
            str("resumed on ", ranks_text(out_.ranks)));
      else if (std::regex_search(line, fresh))
        add(static_cast<double>(out_.begin_at(0)), began, str("started on ", ranks_text(out_.ranks)));
      else if (std::regex_match(line, found, stopped))
        add(std::stod(found[1]), end, "stopped on request, saved");
      else if (std::regex_match(line, found, regrouped))
        add(std::stod(found[1]), end, "stopped to go on with other ranks");
      else if (std::regex_match(line, found, done))
        add(std::stod(found[1]), end, "done");
      else if (std::regex_match(line, found, guarded))
        add(std::stod(found[1]), "", line, true);
    }
  }

  // The launcher's words; where it was killed, the first error that a rank recorded.
  void read_failure() {
    static const std::regex cause(R"re(root cause: (.*))re"), at(R"re(.*; step (\d+).*)re");
    for (const std::string& line : split(text_of(folder_ + "/launcher.log"), '\n')) {
      std::smatch found, step;
      if (line.size() > 4000 || !std::regex_match(line, found, cause)) continue;
      const std::string words = found[1];
      return add(std::regex_match(words, step, at) ? std::stod(step[1]) : -1,
                 time_of(folder_ + "/launcher.log"), words, true);
    }
    const Json error = bounded_json(text_of(folder_ + "/error-1.json"));
    if (!error.is_object() || !error.contains("message") || !error["message"].is_string()) return;
    const Json step = error.value("step", Json(-1));
    add(step.is_number() ? step.get<double>() : -1, time_of(folder_ + "/error-1.json"),
        str("rank ", error.value("rank", Json(0)).dump(), ": ", error["message"].get<std::string>()), true);
  }

  std::string folder_;
  RunAttempts& out_;
};
}  // namespace

RunAttempts attempts_of(const std::string& run_dir) {
  RunAttempts out;
  for (int64_t k : attempts_there(run_dir)) {
    Attempt(attempt_folder(run_dir, k), out);
    ++out.attempts;
  }
  return out;
}

}  // namespace lockstep::launcher::cli
