// Parses Open MPI's messages.
#include "launcher/supervise/hosts/mpirun_words.h"

#include <algorithm>
#include <cctype>

#include "core/base/error.h"
#include "core/reading/sentence.h"
#include "core/reading/whole_number.h"

namespace lockstep::launcher {

namespace {
bool is_rule(const std::string& line) {
  return line.size() >= 40 && line.find_first_not_of('-') == std::string::npos;
}
// "[host:pid] ...": Open MPI's log, such as "2 more processes have sent help message".
bool is_log_line(const std::string& line) {
  const size_t end = line.find("] "), colon = line.rfind(':', end);
  if (!line.starts_with('[') || end == std::string::npos || colon == std::string::npos || colon < 2)
    return false;
  return whole_number(std::string_view(line).substr(colon + 1, end - colon - 1)) &&
         std::all_of(line.begin() + 1, line.begin() + static_cast<std::ptrdiff_t>(colon),
                     [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; });
}
int64_t number(const std::string& digits) { return whole_number(digits).value_or(0); }
}  // namespace

bool MpirunWords::take(const std::string& line) {
  if (is_rule(line)) {
    inside_ = !inside_;
    return true;
  }
  if (!inside_) return is_log_line(line);
  if (const std::string words = trim(line); !words.empty()) text_ += str(text_.empty() ? "" : " ", words);
  return true;
}

void MpirunWords::take_rank_line(const std::string& line) {
  const auto unable = find_sentence(line, "from @ to: @ Unable to connect to the peer @ on port #: ");
  if (!unable || unable->end == line.size()) return;
  const auto& gaps = unable->gaps;
  unreached_.push_back(
      {gaps[0], gaps[1], str(gaps[2], ", port ", gaps[3], ": ", trim(line.substr(unable->end)))});
}

MpirunWords::Meaning MpirunWords::meaning() const {
  Meaning out;
  out.unreached = unreached_;
  if (auto killed = find_sentence(text_, "process rank # with PID # on node @ exited on signal #"))
    out.ends.push_back({number(killed->gaps[0]), static_cast<int>(number(killed->gaps[3]) & 0x7f)});
  if (auto failed = find_sentence(text_, "Process name: [[#,#],#] Exit code: #"))
    out.ends.push_back({number(failed->gaps[2]), static_cast<int>(number(failed->gaps[3]) & 0xff) << 8});
  if (auto early = find_sentence(text_, "process rank # with PID # on node @ exiting improperly"))
    out.ends.push_back({number(early->gaps[0]), 0, false, true});
  constexpr std::string_view kLost = "lost communication with a remote daemon";
  for (size_t at = text_.find(kLost); at != std::string::npos; at = text_.find(kLost, at)) {
    const auto daemon = find_sentence(text_, "Remote daemon: @ on node @", at);
    if (!daemon) break;
    out.lost_hosts.push_back(daemon->gaps[1]);
    at = daemon->end;
  }
  return out;
}

std::string MpirunWords::shown(size_t most) const { return shortened(text_, most); }

}  // namespace lockstep::launcher
