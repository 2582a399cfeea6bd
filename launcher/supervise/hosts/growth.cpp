// Probes hosts with child processes that are polled, never waited for.
#include "launcher/supervise/hosts/growth.h"

#include <algorithm>
#include <boost/process/args.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/io.hpp>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "core/base/error.h"
#include "launcher/supervise/launch/command.h"

namespace lockstep::launcher {

namespace bp = boost::process;

namespace {
constexpr double kBetween = 5, kLongestAnswer = 10;  // seconds between two probes, and for an answer

// The first alternative of Open MPI's "ssh -F file : rsh".
std::vector<std::string> remote_words() {
  const char* own = std::getenv("OMPI_MCA_plm_rsh_agent");
  const std::string first = split(own && *own ? own : "ssh", ':')[0];
  std::vector<std::string> out;
  for (const auto& word : split(first, ' '))
    if (!word.empty()) out.push_back(word);
  if (out.empty()) out = {"ssh"};
  if (std::filesystem::path(out[0]).filename() == "ssh")
    out.insert(out.end(), {"-o", "BatchMode=yes", "-o", "ConnectTimeout=5"});
  return out;
}
}  // namespace

HostProbe::~HostProbe() {
  std::error_code ignored;
  if (child_) child_->terminate(ignored);
}

const std::vector<std::string>& HostProbe::answered(const std::vector<HostRanks>& hosts, double now_s) {
  std::error_code failed;
  if (child_) {
    const bool runs = child_->running(failed);
    if (runs && now_s - since_ < kLongestAnswer) return answered_;
    if (runs) child_->terminate(failed);
    if (!runs && !failed && child_->exit_code() == 0) answered_.push_back(asked_);
    child_.reset();
  }
  if (hosts.empty() || (since_ != 0 && now_s - since_ < kBetween)) return answered_;
  asked_ = hosts[next_++ % hosts.size()].name;
  since_ = now_s;
  auto words = remote_words();
  words.insert(words.end(), {asked_, "true"});
  const std::string program = found_in_path(words[0]);
  if (program.empty()) return answered_;
  child_.emplace(bp::exe = program, bp::args = std::vector<std::string>(words.begin() + 1, words.end()),
                 bp::std_in<bp::null, bp::std_out> bp::null, bp::std_err > bp::null, failed);
  if (failed) child_.reset();
  return answered_;
}

void Growth::begin(bool grown, double now_s) {
  grown_ = grown, began_ = now_s;
  back_.clear();
  probe_.clear();
}

bool Growth::due(const Membership& members, double now_s) {
  const Reach reach = members.hosts().reach;
  if (after_ <= 0 || members.whole() || reach == Reach::agents || now_s - began_ < wait_) return false;
  if (members.ranks_away()) return true;
  if (reach != Reach::ssh) return false;  // Slurm never returns a host to an allocation
  back_ = probe_.answered(members.away(), now_s);
  return !back_.empty();
}

bool Growth::failed(double now_s) {
  const bool soon = grown_ && now_s - began_ < wait_;
  wait_ = soon ? 2 * wait_ : after_;
  return soon;
}

}  // namespace lockstep::launcher
