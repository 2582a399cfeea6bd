// Starting and watching processes, compiled once for all tests.
#include "tests/process/trainrun_process.h"

namespace lockstep {

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream out;
  out << file.rdbuf();
  return out.str();
}

bool alive(int pid) {
  std::string stat = file_text(str("/proc/", pid, "/stat"));
  auto paren = stat.rfind(')');
  return paren != std::string::npos && paren + 2 < stat.size() && stat[paren + 2] != 'Z' &&
         stat[paren + 2] != 'X';
}

Process::Process(const std::vector<std::string>& argv, const std::string& output,
                 const std::map<std::string, std::string>& variables)
    : output_(output) {
  // Emptied before the process is there: who waits for a word must not find an earlier process's.
  const int fd = open(output.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
  pid_ = fork();
  if (pid_ == 0) {
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    dup2(fd, 1), dup2(fd, 2), close(fd);
    setpgid(0, 0);
    std::vector<char*> words;
    for (const auto& word : argv) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execv(words[0], words.data());
    _exit(127);
  }
  close(fd);
}
Process::~Process() {
  if (code_ < 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
}
int Process::wait(double seconds) {
  int status = 0;
  if (code_ < 0 && until(seconds, [&] { return waitpid(pid_, &status, WNOHANG) == pid_; }))
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return code_;
}

int RunRecord::pid(int rank, int attempt) const {
  std::string path = str(log_dir(attempt), "/worker-", rank, ".json");
  int pid = 0;
  until(10, [&] {
    Json json = Json::parse(file_text(path), nullptr, false);
    if (json.is_object()) pid = json["pid"].get<int>();
    return pid != 0;
  });
  return pid;
}

bool all_gone(const std::vector<int>& pids, double seconds) {
  return until(seconds, [&] {
    for (int pid : pids)
      if (alive(pid)) return false;
    return true;
  });
}

}  // namespace lockstep
