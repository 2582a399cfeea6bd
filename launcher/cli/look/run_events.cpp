// Reads the logs of attempts: where each began, what ended it, and the guard's decisions in between.
#include "launcher/cli/look/run_events.h"

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/reading/json_text.h"
#include "core/reading/sentence.h"
#include "core/reading/whole_number.h"
#include "launcher/supervise/folders/run.h"
#include "launcher/supervise/launch/console.h"

namespace lockstep::launcher::cli {

namespace fs = std::filesystem;

namespace {
std::string text_of(const std::string& path) {
  std::string text, why;  // unreadable files are skipped
  read_plain(path, text, why);
  return text;
}

// "2026-11-23 00:18", the file's modification time in local time; "" without a file.
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
constexpr size_t kMostWords = 300, kLongestLine = 4000;

// The number in a sentence that the line has at `from`, or in the last such sentence at or after `from`.
// Impossible step numbers are ignored, because any program may have written the line.
std::optional<double> number_at(const std::string& line, std::string_view sentence, size_t from = 0) {
  const auto found = find_sentence(line, sentence, from);
  const auto number = found && found->begin == from ? whole_number(found->gaps[0]) : std::nullopt;
  return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
}
std::optional<int64_t> last_number(const std::string& line, std::string_view sentence, size_t from) {
  std::optional<int64_t> out;
  for (auto at = find_sentence(line, sentence, from); at; at = find_sentence(line, sentence, at->end))
    out = whole_number(at->gaps[0]);
  return out;
}

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
    const std::string began = time_of(folder_ + "/worker-0.json"), end = time_of(folder_ + "/rank-0.log");
    for (const std::string& line : split(text_of(folder_ + "/rank-0.log"), '\n')) {
      if (line.size() > kLongestLine) continue;
      const size_t warned = line.starts_with("warning: ") ? 9 : 0;
      const size_t resumed = line.find("resumed from "), compiled = line.find("compiled in ");
      if (auto step = resumed == std::string::npos ? std::nullopt : last_number(line, "(step #, ", resumed))
        add(static_cast<double>(out_.begin_at(*step)), began, str("resumed on ", ranks_text(out_.ranks)));
      else if (compiled != std::string::npos && line.ends_with("; starting at step 1"))
        add(static_cast<double>(out_.begin_at(0)), began, str("started on ", ranks_text(out_.ranks)));
      else if (auto on_request = number_at(line, "stopped on request after step #; "))
        add(*on_request, end, "stopped on request, saved");
      else if (auto regrouped = number_at(line, "stopped after step # to go on with other ranks; "))
        add(*regrouped, end, "stopped to go on with other ranks");
      else if (auto done = number_at(line, "done: # steps, "))
        add(*done, end, "done");
      else if (auto passed = number_at(line, "step # is passed over", warned))
        add(*passed, "", line, true);
      else if (auto rewound = number_at(line, "step #: ", warned);
               rewound && line.find("; going on behind it") != std::string::npos)
        add(*rewound, "", line, true);
    }
  }

  // The launcher's report or, if it was killed, the first error that a rank recorded.
  void read_failure() {
    constexpr std::string_view kCause = "root cause: ";
    for (const std::string& line : split(text_of(folder_ + "/launcher.log"), '\n')) {
      if (line.size() > kLongestLine || !line.starts_with(kCause)) continue;
      const std::string words = line.substr(kCause.size());
      const auto step = last_number(words, "; step #", 0);
      return add(step ? static_cast<double>(*step) : -1, time_of(folder_ + "/launcher.log"), words, true);
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
  const auto warn = [](const std::string& text) { text.empty() ? void() : warn_user(text); };
  warn(unlisted_text(run_dir + "/logs"));
  for (int64_t k : attempts_there(run_dir)) {
    warn(unlisted_text(attempt_folder(run_dir, k)));
    Attempt(attempt_folder(run_dir, k), out);
    ++out.attempts;
  }
  return out;
}

}  // namespace lockstep::launcher::cli
