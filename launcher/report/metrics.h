// metrics.jsonl: one JSON object per logged step, each step once, even across stops and resumes.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "core/files/plain_file.h"

namespace lockstep::launcher {

// One line. Keys keep the order in which they were added. Floats are printed as the shortest text that reads
// back to the same value of their width, so equal bits give equal text; non-finite values are strings: "nan",
// "inf", "-inf".
class MetricsRow {
 public:
  explicit MetricsRow(int64_t step);
  MetricsRow& add(const std::string& name, float value);
  MetricsRow& add(const std::string& name, double value);
  MetricsRow& add(const std::string& name, int64_t value);
  MetricsRow& add(const std::string& name, const std::string& value);
  std::string text() const;  // {"step": 10, "loss": 2.5}
  int64_t step() const { return step_; }
  const std::vector<std::pair<std::string, double>>& numbers() const { return numbers_; }  // except the step

 private:
  MetricsRow& put(const std::string& name, const std::string& json);
  int64_t step_;
  std::string body_;
  std::vector<std::pair<std::string, double>> numbers_;
};

// Whether a text begins like a run's rows, even if the first row is incomplete.
bool is_metrics_text(const std::string& text);
// UserError if a file of this name exists that no run wrote: it would be truncated.
void refuse_foreign_metrics(const std::string& path);

// If the file has rows of steps after `step`, renames it to the first free PATH.K and returns that; else "".
// UserError when it cannot be renamed.
std::string set_rows_aside(const std::string& path, int64_t step = 0);

class MetricsWriter {
 public:
  // Refuses foreign files, as above. Opens `path` for appending. Removes lines of steps after `resume_step`
  // (the run repeats these steps) and incomplete lines. With resume_step 0 the file starts empty: existing
  // rows are set aside, except rows of the same command (`again`), which are removed. UserError naming the
  // file when it cannot be written, or is not a regular file.
  MetricsWriter(std::string path, int64_t resume_step, bool again = false);
  // Writes waiting rows, and warns of the number of lost rows if that fails.
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;
  // Appends the line. If the write fails (disk full, failing, read-only), it warns once and keeps the row in
  // memory, dropping the oldest beyond a limit. The next successful write appends all waiting rows in order.
  void write(const MetricsRow& row);
  // Whether the row of a step has a number of this name.
  bool has(int64_t step, const std::string& name) const;
  // Adds the numbers of `more` to the row of its step, before the state's hash and the certificate. `hash`
  // replaces the row's; "": keeps it. Does nothing if there is no such row, or if it already has the first
  // number. UserError as the constructor.
  void amend(const MetricsRow& more, const std::string& hash);

 private:
  void flush();
  void replace(const std::string& rows);

  std::string path_;
  Descriptor file_;
  std::deque<std::string> waiting_;  // whole lines
  size_t begun_ = 0;                 // bytes of the first one that are already in the file
  size_t lost_ = 0;
  bool failing_ = false;
};

}  // namespace lockstep::launcher
