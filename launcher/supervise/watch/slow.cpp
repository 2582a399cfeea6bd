// SlowWatch: evaluates windows of steps and finds the rank that stands out in each.
#include "launcher/supervise/watch/slow.h"

#include <algorithm>
#include <cstdio>

#include "core/base/text.h"

namespace lockstep::launcher {

namespace {
constexpr double kWindow = 1;         // seconds at least
constexpr int64_t kSteps = 20;        // steps at least, of every rank
constexpr int kWindows = 3;           // one after another
constexpr double kSlow = 1.5;         // times the median of the others
constexpr double kShareOfStep = 0.1;  // minimum share of the step that the difference must be
constexpr double kToldAgain = 60;     // seconds before it is reported again

double median(std::vector<double> values) {
  const size_t half = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}
std::string digits(double value) {
  char out[32];
  std::snprintf(out, sizeof out, "%.1f", value);
  return out;
}
}  // namespace

void SlowWatch::begin(const std::vector<distributed::WorkerProgress>& words, int64_t now_ns) {
  for (size_t r = 0; r < ranks_.size(); ++r)
    ranks_[r].busy_ns = words[r].busy_ns, ranks_[r].steps = words[r].busy_steps;
  began_ns_ = now_ns;
}

std::vector<std::string> SlowWatch::look(const std::vector<distributed::WorkerProgress>& words,
                                         int64_t now_ns) {
  if (ranks_.size() < 2) return {};
  if (began_ns_ == 0) begin(words, now_ns);
  const double seconds = static_cast<double>(now_ns - began_ns_) * 1e-9;
  if (seconds < kWindow) return {};
  std::vector<double> own, share;
  int64_t fewest = INT64_MAX;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    const int64_t steps = words[r].busy_steps - ranks_[r].steps;
    if (steps < kSteps) return {};
    fewest = std::min(fewest, steps);
    own.push_back(static_cast<double>(words[r].busy_ns - ranks_[r].busy_ns) * 1e-6 /
                  static_cast<double>(steps));
    share.push_back(static_cast<double>(std::max<int64_t>(1, words[r].share)));
  }
  const double step_ms = seconds * 1e3 / static_cast<double>(fewest);
  std::vector<std::string> out;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    std::vector<double> others, shares;
    for (size_t other = 0; other < ranks_.size(); ++other)
      if (other != r) others.push_back(own[other]), shares.push_back(share[other]);
    // A rank with more micro-batches than the others may take proportionally longer.
    const double usual = median(others), fair = usual * std::max(1.0, share[r] / median(shares));
    Rank& rank = ranks_[r];
    const bool slow = own[r] > kSlow * fair && own[r] - fair > kShareOfStep * step_ms;
    if (!slow) {
      if (rank.told) out.push_back(str("rank ", r, " keeps up with the others again"));
      rank = {};
      continue;
    }
    ++rank.windows;
    rank.own_sum += own[r], rank.others_sum += usual;
    rank.steps_sum += fewest;
    const bool again = rank.told && static_cast<double>(now_ns - rank.told_ns) * 1e-9 > kToldAgain;
    // Reports after kWindows slow windows in a row; a window that is not slow resets the count above.
    if (rank.windows < kWindows || (rank.told && !again)) continue;
    out.push_back(str("rank ", r, " is slow: ", digits(rank.own_sum / std::max(rank.others_sum, 1e-3)),
                      " times the median of the other ranks over the last ", rank.steps_sum, " steps (",
                      digits(rank.own_sum / rank.windows), " ms of its own work a step, the others ",
                      digits(rank.others_sum / rank.windows), ")"));
    rank.told = true;
    rank.factor = rank.own_sum / std::max(rank.others_sum, 1e-3);
    rank.told_ns = now_ns;
    rank.own_sum = rank.others_sum = 0;
    rank.steps_sum = 0;
    rank.windows = 0;
  }
  begin(words, now_ns);
  return out;
}

SlowRanks SlowWatch::slow() const {
  SlowRanks out;
  for (size_t r = 0; r < ranks_.size(); ++r)
    if (ranks_[r].told) out.emplace_back(static_cast<int64_t>(r), ranks_[r].factor);
  return out;
}

}  // namespace lockstep::launcher
