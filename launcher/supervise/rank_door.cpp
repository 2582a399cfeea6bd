// accept(2) of this process: libpmix, which listens, asks nobody who comes, and reads a newcomer's first
// words on the one thread that serves all ranks.
#include "launcher/supervise/rank_door.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "core/base/descriptor.h"

namespace lockstep::launcher {

namespace {
constexpr int kMostListeners = 4, kHandshake = 2;  // seconds

std::array<std::atomic<int>, kMostListeners> g_guarded{-1, -1, -1, -1};
std::atomic<bool> g_asks{false};  // the kernel says whose a connection is
// Kept for the moment in which no descriptor is left: a listener that cannot accept would end for good.
std::atomic<int> g_spare{-1};

bool is_guarded(int fd) {
  for (const auto& one : g_guarded)
    if (one.load() == fd) return true;
  return false;
}

// "0100007F:9F99", as /proc/net/tcp has it.
std::string end_text(const sockaddr_in& end) {
  char text[16];
  std::snprintf(text, sizeof text, "%08X:%04X", end.sin_addr.s_addr, ntohs(end.sin_port));
  return text;
}

// Whose the other end of a connection is; nothing where it has gone, or the kernel does not say.
std::optional<uid_t> owner_of_peer(int fd) {
  sockaddr_in here{}, there{};
  socklen_t bytes = sizeof here;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &bytes) != 0 || here.sin_family != AF_INET)
    return {};
  bytes = sizeof there;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &bytes) != 0 || there.sin_family != AF_INET)
    return {};
  const std::string wanted = end_text(there) + " " + end_text(here) + " ";
  std::ifstream table("/proc/net/tcp");
  for (std::string line; std::getline(table, line);) {
    const size_t at = line.find(wanted);
    unsigned uid = 0;
    // "... 0100007F:9F99 0100007F:A1B2 01 00000000:00000000 00:00000000 00000000  1000 ..."
    if (at != std::string::npos &&
        std::sscanf(line.c_str() + at + wanted.size(), "%*x %*x:%*x %*x:%*x %*x %u", &uid) == 1)
      return uid;
  }
  return {};
}

// A connection of this process with itself, whose owner is known.
bool kernel_says() {
  const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      caller(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof at;
  auto* address = reinterpret_cast<sockaddr*>(&at);
  if (!listener || !caller || ::bind(listener.get(), address, bytes) != 0 ||
      ::listen(listener.get(), 1) != 0 || ::getsockname(listener.get(), address, &bytes) != 0 ||
      ::connect(caller.get(), address, bytes) != 0)
    return false;
  const Descriptor accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  return accepted && owner_of_peer(accepted.get()) == ::geteuid();
}

void keep_spare() {
  if (g_spare.load() >= 0) return;
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  int none = -1;
  if (fd >= 0 && !g_spare.compare_exchange_strong(none, fd)) ::close(fd);
}

// Returns where one is let in, and waits till then: a listener that hears of a failure ends for good.
int accept_guarded(int socket, sockaddr* address, socklen_t* bytes) {
  const socklen_t room = bytes ? *bytes : 0;
  for (;;) {
    if (bytes) *bytes = room;
    int fd = ::accept4(socket, address, bytes, SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
      if (const int spare = g_spare.exchange(-1); spare >= 0) ::close(spare);
      fd = ::accept4(socket, address, bytes, SOCK_CLOEXEC);
      if (fd < 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (fd >= 0 && (!g_asks || owner_of_peer(fd) == ::geteuid())) {
      const timeval limit{kHandshake, 0};
      ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
      keep_spare();
      return fd;
    }
    const int reason = errno;
    if (fd >= 0) {
      ::close(fd);
      keep_spare();
    } else if (reason == EAGAIN || reason == EWOULDBLOCK) {
      pollfd coming{socket, POLLIN, 0};
      ::poll(&coming, 1, -1);
    } else if (reason == EBADF || reason == EINVAL || reason == ENOTSOCK) {
      errno = reason;
      return -1;  // it listens no more
    }
  }
}
}  // namespace

void guard_listeners() {
  g_asks = kernel_says();
  keep_spare();
  size_t found = 0;
  for (int fd = 0; fd < 4096 && found < g_guarded.size(); ++fd) {
    int listens = 0;
    socklen_t bytes = sizeof listens;
    sockaddr_storage at{};
    socklen_t length = sizeof at;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && listens &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &length) == 0 && at.ss_family == AF_INET)
      g_guarded[found++] = fd;
  }
}

}  // namespace lockstep::launcher

// Goes before the C library's for this program and the libraries that it loads.
extern "C" __attribute__((visibility("default"))) int accept(int socket, sockaddr* __restrict address,
                                                             socklen_t* __restrict bytes) {
  using namespace lockstep::launcher;
  return is_guarded(socket) ? accept_guarded(socket, address, bytes) : ::accept4(socket, address, bytes, 0);
}
