// Starts the system compiler, with a deadline.
#include "compiler/codegen/cpu/compiler.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>

#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/files/private_file.h"
#include "core/files/temporary_folder.h"
#include "core/files/unfinished.h"

extern char** environ;

namespace lockstep::compiler::cpu {

namespace {

// The bytes of a file in a private folder; "" if it does not exist.
std::string read_in(const Descriptor& folder, const char* name) {
  Descriptor file(openat(folder.get(), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat at{};
  if (!file || fstat(file.get(), &at) != 0 || !S_ISREG(at.st_mode)) return "";
  std::string out(at.st_size, '\0');
  const int64_t got = read_fully(file.get(), out.data(), out.size(), 0);
  out.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return out;
}

// A memory file for a program's output, so that no file is left behind.
Descriptor output_file() {
  Descriptor file(memfd_create("lockstep-compiler-output", MFD_CLOEXEC));
  LS_CHECK(file, "memfd_create: ", std::strerror(errno));
  return file;
}
std::string text_of(const Descriptor& file) {
  std::string out(std::max<off_t>(0, lseek(file.get(), 0, SEEK_END)), '\0');
  const ssize_t n = pread(file.get(), out.data(), out.size(), 0);
  out.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return out;
}

// This process's environment with another folder for temporary files.
std::vector<std::string> environment_with(const std::string& scratch) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry; ++entry)
    if (scratch.empty() || std::strncmp(*entry, "TMPDIR=", 7) != 0) out.push_back(*entry);
  if (!scratch.empty()) out.push_back("TMPDIR=" + scratch);
  return out;
}
std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (auto& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

struct Child {
  pid_t pid = -1;
  size_t command = 0;
  Descriptor output;
  std::chrono::steady_clock::time_point end;
  std::unique_ptr<Unfinished> alive = {};  // kills the program if this process ends first
};

std::string first_lines(const std::string& text, int count) {
  std::string out;
  std::istringstream in(text);
  for (std::string line; count > 0 && std::getline(in, line); --count) out += "\n  " + line;
  return out;
}

}  // namespace

std::vector<Finished> run_programs(const std::vector<std::vector<std::string>>& commands, int at_once,
                                   int deadline, const std::string& scratch) {
  std::vector<std::string> environment = environment_with(scratch);
  std::vector<char*> variables = pointers_to(environment);
  std::vector<Finished> out(commands.size());
  std::vector<Child> running;
  size_t next = 0;
  auto pause = std::chrono::microseconds(500);
  while (next < commands.size() || !running.empty()) {
    while (next < commands.size() && static_cast<int>(running.size()) < std::max(1, at_once)) {
      std::vector<std::string> command = commands[next];
      std::vector<char*> argv = pointers_to(command);
      Descriptor output = output_file();
      posix_spawn_file_actions_t actions;
      posix_spawn_file_actions_init(&actions);
      posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
      posix_spawn_file_actions_adddup2(&actions, output.get(), 1);
      posix_spawn_file_actions_adddup2(&actions, 1, 2);
      pid_t pid = -1;
      int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), variables.data());
      posix_spawn_file_actions_destroy(&actions);
      if (error != 0) {
        out[next] = {127, std::strerror(error), false};
      } else {
        running.push_back({pid, next, std::move(output),
                           std::chrono::steady_clock::now() + std::chrono::seconds(deadline),
                           std::make_unique<Unfinished>()});
        running.back().alive->add_process(pid);
      }
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
      result.output = text_of(running[i].output);
      running[i].alive->keep();
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
  if (done.status != 0) {
    const std::string why =
        str("the compiler of kernels, \"", compiler,
            "\", does not run: ", done.output.empty() ? str("exit status ", done.status) : trim(done.output),
            "; install g++ (apt-get install g++) or set LOCKSTEP_CXX");
    if (!done.started) throw NoCompiler(why);
    throw UserError(why);
  }
  return known[compiler] = done.output.substr(0, done.output.find('\n'));
}

std::string compile_units(const std::string& compiler, const std::string& flags,
                          const std::vector<std::string>& units, int at_once) {
  const TemporaryFolder folder("kernels");
  std::vector<std::string> words;
  for (const auto& word : split(flags, ' '))
    if (!word.empty()) words.push_back(word);
  std::vector<std::vector<std::string>> commands;
  std::vector<std::string> objects;
  const std::string library = folder.path() + "/kernels.so";
  for (size_t i = 0; i < units.size(); ++i) {
    std::string source = str(folder.path(), "/unit", i, ".cpp"),
                object = str(folder.path(), "/unit", i, ".o");
    if (Descriptor file = create_private(source); !file || write_fully(file.get(), units[i]) != 0)
      throw UserError(str("cannot write the source of kernels, ", source, ": ", std::strerror(errno),
                          "; set TMPDIR to a folder with space"));
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
    throw UserError(
        str("the compiler of kernels, \"", compiler, "\", failed with status ", done.status, ":",
            first_lines(done.output, 12), "\n  its flags were: ", flags,
            clang ? "; kernels are written for g++, which clang is not: set LOCKSTEP_CXX=g++, or leave it out"
                  : "; set LOCKSTEP_CXX to another g++, or LOCKSTEP_ISA=plain"));
  };
  for (const auto& done : run_programs(commands, at_once, 600, folder.path())) check(done);
  if (units.size() > 1) {
    std::vector<std::string> command{compiler, "-shared", "-fopenmp", "-o", library};
    command.insert(command.end(), objects.begin(), objects.end());
    check(run_programs({command}, 1, 600, folder.path())[0]);
  }
  std::string code = read_in(folder.folder(), "kernels.so");
  if (code.empty())
    throw UserError(str("the compiler of kernels, \"", compiler, "\", wrote no code to ", folder.path(),
                        "; is the disk full?"));
  return code;
}

}  // namespace lockstep::compiler::cpu
