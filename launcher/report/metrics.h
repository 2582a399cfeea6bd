// metrics.jsonl: one JSON object per logged step, each step once, whatever was stopped and resumed in
// between.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "core/base/plain_file.h"

namespace lockstep::launcher {

// One line. Keys keep the order in which they were added. Floats are printed as the shortest text that reads
// back as the same value of their own width, so equal bits are equal text; what JSON has no number for is a
// string: "nan", "inf", "-inf".
class MetricsRow {
 public:
  explicit MetricsRow(int64_t step);
  MetricsRow& add(const std::string& name, float value);
  MetricsRow& add(const std::string& name, double value);
  MetricsRow& add(const std::string& name, int64_t value);
  MetricsRow& add(const std::string& name, const std::string& value);
  std::string text() const;  // {"step": 10, "loss": 2.5}
  int64_t step() const { return step_; }
  const std::vector<std::pair<std::string, double>>& numbers() const { return numbers_; }  // but for the step

 private:
  MetricsRow& put(const std::string& name, const std::string& json);
  int64_t step_;
  std::string body_;
  std::vector<std::pair<std::string, double>> numbers_;
};

// Whether a text begins as the rows of a run do, also where the first is torn.
bool is_metrics_text(const std::string& text);
// UserError where a file of this name is there and none of a run's wrote it: it would be emptied.
void refuse_foreign_metrics(const std::string& path);

// Where the file has rows of steps after `step`, renames it to PATH.K, the first that is free, and returns
// that; else "". UserError where it cannot be renamed.
std::string set_rows_aside(const std::string& path, int64_t step = 0);

class MetricsWriter {
 public:
  // Refuses what is foreign, as above. Opens `path` for appending. Lines of steps after `resume_step` are
  // removed (the run does them again), and so are torn lines. With resume_step 0 the file starts empty, and
  // rows that it has are set aside; those of the same command (`again`), which did the steps a moment ago,
  // are removed. UserError naming the file when it cannot be written, or is no plain file.
  MetricsWriter(std::string path, int64_t resume_step, bool again = false);
  // Writes what waits, and warns how many rows are lost where that fails.
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;
  // Appends the line. Where the disk does not take it (full, failing, read-only), a warning says so once; the
  // row waits in memory, the oldest of too many is dropped, and all are written, in order, with the first row
  // that goes through again.
  void write(const MetricsRow& row);
  // Whether the row of a step has a number of this name.
  bool has(int64_t step, const std::string& name) const;
  // Adds what `more` has to the row of its step, before the state's hash and the certificate; `hash`: takes
  // the place of the row's; "": it stays. Nothing where there is no such row, or it has the first of them
  // already. UserError as the constructor.
  void amend(const MetricsRow& more, const std::string& hash);

 private:
  void flush();
  void replace(const std::string& rows);

  std::string path_;
  Descriptor file_;
  std::deque<std::string> waiting_;  // whole lines
  size_t begun_ = 0;                 // bytes of the first of them that are in the file
  size_t lost_ = 0;
  bool failing_ = false;
};

}  // namespace lockstep::launcher
