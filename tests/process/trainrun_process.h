// Starting the supervisor as a process of its own, and what a test asks of it and of its ranks.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/base/json.h"
#include "core/base/text.h"
#include "tests/support/slowness.h"

namespace lockstep {

std::string file_text(const std::string& path);

// Polls until `done` or the deadline, which is later under a sanitizer; returns whether it came.
template <class Done>
bool until(double seconds, Done done) {
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds * kSlowness);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

// A process that runs; a zombie has ended.
bool alive(int pid);

class Process {
 public:
  Process(const std::vector<std::string>& argv, const std::string& output,
          const std::map<std::string, std::string>& variables = {});
  ~Process();
  int pid() const { return pid_; }
  std::string output() const { return file_text(output_); }
  // Exit code, 128 + signal, or -1 when it still runs after `seconds`.
  int wait(double seconds);

 private:
  std::string output_;
  int pid_ = -1, code_ = -1;
};

// A run folder with fake workers in it.
class RunRecord {
 public:
  explicit RunRecord(std::string folder) : folder_(std::move(folder)) {}
  std::string log_dir(int attempt = 1) const { return str(folder_, "/logs/attempt-", attempt); }
  std::string log(int rank, int attempt = 1) const {
    return file_text(str(log_dir(attempt), "/rank-", rank, ".log"));
  }
  // pid of a rank; 0 when it has not announced itself in time.
  int pid(int rank, int attempt = 1) const;
  std::vector<int> pids(int nproc, int attempt = 1) const {
    std::vector<int> out;
    for (int rank = 0; rank < nproc; ++rank) out.push_back(pid(rank, attempt));
    return out;
  }

 private:
  std::string folder_;
};

bool all_gone(const std::vector<int>& pids, double seconds);

}  // namespace lockstep
