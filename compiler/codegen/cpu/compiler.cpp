// Starting the system compiler, with a deadline.
#include "compiler/codegen/cpu/compiler.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "core/base/error.h"

extern char** environ;

namespace lockstep::cpu {

namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// A folder that goes when this object goes.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lockstep-kernels-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      throw UserError(str("cannot make a folder for compiling kernels in ", std::filesystem::temp_directory_path().string(), ": ",
                          std::strerror(errno), "; set TMPDIR to a folder with space"));
    path = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

struct Child {
  pid_t pid = -1;
  size_t command = 0;
  std::chrono::steady_clock::time_point end;
};

std::string first_lines(const std::string& text, int count) {
  std::string out;
  std::istringstream in(text);
  for (std::string line; count > 0 && std::getline(in, line); --count) out += "\n  " + line;
  return out;
}

}  // namespace

std::vector<Finished> run_programs(const std::vector<std::vector<std::string>>& commands, int at_once, int deadline) {
  ScratchFolder folder;
  std::vector<Finished> out(commands.size());
  std::vector<Child> running;
  size_t next = 0;
  auto pause = std::chrono::microseconds(500);
  while (next < commands.size() || !running.empty()) {
    while (next < commands.size() && static_cast<int>(running.size()) < std::max(1, at_once)) {
      const auto& command = commands[next];
      std::vector<char*> argv;
      for (const auto& word : command) argv.push_back(const_cast<char*>(word.c_str()));
      argv.push_back(nullptr);
      std::string log = folder.path / str(next);
      posix_spawn_file_actions_t actions;
      posix_spawn_file_actions_init(&actions);
      posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
      posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      posix_spawn_file_actions_adddup2(&actions, 1, 2);
      pid_t pid = -1;
      int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
      posix_spawn_file_actions_destroy(&actions);
      if (error != 0)
        out[next] = {127, std::strerror(error)};
      else
        running.push_back({pid, next, std::chrono::steady_clock::now() + std::chrono::seconds(deadline)});
      ++next;
    }
    bool moved = false;
    for (size_t i = 0; i < running.size();) {
      int status = 0;
      pid_t got = waitpid(running[i].pid, &status, WNOHANG);
      if (got == 0 && std::chrono::steady_clock::now() > running[i].end) {
        kill(running[i].pid, SIGKILL);
        got = waitpid(running[i].pid, &status, 0);
      }
      if (got == 0 || (got < 0 && errno == EINTR)) {
        ++i;
        continue;
      }
      Finished& result = out[running[i].command];
      result.status = got < 0 ? 127 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      result.output = read_file(folder.path / str(running[i].command));
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      moved = true;
    }
    if (!moved && !running.empty()) std::this_thread::sleep_for(pause);
  }
  return out;
}

std::string compiler_version(const std::string& compiler) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  std::lock_guard lock(mutex);
  auto found = known.find(compiler);
  if (found != known.end()) return found->second;
  Finished done = run_programs({{compiler, "--version"}}, 1, 60)[0];
  if (done.status != 0)
    throw UserError(str("the compiler of kernels, \"", compiler,
                        "\", does not run: ", done.output.empty() ? str("exit status ", done.status) : trim(done.output),
                        "; install g++ (apt-get install g++) or set LOCKSTEP_CXX"));
  return known[compiler] = done.output.substr(0, done.output.find('\n'));
}

std::string compile_units(const std::string& compiler, const std::string& flags, const std::vector<std::string>& units, int at_once) {
  ScratchFolder folder;
  std::vector<std::string> words;
  for (const auto& word : split(flags, ' '))
    if (!word.empty()) words.push_back(word);
  std::vector<std::vector<std::string>> commands;
  std::vector<std::string> objects;
  const std::string library = folder.path / "kernels.so";
  for (size_t i = 0; i < units.size(); ++i) {
    std::string source = folder.path / str("unit", i, ".cpp"), object = folder.path / str("unit", i, ".o");
    std::ofstream(source, std::ios::binary) << units[i];
    objects.push_back(object);
    std::vector<std::string> command{compiler};
    command.insert(command.end(), words.begin(), words.end());
    if (units.size() == 1)
      command.insert(command.end(), {"-shared", "-o", library, source});
    else
      command.insert(command.end(), {"-c", "-o", object, source});
    commands.push_back(std::move(command));
  }
  auto check = [&](const Finished& done) {
    if (done.status == 0) return;
    const bool clang = compiler_version(compiler).find("clang") != std::string::npos;
    throw UserError(str("the compiler of kernels, \"", compiler, "\", failed with status ", done.status, ":", first_lines(done.output, 12),
                        "\n  its flags were: ", flags,
                        clang ? "; kernels are written for g++, which clang is not: set LOCKSTEP_CXX=g++, or leave it out"
                              : "; set LOCKSTEP_CXX to another g++, or LOCKSTEP_ISA=plain"));
  };
  for (const auto& done : run_programs(commands, at_once, 600)) check(done);
  if (units.size() > 1) {
    std::vector<std::string> command{compiler, "-shared", "-fopenmp", "-o", library};
    command.insert(command.end(), objects.begin(), objects.end());
    check(run_programs({command}, 1, 600)[0]);
  }
  std::string code = read_file(library);
  if (code.empty())
    throw UserError(str("the compiler of kernels, \"", compiler, "\", wrote no code to ", folder.path.string(), "; is the disk full?"));
  return code;
}

}  // namespace lockstep::cpu
