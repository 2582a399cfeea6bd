// Endpoints whose answers are none of an S3 store's: each is refused in words, and in a bounded time.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "checkpoint/storage/s3/s3_storage.h"
#include "core/base/error.h"
#include "core/files/descriptor.h"
#include "tests/support/slowness.h"

namespace lockstep::checkpoint::s3 {
namespace {

// Answers each request on loopback with what `answer` gives for its first line, a connection a request.
class Endpoint {
 public:
  using Answer = std::function<std::string(const std::string& line, int request)>;
  explicit Endpoint(Answer answer, bool drips = false) : answer_(std::move(answer)), drips_(drips) {
    listening_ = Descriptor(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET, at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    auto* plain = reinterpret_cast<sockaddr*>(&at);
    if (::bind(listening_.get(), plain, size) != 0 || ::listen(listening_.get(), 8) != 0 ||
        ::getsockname(listening_.get(), plain, &size) != 0)
      throw std::runtime_error("no port on loopback");
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Endpoint() {
    over_ = true;
    thread_.join();
  }
  Settings settings() const {
    Settings out;
    out.endpoint = str("http://127.0.0.1:", port_), out.region = "us-east-1";
    out.access_key = "key", out.secret_key = "secret", out.patience_s = 1;
    return out;
  }

 private:
  void serve() {
    for (int request = 0; !over_;) {
      pollfd waiting{listening_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 20) <= 0) continue;
      const Descriptor peer(::accept(listening_.get(), nullptr, nullptr));
      std::string asked(8192, '\0');
      const ssize_t got = ::recv(peer.get(), asked.data(), asked.size(), 0);
      asked.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
      const std::string out = answer_(asked.substr(0, asked.find("\r\n")), request++);
      const size_t piece = drips_ ? 1 : out.size();
      for (size_t at = 0; at < out.size() && !over_; at += piece) {
        if (::send(peer.get(), out.data() + at, piece, MSG_NOSIGNAL) < 0) break;
        if (drips_) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
    }
  }
  Answer answer_;
  const bool drips_;
  Descriptor listening_;
  int port_ = 0;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

std::string http(const std::string& body, const std::string& status = "200 OK") {
  return str("HTTP/1.1 ", status, "\r\nConnection: close\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
}
std::string page(const std::string& inside) {
  return http("<?xml version=\"1.0\"?><ListBucketResult>" + inside + "</ListBucketResult>");
}
std::string refusal(Endpoint& endpoint, const std::function<void(S3Storage&)>& act) {
  S3Storage storage(endpoint.settings());
  try {
    act(storage);
  } catch (const StorageError& error) { return error.what(); }
  return "no error";
}
std::string listed(Endpoint::Answer answer) {
  Endpoint endpoint(std::move(answer));
  return refusal(endpoint, [](S3Storage& storage) { storage.list("s3://bucket/run"); });
}
#define EXPECT_SAYS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

TEST(S3Answers, AListIsRead) {
  Endpoint endpoint([](auto&, int request) {
    const std::string key = str("<Contents><Key>run/", request, "&amp;.txt</Key></Contents>");
    return page(request == 0 ? key +
                                   "<IsTruncated>true</IsTruncated>"
                                   "<NextContinuationToken>a</NextContinuationToken>"
                             : key + "<CommonPrefixes><Prefix>run/step-1/</Prefix></CommonPrefixes>");
  });
  S3Storage storage(endpoint.settings());
  std::string names;
  for (const auto& entry : storage.list("s3://bucket/run")) names += entry.name + (entry.folder ? "/ " : " ");
  EXPECT_EQ(names, "0&.txt 1&.txt step-1/ ");
}

TEST(S3Answers, NestedAndForeignXml) {
  const std::string place = "cannot read what the store answers of s3://bucket/run/: ";
  std::string deep;
  for (int i = 0; i < 300000; ++i) deep += "<a>";
  EXPECT_SAYS(listed([&](auto&, int) { return http(deep); }),
              place + "elements nested deeper than 16 at line 1; is AWS_ENDPOINT_URL an S3 store?");
  std::string wide = "<a>";
  for (int i = 0; i < 70000; ++i) wide += "<b/>";
  EXPECT_SAYS(listed([&](auto&, int) { return http(wide + "</a>"); }), place + "more than 65536 elements");
  EXPECT_SAYS(listed([](auto&, int) { return http("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>"); }),
              place + "a type of documents of its own");
  EXPECT_SAYS(listed([](auto&, int) { return http("<e:/>"); }), place + "an element without a name");
  for (const char* none : {"", "text", "<a>", "<a></b>", "<a>\xff</a>"})
    EXPECT_SAYS(listed([&](auto&, int) { return http(none); }), place);
  EXPECT_SAYS(listed([](auto&, int) { return http("<html/>"); }),
              "cannot list s3://bucket/run/: the answer is no list; is http://127.0.0.1:");
}

TEST(S3Answers, ListsWithoutAnEnd) {
  const std::string more = "<IsTruncated>true</IsTruncated><NextContinuationToken>",
                    key = "<Contents><Key>run/a</Key></Contents>", end = "</NextContinuationToken>";
  EXPECT_SAYS(
      listed([&](auto&, int) { return page(key + more + "t" + end); }),
      "cannot list s3://bucket/run: its pages go round: the same continuation token came again; is http://");
  EXPECT_SAYS(listed([&](auto&, int n) { return page(key + more + (n % 2 ? "t" : "u") + end); }), "go round");
  EXPECT_SAYS(listed([&](auto&, int n) { return page(more + str(n) + end); }),
              "cannot list s3://bucket/run: a page that is not the last one has no key; is http://");
}

TEST(S3Answers, Lengths) {
  for (const char* length : {"100000000000000000000", "-1", "many", "9223372036854775808"}) {
    Endpoint endpoint([&](auto&, int) {
      return str("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: ", length, "\r\nETag: e\r\n\r\n");
    });
    const std::string told = refusal(endpoint, [](S3Storage& storage) { storage.open("s3://bucket/a"); });
    EXPECT_SAYS(told, "cannot open s3://bucket/a: ");
  }
  Endpoint endpoint([&](auto&, int) {
    return std::string(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 100000000000000000000\r\n\r\n");
  });
  EXPECT_SAYS(
      refusal(endpoint, [](S3Storage& storage) { storage.open("s3://bucket/a"); }),
      "its length is \"100000000000000000000\", and bytes are counted from 0 to 2^63 - 1; is http://");
}

// Ten bytes a second, where a patience of one second is given.
TEST(S3Answers, DrippingAnswersAreGivenUp) {
  Endpoint endpoint([](auto&, int) { return page("<Contents><Key>run/a</Key></Contents>"); }, true);
  const auto began = std::chrono::steady_clock::now();
  const std::string told = refusal(endpoint, [](S3Storage& storage) { storage.list("s3://bucket/run"); });
  EXPECT_SAYS(told, "cannot list s3://bucket: ");
  EXPECT_SAYS(told, "too slow");
  EXPECT_LT(std::chrono::steady_clock::now() - began, kSlowness * std::chrono::seconds(20));
}

TEST(S3Answers, WordsStayInTheirLine) {
  const std::string told = listed([](auto&, int) {
    return http("<Error><Code>No\nSuch</Code><Message>a\nroot cause: \x1b[2Jforged</Message></Error>",
                "400 Bad Request");
  });
  EXPECT_EQ(told.find('\n'), std::string::npos) << told;
  EXPECT_SAYS(told, "answers 400 No\\nSuch: a\\nroot cause: \\x1b[2Jforged");
}

}  // namespace
}  // namespace lockstep::checkpoint::s3
