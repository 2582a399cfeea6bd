// The progress line: rewritten in place on a terminal, a plain line every so many steps elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::launcher {

// "step 120/600  loss 2.413  12.3k tok/s  ETA 1:23"; of another unit than tokens "12.3k samples/s". An
// unknown rate (<= 0) or time (< 0) is left out. `also`: text after the loss, "accuracy 0.5", or "". `exact`:
// prints the loss as the shortest text that reads back to the same float.
std::string progress_text(int64_t step, int64_t steps, double loss, double rate, double eta_s,
                          std::string_view unit = "tokens", const std::string& also = "", bool exact = false);
// The same for a terminal of `columns`, with a bar and further facts of the run; if space is short, parts of
// low priority are left out first: "step 120/600  [=====>               ]  loss 2.413  12.3k tok/s  41 % of
// peak  mem 315 MiB  ETA 1:23".
struct ProgressState {
  int64_t step = 0, steps = 0;
  double loss = 0, rate = 0, eta_s = -1;
  double of_peak = 0;  // share; 0: unknown
  int64_t memory = 0;  // bytes; 0: unknown
  std::string_view unit = "tokens";
  std::string also = {};  // as in progress_text
};
std::string terminal_text(const ProgressState& state, int columns);
std::string rate_text(double per_second);  // "950", "12.3k", "4.56M"
std::string time_text(double seconds);     // "0:07", "1:23", "2:03:04"

// Destination of the line.
struct ProgressOutput {
  int columns = 0;  // > 0: a terminal, written by `live`; 0: `line` is used
  // writes text that ends with '\r', the last one with '\n'; returns false when nobody sees it
  std::function<bool(const std::string&)> live = {};
  std::function<void(const std::string&)> line = {};  // a whole line, without its end
  bool exact = false;  // lines: also one for step 1, and `exact` for progress_text
};
// A terminal of `columns` columns reached through `fd`; without one, plain lines to stdout.
ProgressOutput progress_output(int fd, int columns);

// The cost of a step, shown next to the speed.
struct ProgressCosts {
  double flops = 0, peak = 0;            // per rank: per step, and the maximum per second; 0: unknown
  std::function<int64_t()> memory = {};  // bytes currently in use
};

class ProgressLine {
 public:
  // On a terminal the line is rewritten at most every 100 ms. Elsewhere there is a line at step `every`, 2
  // `every`, ... and the last.
  ProgressLine(ProgressOutput output, int64_t steps, int64_t every, std::string_view unit = "tokens");
  ProgressLine(int fd, int columns, int64_t steps, int64_t every);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void costs(ProgressCosts costs) { costs_ = std::move(costs); }
  // Step `step` (from 1) is done; `units`: the number read by all ranks together. `also`: as progress_text.
  void update(int64_t step, double loss, int64_t units, const std::string& also = "");
  // Units per second of the recent steps, 0 before the second update.
  double rate() const { return rate_; }

 private:
  using Clock = std::chrono::steady_clock;
  ProgressOutput output_;
  int64_t steps_, every_;
  std::string unit_;
  bool started_ = false, shown_ = false;
  Clock::time_point last_update_, last_shown_;
  std::string last_text_;
  double rate_ = 0, step_s_ = 0;  // moving averages
  ProgressCosts costs_;
};

}  // namespace lockstep::launcher
