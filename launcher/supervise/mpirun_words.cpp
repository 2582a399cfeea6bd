// Open MPI's sentences, by regular expressions.
#include "launcher/supervise/mpirun_words.h"

#include <algorithm>
#include <cstdlib>
#include <regex>

#include "core/base/error.h"

namespace lockstep::launcher {

namespace {
bool is_rule(const std::string& line) {
  return line.size() >= 40 && line.find_first_not_of('-') == std::string::npos;
}
// "[host:pid] ...": Open MPI's log, such as "2 more processes have sent help message".
const std::regex& log_line() {
  static const std::regex out(R"(^\[[A-Za-z0-9._-]+:\d+\] )");
  return out;
}
}  // namespace

bool MpirunWords::take(const std::string& line) {
  if (is_rule(line)) {
    inside_ = !inside_;
    return true;
  }
  if (!inside_) return std::regex_search(line, log_line());
  if (const std::string words = trim(line); !words.empty()) text_ += str(text_.empty() ? "" : " ", words);
  return true;
}

void MpirunWords::take_rank_line(const std::string& line) {
  static const std::regex unable(
      R"(from (\S+) to: (\S+) Unable to connect to the peer (\S+) on port (\d+): (.+))");
  std::smatch found;
  if (std::regex_search(line, found, unable))
    unreached_.push_back(
        {found[1], found[2], str(found[3].str(), ", port ", found[4].str(), ": ", trim(found[5].str()))});
}

MpirunWords::Meaning MpirunWords::meaning() const {
  static const std::regex killed(R"(process rank (\d+) with PID \d+ on node \S+ exited on signal (\d+))");
  static const std::regex failed(R"(Process name: \[\[\d+,\d+\],(\d+)\] Exit code: +(\d+))");
  static const std::regex early(R"(process rank (\d+) with PID \d+ on node \S+ exiting improperly)");
  static const std::regex lost(
      R"(lost communication with a remote daemon.*?Remote daemon: \S+ on node (\S+))");
  Meaning out;
  out.unreached = unreached_;
  std::smatch found;
  if (std::regex_search(text_, found, killed))
    out.ends.push_back({std::atoll(found[1].str().c_str()), std::atoi(found[2].str().c_str()) & 0x7f});
  if (std::regex_search(text_, found, failed))
    out.ends.push_back({std::atoll(found[1].str().c_str()), (std::atoi(found[2].str().c_str()) & 0xff) << 8});
  if (std::regex_search(text_, found, early))
    out.ends.push_back({std::atoll(found[1].str().c_str()), 0, false, true});
  for (std::sregex_iterator at(text_.begin(), text_.end(), lost), end; at != end; ++at)
    out.lost_hosts.push_back((*at)[1]);
  return out;
}

std::string MpirunWords::shown(size_t most) const { return shortened(text_, most); }

}  // namespace lockstep::launcher
