// Writes and reads lines of metrics.jsonl.
#include "launcher/report/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/files/private_file.h"
#include "core/reading/json_text.h"

namespace lockstep::launcher {

namespace {
template <class T>
std::string json_number(T value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  return number_text(value);
}

// The lines to keep: whole objects with a step of at most `last`, the first of each step.
std::string kept_lines(const std::string& text, int64_t last) {
  std::string out;
  std::set<int64_t> seen;
  for (const auto& line : split(text, '\n')) {
    Json row = bounded_json(line);
    if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer()) continue;
    int64_t step = row["step"].get<int64_t>();
    if (step <= last && seen.insert(step).second) out += line + "\n";
  }
  return out;
}

// Limit of rows that wait for disk space: some hours of rows, but little memory.
constexpr size_t kWaitingRows = 16384;

std::string rows_text(size_t n) { return str(n, n == 1 ? " row" : " rows"); }
}  // namespace

MetricsRow::MetricsRow(int64_t step) : step_(step) { put("step", str(step)); }
MetricsRow& MetricsRow::put(const std::string& name, const std::string& json) {
  body_ += str(body_.empty() ? "" : ", ", Json(name).dump(), ": ", json);
  return *this;
}
MetricsRow& MetricsRow::add(const std::string& name, float value) {
  numbers_.emplace_back(name, value);
  return put(name, json_number(value));
}
MetricsRow& MetricsRow::add(const std::string& name, double value) {
  numbers_.emplace_back(name, value);
  return put(name, json_number(value));
}
MetricsRow& MetricsRow::add(const std::string& name, int64_t value) {
  numbers_.emplace_back(name, static_cast<double>(value));
  return put(name, str(value));
}
MetricsRow& MetricsRow::add(const std::string& name, const std::string& value) {
  return put(name, Json(value).dump(-1, ' ', false, Json::error_handler_t::replace));
}
std::string MetricsRow::text() const { return "{" + body_ + "}"; }

bool is_metrics_text(const std::string& text) {
  constexpr std::string_view kRowBegin = "{\"step\": ", kRowEnd = "\"certificate\": ";
  const size_t end = text.find('\n');
  if (end == std::string::npos) return text.starts_with(kRowBegin.substr(0, text.size()));
  return text.starts_with(kRowBegin) &&
         std::string_view(text).substr(0, end).find(kRowEnd) != std::string::npos;
}

void refuse_foreign_metrics(const std::string& path) {
  constexpr size_t kHead = 1 << 20;  // of the first row, which may have a norm of each parameter
  PlainFile file = open_plain(path);
  std::string head(kHead, '\0');
  const int64_t bytes = file.fd ? read_fully(file.fd.get(), head.data(), head.size(), 0) : 0;
  head.resize(static_cast<size_t>(std::max<int64_t>(0, bytes)));
  if (!is_metrics_text(head))
    throw UserError(str(path,
                        " is there, and has no rows of a run, which would take their place. It is left "
                        "as it is; move it away, or give the run another name"));
}

namespace {
[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw UserError(str("cannot write ", file, ": ", why));
}
std::string rows_in(const std::string& path) {
  std::string text, why;
  if (open_plain(path).code != ENOENT && !read_plain(path, text, why, std::numeric_limits<int64_t>::max()))
    refuse(path, why);
  return text;
}
}  // namespace

std::string set_rows_aside(const std::string& path, int64_t step) {
  const std::string text = rows_in(path), all = kept_lines(text, std::numeric_limits<int64_t>::max());
  if (all == kept_lines(text, step)) return "";
  namespace fs = std::filesystem;
  std::string aside;
  std::error_code unknown;
  for (int k = 1; aside.empty() || fs::exists(fs::symlink_status(aside, unknown)); ++k)
    aside = str(path, ".", k);
  if (std::rename(path.c_str(), aside.c_str()) != 0) refuse(aside, std::strerror(errno));
  return aside;
}

MetricsWriter::MetricsWriter(std::string path, int64_t resume_step, bool again) : path_(std::move(path)) {
  refuse_foreign_metrics(path_);
  if (resume_step == 0 && !again)
    if (const std::string aside = set_rows_aside(path_); !aside.empty())
      logs::warn(str("no checkpoint is there that ", path_,
                     " goes on from, and the run starts at step 1: the rows of before are kept as ", aside));
  replace(kept_lines(rows_in(path_), resume_step));
}

// Writes a draft and renames it, so that a crash leaves the old or the new file. The draft's descriptor is
// then the one to append to.
void MetricsWriter::replace(const std::string& rows) {
  const std::string draft = draft_of(path_);
  PlainFile file = create_plain(draft);
  if (!file.fd) refuse(draft, file.why);
  int code = write_fully(file.fd.get(), rows);
  if (code == 0 && std::rename(draft.c_str(), path_.c_str()) != 0) code = errno;
  if (code != 0) {
    ::unlink(draft.c_str());
    refuse(path_, std::strerror(code));
  }
  if (::fcntl(file.fd.get(), F_SETFL, O_APPEND) == 0) file_ = std::move(file.fd);
  if (!file_) refuse(path_, std::strerror(errno));
}

namespace {
// "{"step": 10": the beginning of a step's row, before its first comma.
std::string head_of(int64_t step) {
  const std::string row = MetricsRow(step).text();
  return row.substr(0, row.size() - 1);
}
}  // namespace

bool MetricsWriter::has(int64_t step, const std::string& name) const {
  for (const auto& line : split(rows_in(path_), '\n'))
    if (line.starts_with(head_of(step) + ","))
      return line.find(str(", ", Json(name).dump(), ": ")) != std::string::npos;
  return false;
}

void MetricsWriter::amend(const MetricsRow& more, const std::string& hash) {
  // Edits the row as text, which keeps the digits of its other numbers.
  constexpr std::string_view kHash = ", \"state_hash\": \"", kLast = ", \"certificate\": ";
  const std::string head = head_of(more.step()), text = more.text();
  if (more.numbers().empty() || has(more.step(), more.numbers()[0].first)) return;
  std::vector<std::string> lines = split(rows_in(path_), '\n');
  for (std::string& row : lines) {
    if (!row.starts_with(head + ",")) continue;
    size_t at = row.find(kHash);
    if (at != std::string::npos && !hash.empty()) row.replace(at + kHash.size(), hash.size(), hash);
    if (at == std::string::npos) at = row.find(kLast);
    if (at == std::string::npos) return;
    row.insert(at, text.substr(head.size(), text.size() - head.size() - 1));
    return replace(join(lines, "\n"));
  }
}

MetricsWriter::~MetricsWriter() {
  flush();
  size_t lost = lost_ + waiting_.size();
  if (lost)
    logs::warn(str(path_, ": ", rows_text(lost), " of this run could not be written and ",
                   lost == 1 ? "is" : "are", " lost"));
}

void MetricsWriter::write(const MetricsRow& row) {
  waiting_.push_back(row.text() + "\n");
  if (waiting_.size() > kWaitingRows) {
    waiting_.erase(waiting_.begin() +
                   (begun_ ? 1 : 0));  // drop the oldest, but not one that is partly in the file
    ++lost_;
  }
  flush();
}

void MetricsWriter::flush() {
  while (!waiting_.empty()) {
    size_t written = 0;
    int code = write_fully(file_.get(), std::string_view(waiting_.front()).substr(begun_), &written);
    begun_ += written;
    if (code) {
      if (!failing_)
        logs::warn(str("cannot write ", path_, ": ", std::strerror(code), "; the run goes on, and up to ",
                       kWaitingRows, " rows are kept in memory and written when it takes them"));
      failing_ = true;
      return;
    }
    waiting_.pop_front();
    begun_ = 0;
  }
  if (failing_)
    logs::info(
        str(path_, " takes rows again; ", lost_ ? str(rows_text(lost_), " were lost") : "none was lost"));
  failing_ = false;
}

}  // namespace lockstep::launcher
