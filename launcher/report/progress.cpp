// Text and pace of the progress line.
#include "launcher/report/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/base/text.h"

namespace lockstep::launcher {

std::string rate_text(double per_second) {
  char out[32];
  if (per_second < 999.5)
    std::snprintf(out, sizeof out, "%.0f", per_second);
  else if (per_second < 999950)
    std::snprintf(out, sizeof out, "%.1fk", per_second / 1e3);
  else
    std::snprintf(out, sizeof out, "%.2fM", per_second / 1e6);
  return out;
}

std::string time_text(double seconds) {
  auto s = static_cast<long long>(seconds + 0.5);
  char out[32];
  if (s < 3600)
    std::snprintf(out, sizeof out, "%lld:%02lld", s / 60, s % 60);
  else
    std::snprintf(out, sizeof out, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  return out;
}

std::string progress_text(int64_t step, int64_t steps, double loss, double rate, double eta_s,
                          std::string_view unit) {
  char number[32];
  std::snprintf(number, sizeof number, "%.3f", loss);
  std::string out = str("step ", step, "/", steps, "  loss ", number);
  if (rate > 0) out += str("  ", rate_text(rate), " ", unit == "tokens" ? "tok" : unit, "/s");
  if (eta_s >= 0) out += str("  ETA ", time_text(eta_s));
  return out;
}

ProgressOutput progress_output(int fd, int columns) {
  return {columns, [fd](const std::string& text) { return write(fd, text.data(), text.size()) > 0; },
          [](const std::string& text) {
            std::puts(text.c_str());
            std::fflush(stdout);
          }};
}

ProgressLine::ProgressLine(ProgressOutput output, int64_t steps, int64_t every, std::string_view unit)
    : output_(std::move(output)), steps_(steps), every_(every), unit_(unit) {}
ProgressLine::ProgressLine(int fd, int columns, int64_t steps, int64_t every)
    : ProgressLine(progress_output(fd, columns), steps, every) {}

ProgressLine::~ProgressLine() {
  if (shown_) output_.live(last_text_ + "\033[K\n");  // the last state stays on the screen
}

void ProgressLine::update(int64_t step, double loss, int64_t units) {
  auto now = Clock::now();
  if (started_) {
    double seconds = std::max(1e-9, std::chrono::duration<double>(now - last_update_).count());
    double weight = step_s_ == 0 ? 1 : 0.1;
    step_s_ += weight * (seconds - step_s_);
    rate_ = static_cast<double>(units) / step_s_;
  }
  started_ = true;
  last_update_ = now;
  std::string text = progress_text(step, steps_, loss, rate_,
                                   step_s_ > 0 ? step_s_ * static_cast<double>(steps_ - step) : -1, unit_);
  last_text_ = text;
  if (output_.columns > 0) {
    if (shown_ && step < steps_ && now - last_shown_ < std::chrono::milliseconds(100)) return;
    last_shown_ = now;
    shown_ = output_.live(text.substr(0, std::max(1, output_.columns - 1)) + "\033[K\r");
  } else if (step % every_ == 0 || step == steps_) {
    output_.line(text);
  }
}

}  // namespace lockstep::launcher
