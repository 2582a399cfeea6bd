// Runs of the real trainrun on hosts that are network namespaces of this machine (hosts.sh).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/real_run.h"

namespace lockstep::tests {

// A file of one of the folders that programs are in.
inline bool is_installed(const std::string& program) {
  for (const char* folder : {"/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/"})
    if (std::filesystem::exists(folder + program)) return true;
  return false;
}

// Why a test of hosts cannot run on this machine; "" where it can.
inline std::string lacks(const std::vector<std::string>& programs) {
  if (geteuid() != 0) return "namespaces for hosts need root";
  for (const auto& program : programs)
    if (!is_installed(program)) return program + " is not installed (scripts/install.sh --tests)";
  if (std::system(HOSTS_SCRIPTS "/alone.sh 5 ip link add x type bridge >/dev/null 2>&1") != 0)
    return "this machine gives no network namespace with a bridge";
  return "";
}

class HostRun : public RealRun {
 protected:
  void SetUp() override {
    const std::string missing = lacks({"ip", "sshd", "ssh-keygen", "nsenter", "unshare", "mpirun", "orted"});
    if (!missing.empty()) GTEST_SKIP() << missing;
    RealRun::SetUp();
    write_tiny(24);
  }
  void TearDown() override {
    if (!previous_.empty()) RealRun::TearDown();
  }

  // Words of a script that wait for the first checkpoint of a run.
  static std::string once_it_runs(const std::string& name) {
    return str("until ls -d runs/", name, "/ckpt/step-* >/dev/null 2>&1; do sleep 0.1; done\n");
  }
  // The same beside what follows, and then `command`.
  static std::string beside(const std::string& name, const std::string& command) {
    return str("(", once_it_runs(name), command, ") &\n");
  }
  // `command`, once host 0 keeps a state of a run in memory.
  static std::string beside_memory(const std::string& command) {
    return str(
        "(until at 0 bash -c 'ls -d /dev/shm/lockstep-memory.*/step-*' >/dev/null 2>&1; do sleep 0.1; done\n",
        command, ") &\n");
  }

  // A script beside the switch of `n` hosts, with `at K COMMAND`, `links K FAULTS` and $trainrun; ends after
  // `seconds`.
  Result on_hosts(int n, const std::string& script, double seconds = 60, const std::string& through = "") {
    const std::string folder = scratch_.path(str("hosts", ++folders_));
    std::filesystem::create_directory(folder);
    std::ofstream(folder + "/script") << "trainrun=" << TRAINRUN << " bad_link=" << BAD_LINK << "\n"
                                      << script;
    std::vector<std::string> words{HOSTS_SCRIPTS "/alone.sh", str(static_cast<int>(seconds * kSlowness)),
                                   HOSTS_SCRIPTS "/hosts.sh", str(n), folder};
    if (!through.empty()) {
      std::filesystem::create_directory(folder + "/more");
      words.insert(words.end(), {HOSTS_SCRIPTS "/" + through, str(n), folder + "/more"});
    }
    words.insert(words.end(), {"bash", folder + "/script"});
    Process process(words, folder + "/out", {{"LOCKSTEP_CACHE", KERNEL_CACHE}});
    const int code = process.wait(seconds + 5);
    return {code, process.output()};
  }

 private:
  int folders_ = 0;
};

}  // namespace lockstep::tests
