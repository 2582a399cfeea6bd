// A link between two interfaces that delays, loses and damages frames, as `tc netem` does, for kernels
// without it.
//   bad_link off IF                         IF makes no checksums or segments in hardware any more: frames
//   are whole bad_link A B [delay=MS] [loss=PERCENT] [corrupt=PERCENT] [only=there|back] [after=S]
// What A gets is sent by B (there), and the reverse (back), each `delay` later. `after` seconds from the
// start faults begin; before, frames pass as they are. Which frames: a fixed sequence. It ends when it is
// ended.
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const std::string& what) {
  std::perror(what.c_str());
  std::exit(1);
}

void set_off(const char* interface, uint32_t command) {
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  ethtool_value value{command, 0};
  ifreq request{};
  std::strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&value);
  if (ioctl(fd, SIOCETHTOOL, &request) != 0) fail(std::string("ethtool ") + interface);
  close(fd);
}
void all_off(const char* interface) {
  for (uint32_t command : {ETHTOOL_SGSO, ETHTOOL_STSO, ETHTOOL_SGRO, ETHTOOL_STXCSUM})
    set_off(interface, command);
}

int open_interface(const char* interface) {
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL));
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(ETH_P_ALL);
  at.sll_ifindex = static_cast<int>(if_nametoindex(interface));
  if (fd < 0 || at.sll_ifindex == 0 || bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0)
    fail(interface);
  packet_mreq all{};
  all.mr_ifindex = at.sll_ifindex;
  all.mr_type = PACKET_MR_PROMISC;
  const int bytes = 4 << 20;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
  if (setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) != 0) fail(interface);
  return fd;
}

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Faults {
  double delay = 0, loss = 0, corrupt = 0;
};
struct Frame {
  double due = 0;
  std::vector<char> bytes;
};

class Way {
 public:
  Way(int from, int to, Faults faults, double from_ms)
      : from_(from), to_(to), faults_(faults), from_ms_(from_ms) {}
  void take() {
    char bytes[70'000];
    for (;;) {
      sockaddr_ll sender{};
      socklen_t size = sizeof sender;
      const ssize_t n = recvfrom(from_, bytes, sizeof bytes, 0, reinterpret_cast<sockaddr*>(&sender), &size);
      if (n <= 0) return;
      if (sender.sll_pkttype == PACKET_OUTGOING) continue;  // what this program has sent
      const double now = now_ms();
      const bool faulty = now >= from_ms_;
      if (faulty && chance(faults_.loss)) continue;
      // Behind the headers of Ethernet and IP, so that what finds it is the checksum of TCP.
      if (faulty && n > 40 && chance(faults_.corrupt)) bytes[34 + random_() % (n - 34)] ^= 1 << random_() % 8;
      waiting_.push_back({now + (faulty ? faults_.delay : 0), {bytes, bytes + n}});
    }
  }
  void give() {
    for (; !waiting_.empty() && waiting_.front().due <= now_ms(); waiting_.pop_front())
      if (send(to_, waiting_.front().bytes.data(), waiting_.front().bytes.size(), 0) < 0 && errno == ENOBUFS)
        return;
  }
  double due() const { return waiting_.empty() ? 1e300 : waiting_.front().due; }
  int from() const { return from_; }

 private:
  bool chance(double percent) { return percent > 0 && random_() % 1'000'000 < percent * 10'000; }
  int from_, to_;
  Faults faults_;
  double from_ms_;
  std::mt19937 random_{1};
  std::deque<Frame> waiting_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "off") {
    all_off(argv[2]);
    return 0;
  }
  if (argc < 3) return 2;
  Faults faults;
  double after = 0;
  std::string only;
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals),
                      value = equals == word.npos ? "" : word.substr(equals + 1);
    if (key == "delay")
      faults.delay = std::stod(value);
    else if (key == "loss")
      faults.loss = std::stod(value);
    else if (key == "corrupt")
      faults.corrupt = std::stod(value);
    else if (key == "only")
      only = value;
    else if (key == "after")
      after = std::stod(value);
    else
      return 2;
  }
  const int a = open_interface(argv[1]), b = open_interface(argv[2]);
  const double from_ms = now_ms() + after * 1e3;
  Way there(a, b, only == "back" ? Faults{} : faults, from_ms),
      back(b, a, only == "there" ? Faults{} : faults, from_ms);
  for (;;) {
    const double wait = std::min(there.due(), back.due()) - now_ms();
    pollfd fds[] = {{there.from(), POLLIN, 0}, {back.from(), POLLIN, 0}};
    const timespec most{static_cast<time_t>(std::clamp(wait, 0.0, 1000.0) / 1000),
                        static_cast<long>(std::fmod(std::clamp(wait, 0.0, 1000.0), 1000) * 1e6)};
    ppoll(fds, 2, &most, nullptr);
    for (Way* way : {&there, &back}) way->take(), way->give();
  }
}
