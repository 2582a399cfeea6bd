// RankDoor: replaces accept(2) in this process. libpmix, which listens, accepts anyone and reads a new peer's
// first bytes on the one thread that serves all ranks.
#include "launcher/supervise/run/rank_door.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "core/files/descriptor.h"
#include "core/reading/whole_number.h"

namespace lockstep::launcher {

namespace {
constexpr int kMostListeners = 4, kHandshake = 2;  // seconds

std::array<std::atomic<int>, kMostListeners> g_guarded{-1, -1, -1, -1};
std::atomic<bool> g_asks{false};  // whether the kernel reports the owner of a connection
// A spare descriptor for when none is left: a listener that cannot accept would stop for good.
std::atomic<int> g_spare{-1};

bool is_guarded(int fd) {
  for (const auto& one : g_guarded)
    if (one.load() == fd) return true;
  return false;
}

// Asks the kernel for the one socket with the ends `from` and `to` (sock_diag(7)). With tens of thousands of
// sockets, reading the table of all would take longer than a rank waits.
class SocketOwners {
 public:
  void open() {
    std::lock_guard lock(mutex_);
    if (!asks_) asks_ = Descriptor(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  }
  // nullopt when the socket is gone, has no process any more, or the kernel does not answer.
  std::optional<uid_t> owner(const sockaddr_in& from, const sockaddr_in& to) {
    std::lock_guard lock(mutex_);
    struct {
      nlmsghdr head;
      inet_diag_req_v2 ask;
    } question{};
    question.head.nlmsg_len = sizeof question;
    question.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    question.head.nlmsg_flags = NLM_F_REQUEST;
    question.head.nlmsg_seq = ++number_;
    question.ask.sdiag_family = AF_INET;  // also finds IPv6 sockets connected to ::ffff:127.0.0.1
    question.ask.sdiag_protocol = IPPROTO_TCP;
    question.ask.idiag_states = ~0u;
    question.ask.id.idiag_sport = from.sin_port, question.ask.id.idiag_dport = to.sin_port;
    question.ask.id.idiag_src[0] = from.sin_addr.s_addr, question.ask.id.idiag_dst[0] = to.sin_addr.s_addr;
    question.ask.id.idiag_cookie[0] = question.ask.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    if (!asks_ || ::send(asks_.get(), &question, sizeof question, 0) != sizeof question) return {};
    struct {  // anything after it is cut off
      nlmsghdr head;
      inet_diag_msg said;
    } answer{};
    // the answer is ready when send() returns; an answer to an earlier request remains only after a fault
    do {
      const ssize_t bytes = ::recv(asks_.get(), &answer, sizeof answer, MSG_DONTWAIT);
      if (bytes < static_cast<ssize_t>(sizeof answer)) return {};
    } while (answer.head.nlmsg_seq != number_);
    const bool is_it = answer.head.nlmsg_type == SOCK_DIAG_BY_FAMILY && answer.said.idiag_inode != 0 &&
                       answer.said.id.idiag_dport == to.sin_port;
    return is_it ? std::optional<uid_t>(answer.said.idiag_uid) : std::nullopt;
  }

 private:
  std::mutex mutex_;
  Descriptor asks_;
  uint32_t number_ = 0;
};
SocketOwners& socket_owners() {
  static SocketOwners out;
  return out;
}

std::optional<uid_t> owner_of_peer(int fd) {
  sockaddr_in here{}, there{};
  socklen_t bytes = sizeof here;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &bytes) != 0 || here.sin_family != AF_INET)
    return {};
  bytes = sizeof there;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &bytes) != 0 || there.sin_family != AF_INET)
    return {};
  return socket_owners().owner(there, here);
}

// A test connection of this process to itself, whose owner is known.
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

// A peer with an unknown owner is accepted: it may be a rank of this run.
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

// Waits and returns only when a peer is accepted: a listener that sees a failure stops for good.
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
      return -1;  // it no longer listens
    }
  }
}
}  // namespace

std::vector<int> listeners() {
  std::vector<int> out;
  std::error_code unknown;
  for (std::filesystem::directory_iterator at("/proc/self/fd", unknown), end; !unknown && at != end;
       at.increment(unknown)) {
    const int fd = static_cast<int>(whole_number(at->path().filename().string()).value_or(-1));
    int listens = 0;
    socklen_t bytes = sizeof listens;
    sockaddr_storage where{};
    socklen_t length = sizeof where;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && listens &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&where), &length) == 0 && where.ss_family == AF_INET)
      out.push_back(fd);
  }
  std::sort(out.begin(), out.end());
  return out;
}

void guard_listeners(const std::vector<int>& but) {
  socket_owners().open();
  g_asks = kernel_says();
  keep_spare();
  size_t guarded = 0;
  for (const int fd : listeners())
    if (guarded < g_guarded.size() && !std::binary_search(but.begin(), but.end(), fd)) {
      ::fcntl(fd, F_SETFD, FD_CLOEXEC);  // no rank inherits the port
      g_guarded[guarded++] = fd;
    }
}

}  // namespace lockstep::launcher

// Overrides the C library's function for this program and the libraries it loads.
extern "C" __attribute__((visibility("default"))) int accept(int socket, sockaddr* __restrict address,
                                                             socklen_t* __restrict bytes) {
  using namespace lockstep::launcher;
  return is_guarded(socket) ? accept_guarded(socket, address, bytes) : ::accept4(socket, address, bytes, 0);
}
