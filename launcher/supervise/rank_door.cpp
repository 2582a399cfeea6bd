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
// /proc/net/tcp and tcp6, open from the start: in that moment they could not be opened.
std::atomic<int> g_table{-1}, g_table6{-1};
constexpr int kReadings = 2;  // of a table that does not have the row

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

// The user of the row that has `wanted`, "LOCAL REMOTE ", in a table of connections that is open.
std::optional<uid_t> owner_in(int table, const std::string& wanted) {
  std::string rest;
  std::array<char, 16384> piece;
  for (off_t at = 0;;) {
    const ssize_t bytes = ::pread(table, piece.data(), piece.size(), at);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return {};
    at += bytes;
    rest.append(piece.data(), static_cast<size_t>(bytes));
    const size_t whole = rest.rfind('\n') + 1;  // 0: no line ends here
    const size_t row = rest.find(wanted);
    unsigned uid = 0;
    // "... 0100007F:9F99 0100007F:A1B2 01 00000000:00000000 00:00000000 00000000  1000 ..."
    if (row < whole &&
        std::sscanf(rest.c_str() + row + wanted.size(), "%*x %*x:%*x %*x:%*x %*x %u", &uid) == 1)
      return uid;
    rest.erase(0, whole);
  }
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
  // A socket of IPv6 that connects to ::ffff:127.0.0.1 is in the other table.
  const std::string mapped = htonl(1) == 1 ? "00000000000000000000FFFF" : "0000000000000000FFFF0000";
  // A table comes in pieces, and a row may be passed over while others go.
  for (int tries = 0; tries < kReadings; ++tries) {
    if (const auto uid = owner_in(g_table.load(), end_text(there) + " " + end_text(here) + " ")) return uid;
    if (const auto uid =
            owner_in(g_table6.load(), mapped + end_text(there) + " " + mapped + end_text(here) + " "))
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

// Nobody is refused whose owner is not known: it may be a rank of this run.
bool is_strangers(int fd) {
  if (!g_asks) return false;
  const auto owner = owner_of_peer(fd);
  return owner && *owner != ::geteuid();
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
    if (fd >= 0 && !is_strangers(fd)) {
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
  if (g_table.load() < 0) g_table = ::open("/proc/net/tcp", O_RDONLY | O_CLOEXEC);
  if (g_table6.load() < 0) g_table6 = ::open("/proc/net/tcp6", O_RDONLY | O_CLOEXEC);
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
