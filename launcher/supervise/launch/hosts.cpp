// Parses and prints lists of hosts.
#include "launcher/supervise/launch/hosts.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>

#include "core/base/error.h"
#include "core/files/plain_file.h"

namespace lockstep::launcher {

namespace {
constexpr int64_t kMostRanksOfHost = 4096, kMostHosts = 65536, kMostBytesOfHosts = int64_t{1} << 24;

// Digits of 1 to `most`; 0 for anything else.
int64_t count(const std::string& text, int64_t most) {
  if (text.empty() || text.size() > 9 ||
      !std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); }))
    return 0;
  const int64_t value = std::atoll(text.c_str());
  return value <= most ? value : 0;
}

// Whether a name can go into a host file and a command line unquoted.
bool is_host_name(const std::string& name) {
  return !name.empty() && std::isalnum(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '-' || c == '_'; });
}

void add_host(std::vector<HostRanks>& out, const HostRanks& host, const std::string& where) {
  if (!is_host_name(host.name))
    throw UserError(str(where, ": \"", shortened(host.name, 60), "\" is no name of a host"));
  for (const auto& other : out)
    if (other.name == host.name)
      throw UserError(str(where, ": ", host.name, " is given twice; give it once, with all its ranks"));
  out.push_back(host);
}

// "NAME" or "NAME:N".
HostRanks named(const std::string& word, int64_t each, const std::string& where) {
  const size_t colon = word.find(':');
  if (colon == std::string::npos) return {word, each};
  const int64_t ranks = count(word.substr(colon + 1), kMostRanksOfHost);
  if (ranks == 0)
    throw UserError(str(where, ": \"", shortened(word, 60), "\" has no number of ranks of 1 to ",
                        kMostRanksOfHost, " after the colon; write NAME:N"));
  return {word.substr(0, colon), ranks};
}
}  // namespace

int64_t LaunchHosts::ranks() const {
  int64_t out = 0;
  for (const auto& host : list) out += host.ranks;
  return out;
}

std::string LaunchHosts::of(int64_t rank) const {
  for (const auto& host : list) {
    if (rank < host.ranks) return rank < 0 ? "" : host.name;
    rank -= host.ranks;
  }
  return "";
}

LaunchHosts LaunchHosts::without(const std::vector<std::string>& names,
                                 const std::vector<int64_t>& ranks) const {
  LaunchHosts out = *this;
  for (auto& host : out.list) {
    for (int64_t rank : ranks) host.ranks -= of(rank) == host.name;
    if (std::find(names.begin(), names.end(), host.name) != names.end()) host.ranks = 0;
  }
  std::erase_if(out.list, [](const HostRanks& host) { return host.ranks <= 0; });
  return out;
}

std::vector<HostRanks> read_host_list(const std::string& text, int64_t each, const std::string& flag) {
  std::vector<HostRanks> out;
  for (const auto& word : split(text, ',')) add_host(out, named(trim(word), each, flag), flag);
  return out;
}

std::vector<HostRanks> read_host_file(const std::string& path, int64_t each) {
  std::string text, why;
  if (!read_plain(path, text, why, kMostBytesOfHosts))
    throw UserError(str("--hostfile ", path, " cannot be read: ", why,
                        "; give a file with a line \"NAME slots=N\" for each host"));
  std::istringstream file(text);
  std::vector<HostRanks> out;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    const std::string where = str(path, ":", number);
    HostRanks host = named(word, each, where);
    while (words >> word) {
      const bool slots = word.rfind("slots=", 0) == 0;
      if (slots) host.ranks = count(word.substr(6), kMostRanksOfHost);
      if (!slots && word.rfind("max_slots=", 0) != 0 && word.rfind("max-slots=", 0) != 0)
        throw UserError(str(where, ": \"", shortened(word, 60), "\" is not known; write NAME slots=N"));
      if (slots && host.ranks == 0)
        throw UserError(
            str(where, ": \"", shortened(word, 60), "\" is no number of 1 to ", kMostRanksOfHost));
    }
    add_host(out, host, where);
  }
  if (out.empty())
    throw UserError(str("--hostfile ", path, " names no host; give a line \"NAME slots=N\" for each"));
  return out;
}

std::vector<std::string> expand_node_list(const std::string& text) {
  std::vector<std::string> out;
  auto refuse = [&] {
    throw UserError(
        str("\"", shortened(text, 80), "\" is no list of hosts as Slurm writes it (n[1-3,5],gpu1)"));
  };
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    for (bool inside = false; end < text.size() && (inside || text[end] != ','); ++end)
      inside = text[end] == '[' || (inside && text[end] != ']');
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    const size_t open = word.find('['), close = word.find(']');
    if (open == std::string::npos) {
      if (!is_host_name(word)) refuse();
      out.push_back(word);
      continue;
    }
    if (close == std::string::npos || close < open || word.find('[', close) != std::string::npos) refuse();
    for (const auto& range : split(word.substr(open + 1, close - open - 1), ',')) {
      const size_t dash = range.find('-');
      const std::string first = range.substr(0, dash),
                        last = dash == std::string::npos ? first : range.substr(dash + 1);
      auto digits = [](const std::string& s) {
        return !s.empty() && s.size() < 10 && s.find_first_not_of("0123456789") == std::string::npos;
      };
      if (!digits(first) || !digits(last)) refuse();
      for (int64_t number = std::atoll(first.c_str()); number <= std::atoll(last.c_str()); ++number) {
        std::string name = str(number);
        if (name.size() < first.size()) name.insert(0, first.size() - name.size(), '0');
        out.push_back(str(word.substr(0, open), name, word.substr(close + 1)));
        if (!is_host_name(out.back()) || out.size() > kMostHosts) refuse();
      }
    }
  }
  return out;
}

std::vector<HostRanks> slurm_hosts(int64_t each) {
  const char* nodes = std::getenv("SLURM_JOB_NODELIST");
  if (!std::getenv("SLURM_JOB_ID") || !nodes) return {};
  const auto names = expand_node_list(nodes);
  std::vector<int64_t> tasks;
  // Without a task count, Slurm puts the processor count here.
  const char* text = std::getenv("SLURM_NTASKS") ? std::getenv("SLURM_TASKS_PER_NODE") : nullptr;
  for (const auto& word : split(text ? text : "1", ',')) {  // "2(x3),1"
    const size_t times = word.find("(x");
    const int64_t number = count(word.substr(0, times), kMostRanksOfHost);
    const int64_t hosts =
        times == std::string::npos ? 1 : count(word.substr(times + 2, word.size() - times - 3), kMostHosts);
    if (number == 0 || hosts == 0)
      throw UserError(str("environment: SLURM_TASKS_PER_NODE is \"", shortened(text, 60),
                          "\"; it must be as Slurm writes it, as in 2(x3),1"));
    tasks.insert(tasks.end(), hosts, number);
  }
  std::vector<HostRanks> out;
  for (size_t i = 0; i < names.size(); ++i)
    out.push_back({names[i], each ? each : i < tasks.size() ? tasks[i] : tasks.back()});
  return out;
}

}  // namespace lockstep::launcher
