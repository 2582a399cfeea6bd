// Who comes in at a port that is guarded: connections by IPv4 and IPv6 of this user, not those of another;
// and listeners that were inherited are as they were.
#include "launcher/supervise/run/rank_door.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "core/files/descriptor.h"

namespace lockstep::launcher {
namespace {

// Where it listens, 127.0.0.1.
sockaddr_in place_of(const Descriptor& listener) {
  sockaddr_in at{};
  socklen_t bytes = sizeof at;
  EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &bytes), 0);
  return at;
}
Descriptor new_listener(int flags = 0) {
  Descriptor out(socket(AF_INET, SOCK_STREAM | flags, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(out.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  EXPECT_EQ(listen(out.get(), 64), 0);
  return out;
}
// `::ffff:127.0.0.1` where `six`.
Descriptor caller(const sockaddr_in& at, bool six) {
  Descriptor out(socket(six ? AF_INET6 : AF_INET, SOCK_STREAM, 0));
  sockaddr_in6 mapped{};
  mapped.sin6_family = AF_INET6;
  mapped.sin6_port = at.sin_port;
  EXPECT_EQ(inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr), 1);
  const auto* to = six ? reinterpret_cast<const sockaddr*>(&mapped) : reinterpret_cast<const sockaddr*>(&at);
  EXPECT_EQ(connect(out.get(), to, six ? sizeof mapped : sizeof at), 0);
  return out;
}

// Calls as another user and says so by its end: 0 where it was ended at once.
int stranger(const sockaddr_in& at, bool six) {
  const int pid = fork();
  if (pid != 0) return pid;
  if (setuid(65534) != 0) _exit(2);
  const Descriptor mine = caller(at, six);
  char byte;
  const timeval limit{5, 0};
  setsockopt(mine.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const ssize_t got = recv(mine.get(), &byte, 1, 0);
  _exit(got == 0 || (got < 0 && errno == ECONNRESET) ? 0 : 1);
}

TEST(RankDoor, IsOfThisUserAndOfNoInheritedListener) {
  std::vector<Descriptor> inherited;  // more than it guards
  for (int i = 0; i < 6; ++i) inherited.push_back(new_listener(SOCK_NONBLOCK));
  const std::vector<int> before = listeners();
  EXPECT_EQ(before.size(), inherited.size());
  const Descriptor own = new_listener();
  guard_listeners(before);
  // One that nobody calls is not waited at, as a guarded one is.
  for (const Descriptor& one : inherited) {
    EXPECT_EQ(accept(one.get(), nullptr, nullptr), -1);
    EXPECT_EQ(errno, EAGAIN);
    EXPECT_EQ(fcntl(one.get(), F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_NE(fcntl(own.get(), F_GETFD) & FD_CLOEXEC, 0) << "no rank inherits it";

  const sockaddr_in at = place_of(own);
  for (const bool six : {false, true}) {
    const int pid = geteuid() == 0 ? stranger(at, six) : 0;
    if (pid) usleep(200000);  // it is the first in the queue
    const Descriptor mine = caller(at, six);
    sockaddr_in from{};
    socklen_t bytes = sizeof from;
    const Descriptor accepted(accept(own.get(), reinterpret_cast<sockaddr*>(&from), &bytes));
    ASSERT_TRUE(accepted);
    ASSERT_EQ(send(mine.get(), "x", 1, 0), 1);
    char byte = 0;
    EXPECT_EQ(recv(accepted.get(), &byte, 1, 0), 1) << "it is the one of this user";
    EXPECT_EQ(byte, 'x');
    int status = 0;
    if (pid) {
      ASSERT_EQ(waitpid(pid, &status, 0), pid);
      EXPECT_EQ(status, 0) << "another user's is ended at once";
    }
  }
}

}  // namespace
}  // namespace lockstep::launcher
