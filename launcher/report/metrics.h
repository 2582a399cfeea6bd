// metrics.jsonl: one JSON object per logged step, each step once, whatever was stopped and resumed in between.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

// One line. Keys keep the order in which they were added. Floats are printed as the shortest text that reads back as the same value of
// their own width, so equal bits are equal text; what JSON has no number for is a string: "nan", "inf", "-inf".
class MetricsRow {
 public:
  explicit MetricsRow(int64_t step);
  MetricsRow& add(const std::string& name, float value);
  MetricsRow& add(const std::string& name, double value);
  MetricsRow& add(const std::string& name, int64_t value);
  MetricsRow& add(const std::string& name, const std::string& value);
  std::string text() const;  // {"step": 10, "loss": 2.5}

 private:
  MetricsRow& put(const std::string& name, const std::string& json);
  std::string body_;
};

class MetricsWriter {
 public:
  // Opens `path` for appending. Lines of steps after `resume_step` are removed (the run does them again), and so are torn lines; with
  // resume_step 0 the file starts empty. UserError naming the file when it cannot be written.
  MetricsWriter(std::string path, int64_t resume_step);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;
  // Appends the line in one write. UserError when the disk is full.
  void write(const MetricsRow& row);

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace lockstep
