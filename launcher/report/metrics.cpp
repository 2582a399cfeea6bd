// Lines of metrics.jsonl.
#include "launcher/report/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>

#include "core/base/error.h"
#include "core/base/json.h"

namespace lockstep {

namespace {
template <class T>
std::string json_number(T value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  return number_text(value);
}

// The lines to keep: whole objects with a step of at most `last`, the first of each step.
std::string kept_lines(const std::string& path, int64_t last) {
  std::ifstream file(path);
  std::string out, line;
  std::set<int64_t> seen;
  while (std::getline(file, line)) {
    Json row = Json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer()) continue;
    int64_t step = row["step"].get<int64_t>();
    if (step <= last && seen.insert(step).second) out += line + "\n";
  }
  return out;
}

[[noreturn]] void refuse(const std::string& path) { throw UserError(str("cannot write ", path, ": ", std::strerror(errno))); }
}  // namespace

MetricsRow::MetricsRow(int64_t step) { add("step", step); }
MetricsRow& MetricsRow::put(const std::string& name, const std::string& json) {
  body_ += str(body_.empty() ? "" : ", ", Json(name).dump(), ": ", json);
  return *this;
}
MetricsRow& MetricsRow::add(const std::string& name, float value) { return put(name, json_number(value)); }
MetricsRow& MetricsRow::add(const std::string& name, double value) { return put(name, json_number(value)); }
MetricsRow& MetricsRow::add(const std::string& name, int64_t value) { return put(name, str(value)); }
MetricsRow& MetricsRow::add(const std::string& name, const std::string& value) {
  return put(name, Json(value).dump(-1, ' ', false, Json::error_handler_t::replace));
}
std::string MetricsRow::text() const { return "{" + body_ + "}"; }

MetricsWriter::MetricsWriter(std::string path, int64_t resume_step) : path_(std::move(path)) {
  std::string kept = kept_lines(path_, resume_step), draft = path_ + ".tmp";
  int fd = open(draft.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) refuse(draft);
  bool good = ::write(fd, kept.data(), kept.size()) == static_cast<ssize_t>(kept.size());
  close(fd);
  if (!good || rename(draft.c_str(), path_.c_str()) != 0) refuse(path_);
  fd_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd_ < 0) refuse(path_);
}
MetricsWriter::~MetricsWriter() {
  if (fd_ >= 0) close(fd_);
}
void MetricsWriter::write(const MetricsRow& row) {
  std::string line = row.text() + "\n";
  if (::write(fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) refuse(path_);
}

}  // namespace lockstep
