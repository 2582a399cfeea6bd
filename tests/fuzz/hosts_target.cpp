// Fuzz target: names and numbers of hosts. The first byte chooses: a list of --hosts, a host file, a list of
// Slurm's, or words of flags.
#include <set>

#include "launcher/cli/words/care_flags.h"
#include "launcher/supervise/launch/command.h"
#include "launcher/supervise/launch/hosts.h"
#include "tests/fuzz/targets.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::fuzz {

namespace {
using namespace launcher;

// Names go into command lines and files as they are, and each host has ranks.
void check(const std::vector<HostRanks>& hosts) {
  std::set<std::string> names;
  for (const auto& host : hosts) {
    FUZZ_CHECK(host.ranks >= 1, host.ranks);
    FUZZ_CHECK(!host.name.empty() && host.name[0] != '-' && names.insert(host.name).second, host.name);
    FUZZ_CHECK(host.name.find_first_of(" \t\n\r\"'\\$;&|<>`:,/") == std::string::npos, host.name);
  }
}

void flags(const std::string& text) {
  answers([&] {
    const double seconds = cli::read_duration(text, "--timeout");
    FUZZ_CHECK(seconds > 0 && seconds <= 1e9, seconds);
  });
  answers([&] {
    LaunchOptions launch;
    launch.nproc = 8;
    cli::read_nproc_range(cli::split_nproc(text), launch);
    FUZZ_CHECK(launch.min_nproc >= 1 && launch.min_nproc <= 8, launch.min_nproc);
  });
  for (const bool tee : {true, false})
    answers([&] {
      LaunchOptions launch;
      launch.nproc = 8;
      cli::CareFlags words;
      (tee ? words.tee : words.only) = text;
      words.max_restarts = text;
      cli::read_care_flags(words, launch);
      FUZZ_CHECK(launch.max_restarts >= 0 && launch.restart_window >= 0);
    });
}
}  // namespace

void hosts(std::string_view bytes) {
  static const ScratchFolder folder;
  if (bytes.empty()) return;
  const std::string text(bytes.substr(1));
  switch (bytes[0] & 3) {
    case 0:
      answers([&] { check(read_host_list(text, 2, "--hosts")); });
      break;
    case 1:
      answers([&] {
        LaunchHosts read;
        read.list = read_host_file(folder.write("hosts", text), 2);
        check(read.list);
        FUZZ_CHECK(read_host_file(folder.write("again", host_file_text(read)), 1) == read.list);
      });
      break;
    case 2:
      answers([&] { FUZZ_CHECK(!expand_node_list(text).empty() || text.empty()); });
      break;
    default:
      flags(text);
  }
}

}  // namespace lockstep::fuzz
