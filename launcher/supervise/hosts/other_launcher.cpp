// Under another launcher: the first process of a host listens on an abstract socket, which ends with it; the
// others read from it until then.
#include "launcher/supervise/hosts/other_launcher.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/steady_seconds.h"
#include "core/files/descriptor.h"
#include "core/mesh/deadline.h"
#include "launcher/supervise/launch/command.h"

namespace lockstep::launcher {

namespace fs = std::filesystem;

namespace {
std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

int64_t number(const char* name, int64_t otherwise) {
  const std::string text = variable(name);
  if (text.empty()) return otherwise;
  const bool digits = text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits)
    throw UserError(str("environment: ", name, " is \"", shortened(text, 40), "\"; it must be a number"));
  return std::atoll(text.c_str());
}

bool loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.rfind("127.", 0) == 0;
}

// Unique to this user, host and launch; an abstract name, so that no file is left.
sockaddr_un name_of(const OtherLauncher& other, socklen_t& bytes) {
  const std::string name =
      str("lockstep-first.", geteuid(), ".", hash_hex(str(other.address, ":", other.port)));
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  std::memcpy(out.sun_path + 1, name.data(), name.size());
  bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return out;
}

bool of_this_user(int fd) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

// A script is given by its path, as trainrun expects it; a program by its executable file.
std::string program_of(const std::vector<std::string>& command) {
  std::error_code failed;
  if (!command.empty() && command[0].ends_with(".py")) return fs::absolute(command[0], failed);
  const fs::path self = fs::read_symlink("/proc/self/exe", failed);
  return self.filename().string().rfind("python", 0) == 0 ? "" : self.string();
}
}  // namespace

std::optional<OtherLauncher> other_launcher() {
  for (const char* known : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_STEP_NUM_TASKS"})
    if (std::getenv(known)) return {};
  if (!env("LOCKSTEP_LOG_DIR").empty() || variable("MASTER_ADDR").empty()) return {};
  OtherLauncher out;
  out.rank = number("RANK", -1), out.ranks = number("WORLD_SIZE", 1);
  if (out.rank < 0 || out.ranks < 2) return {};
  out.address = variable("MASTER_ADDR");
  out.port = number("MASTER_PORT", out.port);
  out.local_ranks = number("LOCAL_WORLD_SIZE", loopback(out.address) ? out.ranks : 1);
  if (out.rank >= out.ranks || out.local_ranks < 1 || out.ranks % out.local_ranks != 0)
    throw UserError(
        str("this process is rank ", out.rank, " of ", out.ranks, ", ", out.local_ranks,
            " of them on this host (RANK, WORLD_SIZE, LOCAL_WORLD_SIZE); ranks go from 0, and each "
            "host has as many"));
  out.local_rank = number("LOCAL_RANK", out.rank % out.local_ranks);
  if (out.local_rank != out.rank % out.local_ranks)
    throw UserError(str("this process is rank ", out.rank, " of ", out.ranks, " and rank ", out.local_rank,
                        " of ", out.local_ranks, " on its host (LOCAL_RANK, LOCAL_WORLD_SIZE), where rank ",
                        out.rank % out.local_ranks, " is meant: ranks of a host follow one another"));
  return out;
}

std::vector<std::string> flags_of(const OtherLauncher& other) {
  std::vector<std::string> out{"--nproc", str(other.local_ranks)};
  if (other.ranks > other.local_ranks)
    out.insert(out.end(), {"--nnodes", str(other.ranks / other.local_ranks), "--node-rank",
                           str(other.rank / other.local_ranks), "--master-addr", other.address,
                           "--master-port", str(other.port < 65535 ? other.port + 1 : other.port - 1)});
  return out;
}

void be_first(const OtherLauncher& other, bool execs) {
  static Descriptor held;  // for the life of the process
  held.reset(socket(AF_UNIX, SOCK_STREAM | (execs ? 0 : SOCK_CLOEXEC), 0));
  socklen_t bytes = 0;
  const sockaddr_un name = name_of(other, bytes);
  if (bind(held.get(), reinterpret_cast<const sockaddr*>(&name), bytes) != 0 || listen(held.get(), 4096) != 0)
    throw UserError(str("another process of this host is the first of the ranks that meet at ", other.address,
                        ":", other.port, " (", std::strerror(errno),
                        "): give each launch a MASTER_PORT of its own"));
  for (const char* each :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"})
    unsetenv(each);
}

void wait_for_first(const OtherLauncher& other) {
  const double seconds = read_deadlines(env("LOCKSTEP_DEADLINE")).start_s;
  for (int each : {SIGTERM, SIGINT, SIGHUP}) std::signal(each, SIG_IGN);
  socklen_t bytes = 0;
  const sockaddr_un name = name_of(other, bytes);
  for (const double until = steady_seconds() + seconds; steady_seconds() < until;) {
    const Descriptor there(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(there.get(), reinterpret_cast<const sockaddr*>(&name), bytes) == 0 &&
        of_this_user(there.get())) {
      char none;
      while (read(there.get(), &none, 1) < 0 && errno == EINTR) {}
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  throw UserError(
      str("this process is rank ", other.rank, " of ", other.ranks,
          " by RANK and WORLD_SIZE, and waits for the first of its host (LOCAL_RANK 0), which starts all "
          "of them: it did not come within ",
          number_text(seconds), " s, or has ended"));
}

// In PATH, or next to the Python interpreter, where pip installs both.
std::string own_trainrun() {
  std::string found = found_in_path("trainrun");
  if (!found.empty() || env("LOCKSTEP_PYTHON").empty()) return found;
  found = fs::path(env("LOCKSTEP_PYTHON")).parent_path() / "trainrun";
  return access(found.c_str(), X_OK) == 0 ? found : "";
}

void join_other_launcher(const std::vector<std::string>& command) {
  const std::string program = program_of(command), trainrun = own_trainrun();
  const auto other = program.empty() || trainrun.empty() ? std::nullopt : other_launcher();
  if (!other) return;
  if (!other->first()) {
    wait_for_first(*other);
    std::_Exit(kExitOk);
  }
  std::vector<std::string> words = flags_of(*other);
  words.insert(words.begin(), "trainrun");
  words.push_back(program);
  if (!command.empty()) words.insert(words.end(), command.begin() + 1, command.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  be_first(*other, true);
  execv(trainrun.c_str(), argv.data());
  throw UserError(str("cannot start ", trainrun, ": ", std::strerror(errno)));
}

}  // namespace lockstep::launcher
