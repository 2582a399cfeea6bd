// run.at and logs.at: rank 0 writes them, commands read them.
#include "launcher/supervise/folders/program.h"

#include <charconv>
#include <filesystem>

#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/files/private_file.h"

namespace lockstep::launcher {

namespace fs = std::filesystem;

namespace {
constexpr int64_t kLongest = 4096;  // bytes of a path

bool is_url(const std::string& path) { return path.find("://") != std::string::npos; }

fs::path whole(const std::string& path) {
  std::error_code failed;
  const fs::path out = fs::weakly_canonical(path, failed);
  return failed ? fs::path(path) : out;
}

// `there` as written into a file of `folder`: relative if both have the same parent, so that the parent may
// be moved.
std::string named_from(const fs::path& folder, const fs::path& there) {
  return folder.parent_path() == there.parent_path() ? (".." / there.filename()).string() : there.string();
}

std::string line_of(const std::string& file) {
  std::string text, none;
  read_plain(file, text, none, kLongest);
  const std::string out = trim(text);
  return printable(out) == out ? out : "";
}

void say(const std::string& file, const std::string& text) {
  if (line_of(file) != text) replace_private(file, text + "\n");
}

std::string resolved(const std::string& folder, const std::string& said) {
  return said.empty() || is_url(said) ? said : (fs::path(folder) / said).lexically_normal().string();
}
}  // namespace

void name_each_other(const WorkerPlace& place, const std::string& run) {
  if (!place.supervised() || place.run_dir.empty()) return;
  const fs::path logs = whole(place.run_dir), files = whole(run);
  std::error_code none;
  if (logs == files) {
    fs::remove(logs / kFilesAt, none);
    fs::remove(files / kLogsAt, none);
    return;
  }
  say(logs / kFilesAt, is_url(run) ? run : named_from(logs, files));
  if (!is_url(run))
    say(files / kLogsAt,
        (fs::path(named_from(files, logs)) / "logs" / fs::path(place.log_dir).filename()).string());
}

std::string files_of_program(const std::string& folder) {
  return resolved(folder, line_of(folder + "/" + kFilesAt));
}

std::optional<ProgramLogs> logs_of_program(const std::string& run) {
  static const std::string tag = "attempt-";
  const fs::path at = resolved(run, line_of(run + "/" + kLogsAt));
  const std::string name = at.filename();
  ProgramLogs out{at.parent_path().parent_path(), 0};
  if (!name.starts_with(tag)) return {};
  std::from_chars(name.data() + tag.size(), name.data() + name.size(), out.attempt);
  std::error_code none;
  return out.attempt > 0 && fs::is_directory(at.parent_path(), none) ? std::optional(out) : std::nullopt;
}

}  // namespace lockstep::launcher
