// Finding and ending processes that were left, and removing files of a job.
#include "launcher/supervise/leftovers.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/text.h"

namespace lockstep {

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

void remove_job_files(const std::string& job, int mpirun_pid) {
  std::error_code failed;
  if (!job.empty()) {
    char hex[32];
    std::snprintf(hex, sizeof hex, ".%x.", static_cast<unsigned>(std::strtoul(job.c_str(), nullptr, 10)));
    std::string own = str(".", getuid(), hex);
    for (const auto& entry : fs::directory_iterator("/dev/shm", failed)) {
      std::string name = entry.path().filename();
      std::error_code ignored;  // gone already
      if (name.rfind("vader_segment.", 0) == 0 && name.find(own) != std::string::npos) fs::remove(entry.path(), ignored);
    }
  }
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const char* tmp = std::getenv("TMPDIR");
  std::string top = str(tmp ? tmp : "/tmp", "/ompi.", host, ".", getuid());
  fs::remove_all(str(top, "/pid.", mpirun_pid), failed);
  fs::remove(top, failed);  // only when it is empty
}

}  // namespace lockstep
