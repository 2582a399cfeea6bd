// Finds and ends orphaned processes.
#include "launcher/supervise/run/leftovers.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

namespace lockstep::launcher {

namespace fs = std::filesystem;

std::vector<int> children_of_this_process() {
  std::vector<int> out;
  std::error_code failed;
  for (const auto& task : fs::directory_iterator("/proc/self/task", failed)) {
    std::ifstream file(task.path() / "children");
    for (int pid; file >> pid;) out.push_back(pid);
  }
  return out;
}

Leftovers::Leftovers() : spared_(children_of_this_process()) { prctl(PR_SET_CHILD_SUBREAPER, 1); }

void Leftovers::end_all(int spared) {
  auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < until) {
    bool any = false;
    for (int pid : children_of_this_process()) {
      if (pid == spared || std::find(spared_.begin(), spared_.end(), pid) != spared_.end()) continue;
      any = true;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, WNOHANG);
    }
    if (!any) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace lockstep::launcher
