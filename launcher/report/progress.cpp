// Formats and paces the progress line.
#include "launcher/report/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

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
                          std::string_view unit, const std::string& also, bool exact) {
  char number[32];
  std::snprintf(number, sizeof number, "%.3f", loss);
  std::string out = str("step ", step, "/", steps, "  loss ",
                        exact ? number_text(static_cast<float>(loss)) : std::string(number),
                        also.empty() ? "" : "  ", also);
  if (rate > 0) out += str("  ", rate_text(rate), " ", unit == "tokens" ? "tok" : unit, "/s");
  if (eta_s >= 0) out += str("  ETA ", time_text(eta_s));
  return out;
}

namespace {
// "[=====>    ]" of `width` columns.
std::string bar(int64_t step, int64_t steps, int width) {
  const int inner = width - 2;
  const auto full = static_cast<int>(static_cast<double>(inner) * static_cast<double>(step) /
                                     static_cast<double>(std::max<int64_t>(1, steps)));
  std::string out(std::clamp(full, 0, inner), '=');
  if (full < inner) out += '>';
  out.resize(inner, ' ');
  return "[" + out + "]";
}
std::string memory_text(int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  char out[32];
  std::snprintf(out, sizeof out, mib < 1023.5 ? "%.0f MiB" : "%.1f GiB", mib < 1023.5 ? mib : mib / 1024);
  return out;
}
}  // namespace

std::string terminal_text(const ProgressState& state, int columns) {
  constexpr int kLeast = 10, kMost = 28;  // columns of the bar
  char number[32];
  std::snprintf(number, sizeof number, "%.3f", state.loss);
  const std::string head = str("step ", state.step, "/", state.steps);
  // The parts in order of appearance, with their priorities.
  struct Part {
    int wanted;
    std::string text;
  };
  std::vector<Part> parts{{9, str("loss ", number)}};
  if (!state.also.empty()) parts.push_back({6, state.also});
  if (state.rate > 0)
    parts.push_back(
        {7, str(rate_text(state.rate), " ", state.unit == "tokens" ? "tok" : std::string(state.unit), "/s")});
  if (state.of_peak > 0) {
    std::snprintf(number, sizeof number, state.of_peak < 0.0995 ? "%.1f" : "%.0f", 100 * state.of_peak);
    parts.push_back({5, str(number, " % of peak")});
  }
  if (state.memory > 0) parts.push_back({4, "mem " + memory_text(state.memory)});
  if (state.eta_s >= 0) parts.push_back({8, "ETA " + time_text(state.eta_s)});
  auto width = [&] {
    size_t out = head.size();
    for (const Part& part : parts) out += 2 + part.text.size();
    return static_cast<int>(out);
  };
  const int room = std::max(1, columns - 1);
  while (parts.size() > 1 && width() > room)
    parts.erase(std::min_element(parts.begin(), parts.end(),
                                 [](const Part& a, const Part& b) { return a.wanted < b.wanted; }));
  const int left = room - width() - 2;
  std::string out = head;
  if (left >= kLeast) out += "  " + bar(state.step, state.steps, std::min(left, kMost));
  for (const Part& part : parts) out += "  " + part.text;
  return out.substr(0, room);
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
  if (shown_) output_.live(last_text_ + "\033[K\n");  // keeps the last state on the screen
}

void ProgressLine::update(int64_t step, double loss, int64_t units, const std::string& also) {
  auto now = Clock::now();
  if (started_) {
    double seconds = std::max(1e-9, std::chrono::duration<double>(now - last_update_).count());
    double weight = step_s_ == 0 ? 1 : 0.1;
    step_s_ += weight * (seconds - step_s_);
    rate_ = static_cast<double>(units) / step_s_;
  }
  started_ = true;
  last_update_ = now;
  const double eta = step_s_ > 0 ? step_s_ * static_cast<double>(steps_ - step) : -1;
  const std::string text = progress_text(step, steps_, loss, rate_, eta, unit_, also, output_.exact);
  last_text_ = text;
  if (output_.columns > 0) {
    if (shown_ && step < steps_ && now - last_shown_ < std::chrono::milliseconds(100)) return;
    last_shown_ = now;
    const double of_peak =
        costs_.flops > 0 && costs_.peak > 0 && step_s_ > 0 ? costs_.flops / step_s_ / costs_.peak : 0;
    const int64_t memory = costs_.memory ? costs_.memory() : 0;
    shown_ = output_.live(
        terminal_text({step, steps_, loss, rate_, eta, of_peak, memory, unit_, also}, output_.columns) +
        "\033[K\r");
  } else if (step % every_ == 0 || step == steps_ || (output_.exact && step == 1)) {
    output_.line(text);
  }
}

}  // namespace lockstep::launcher
