// Parses deadlines and selects the current one.
#include "core/mesh/deadline.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>

#include "core/base/env.h"
#include "core/base/error.h"

namespace lockstep {

namespace {
std::atomic<double> g_step{0}, g_start{0};  // 0: LOCKSTEP_DEADLINE was not read yet
std::atomic<Pace> g_pace{Pace::start};
std::atomic<bool> g_supervised{false};
}  // namespace

Deadlines read_deadlines(const std::string& text, const std::string& source) {
  double seconds[2] = {};
  const char* at = text.data();
  const char* end = text.data() + text.size();
  int given = 0;
  for (; given < 2; ++given) {
    auto [next, error] = std::from_chars(at, end, seconds[given]);  // not strtod: no locale
    if (error != std::errc{} || !(seconds[given] > 0) || seconds[given] > 1e9) break;
    if (at = next; at == end || *at != ',') {
      ++given;
      break;
    }
    ++at;
  }
  if (given == 0 || at != end || text.back() == ',')
    throw UserError(str(source, " is \"", text,
                        "\", which is not a positive number, nor two; give seconds, as in ", source,
                        "=60, or for steps and for what is before the first, as in ", source, "=60,600"));
  return {seconds[0], given == 2 ? seconds[1] : seconds[0]};
}

std::string text(const Deadlines& deadlines) {
  return str(number_text(deadlines.step_s), ",", number_text(deadlines.start_s));
}

void take_deadlines() {
  const Deadlines now = read_deadlines(env("LOCKSTEP_DEADLINE"));
  g_start = now.start_s;
  g_step = now.step_s;
}

void set_deadlines(const Deadlines& deadlines) {
  if (std::getenv("LOCKSTEP_DEADLINE")) return take_deadlines();
  g_start = deadlines.start_s;
  g_step = deadlines.step_s;
}

void set_pace(Pace pace) { g_pace = pace; }
Pace pace() { return g_pace; }
void set_supervised(bool supervised) { g_supervised = supervised; }

double current_deadline() {
  if (g_step == 0) take_deadlines();
  const double seconds = g_pace == Pace::steps ? g_step : g_start;
  return g_supervised ? seconds + std::max(2.0, seconds / 4) : seconds;
}

}  // namespace lockstep
