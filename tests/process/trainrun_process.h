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

inline std::string file_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream out;
  out << file.rdbuf();
  return out.str();
}

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
inline bool alive(int pid) {
  std::string stat = file_text(str("/proc/", pid, "/stat"));
  auto paren = stat.rfind(')');
  return paren != std::string::npos && paren + 2 < stat.size() && stat[paren + 2] != 'Z' &&
         stat[paren + 2] != 'X';
}

class Process {
 public:
  Process(const std::vector<std::string>& argv, const std::string& output,
          const std::map<std::string, std::string>& variables = {})
      : output_(output) {
    pid_ = fork();
    if (pid_ == 0) {
      for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
      int fd = open(output.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
      dup2(fd, 1), dup2(fd, 2);
      setpgid(0, 0);
      std::vector<char*> words;
      for (const auto& word : argv) words.push_back(const_cast<char*>(word.c_str()));
      words.push_back(nullptr);
      execv(words[0], words.data());
      _exit(127);
    }
  }
  ~Process() {
    if (code_ < 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
  }
  int pid() const { return pid_; }
  std::string output() const { return file_text(output_); }
  // Exit code, 128 + signal, or -1 when it still runs after `seconds`.
  int wait(double seconds) {
    int status = 0;
    if (code_ < 0 && until(seconds, [&] { return waitpid(pid_, &status, WNOHANG) == pid_; }))
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return code_;
  }

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
  int pid(int rank, int attempt = 1) const {
    std::string path = str(log_dir(attempt), "/worker-", rank, ".json");
    int pid = 0;
    until(10, [&] {
      Json json = Json::parse(file_text(path), nullptr, false);
      if (json.is_object()) pid = json["pid"].get<int>();
      return pid != 0;
    });
    return pid;
  }
  std::vector<int> pids(int nproc, int attempt = 1) const {
    std::vector<int> out;
    for (int rank = 0; rank < nproc; ++rank) out.push_back(pid(rank, attempt));
    return out;
  }

 private:
  std::string folder_;
};

inline bool all_gone(const std::vector<int>& pids, double seconds) {
  return until(seconds, [&] {
    for (int pid : pids)
      if (alive(pid)) return false;
    return true;
  });
}

}  // namespace lockstep
