// StopRequest: signals take precedence over wishes, because the user's stop must work in any state of the
// supervisor.
#include "launcher/supervise/run/stop_request.h"

#include "core/base/error.h"
#include "core/base/steady_seconds.h"
#include "launcher/supervise/run/cause.h"
#include "launcher/supervise/run/user_signals.h"

namespace lockstep::launcher {

namespace {
constexpr double kNeverReady = 5, kAskedFor = 0.25;  // seconds

}  // namespace

bool StopRequest::look(const std::function<SlowRanks()>& slow) {
  if (signals_seen() > 0 && (since_ == 0 || !wish_.reason.empty())) {
    since_ = steady_seconds();
    wish_ = {};
    console_.notice(
        str(signal_text(first_signal()), ": finishing the step and saving; a second signal kills at once"));
  } else if (since_ == 0 && wanted_ && steady_seconds() - asked_ > kAskedFor) {
    asked_ = steady_seconds();
    wish_ = wanted_(slow());
    if (!wish_.reason.empty()) {
      since_ = steady_seconds();
      console_.notice(str(wish_.reason, ": finishing the step and saving", wish_.then));
    }
  }
  return since_ != 0;
}

bool StopRequest::insists() const { return since_ != 0 && (wish_.reason.empty() || wish_.insists); }

bool StopRequest::also_unready() const { return insists() && steady_seconds() - since_ > kNeverReady; }

std::string StopRequest::kill_reason() const {
  if (!insists()) return "";
  if (signals_seen() > 1) return "second signal";
  if (steady_seconds() - since_ <= grace_) return "";
  return str("not done ", number_text(grace_), " s after ",
             wish_.reason.empty() ? "the first signal" : wish_.reason);
}

}  // namespace lockstep::launcher
