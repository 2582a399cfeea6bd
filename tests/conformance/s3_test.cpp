// S3Storage against a real store: the conformance suite, what a store refuses, in words, and faults on the
// way.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "checkpoint/storage/s3/s3_storage.h"
#include "tests/conformance/storage_conformance.h"
#include "tests/support/s3_server.h"

using namespace lockstep;
using namespace lockstep::checkpoint;
using s3::S3Storage;
using s3::Settings;

namespace {
#define NEEDS_A_SERVER() \
  if (const std::string why = S3Server::missing(); !why.empty()) GTEST_SKIP() << why

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const StorageError& error) { return error.what(); } catch (const UserError& error) {
    return str("UserError: ", error.what());
  }
  return "nothing was thrown";
}
#define EXPECT_SAYS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

TEST(S3, PassesTheConformanceSuite) {
  NEEDS_A_SERVER();
  const S3Server server;
  Settings settings = server.settings();
  settings.part_bytes = 5 << 20;  // large files travel in parts
  S3Storage storage(settings);
  for (const auto& one : conformance::storage_cases()) {
    SCOPED_TRACE(one.name);
    const auto start = std::chrono::steady_clock::now();
    try {
      one.run(storage, str("s3://bucket/case/", one.name));
    } catch (const std::exception& error) { ADD_FAILURE() << one.name << ": " << error.what(); }
    std::cout << one.name << ": "
              << std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() << " s\n";
  }
}

TEST(S3, SaysWhatAStoreRefuses) {
  NEEDS_A_SERVER();
  const S3Server server;
  const std::string there = server.endpoint();
  auto settings = [&](auto change) {
    Settings out = server.settings();
    change(out);
    return out;
  };
  auto open_with = [&](const Settings& with, const std::string& path = "s3://bucket/none") {
    return error_of([&] { S3Storage(with).open(path); });
  };
  EXPECT_EQ(open_with(server.settings()), "cannot open s3://bucket/none: there is no such object");
  EXPECT_EQ(open_with(server.settings(), "s3://no-such-bucket/x"),
            "cannot list s3://no-such-bucket: " + there +
                " has no bucket \"no-such-bucket\"; make it, or name another");
  const std::string wrong = "not-the-secret";
  const auto wrong_secret = open_with(settings([&](Settings& s) { s.secret_key = wrong; }));
  EXPECT_EQ(wrong_secret, "cannot list s3://bucket: " + there +
                              " does not accept the signature: AWS_SECRET_ACCESS_KEY is not the one of "
                              "AWS_ACCESS_KEY_ID");
  EXPECT_EQ(
      open_with(settings([](Settings& s) { s.access_key = "NOBODY"; })),
      "cannot list s3://bucket: " + there +
          " knows no such access key; set AWS_ACCESS_KEY_ID to one of its own, or AWS_ENDPOINT_URL to the "
          "store that knows this one");
  EXPECT_EQ(open_with(settings([](Settings& s) { s.access_key = ""; })),
            "cannot open s3://bucket/none: AWS_ACCESS_KEY_ID is not set; export the keys of who may read and "
            "write there (profiles of ~/.aws and roles of machines are not read)");
  EXPECT_SAYS(open_with(settings([](Settings& s) { s.access_key = s.secret_key = ""; })),
              "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set; export");
  S3Storage reader(server.reader());
  const auto forbidden = error_of([&] { write_text(reader, "s3://bucket/mine", "x"); });
  EXPECT_SAYS(forbidden, "cannot write s3://bucket/mine: " + there +
                             " does not let these credentials write there (403 AccessDenied");
  EXPECT_SAYS(forbidden, "grant them bucket bucket, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
  for (const auto& words : {wrong_secret, forbidden}) EXPECT_EQ(words.find("secret+of"), std::string::npos);
  S3Storage writer(server.settings());
  for (const char* path : {"s3://", "s3://B", "s3:///x", "s3://UPPER/x", "s3://b/x"})
    EXPECT_SAYS(error_of([&] { writer.open(path); }), "names no bucket: write s3://BUCKET/PREFIX") << path;
  EXPECT_SAYS(error_of([&] { writer.open("s3://bucket/a//b"); }), "a part of the path is \"\"");
  EXPECT_SAYS(error_of([&] { writer.open("s3://bucket/../x"); }), "a part of the path is \"..\"");
  EXPECT_EQ(error_of([&] { writer.open("s3://bucket"); }),
            "UserError: s3://bucket is a bucket; name an object in it");
  // Nobody there: three times asked, and no longer waited.
  const auto nobody = open_with(settings([](Settings& s) { s.endpoint = "http://127.0.0.1:1"; }));
  EXPECT_SAYS(nobody, "cannot open s3://bucket/none: ");
  EXPECT_SAYS(nobody, "asked http://127.0.0.1:1 3 times in 0.");
  EXPECT_SAYS(nobody, "(AWS_ENDPOINT_URL says where it is, LOCKSTEP_S3_PATIENCE how long it is asked: 20 s)");
  const FaultyProxy proxy(server.endpoint());
  auto through = settings([&](Settings& s) { s.endpoint = proxy.endpoint(), s.patience_s = 2; });
  proxy.breaks("PUT", "region eu-west-1", 1);
  S3Storage elsewhere(through);
  EXPECT_EQ(
      error_of([&] { write_text(elsewhere, "s3://bucket/x", "x"); }),
      "cannot write s3://bucket/x: bucket bucket is in region eu-west-1, and AWS_REGION is us-east-1; set "
      "AWS_REGION=eu-west-1");
  proxy.breaks("PUT", "status 501 NotImplemented", 1);
  EXPECT_SAYS(
      error_of([&] { elsewhere.lock("s3://bucket/locked"); }),
      "cannot lock s3://bucket/locked/.lock: " + proxy.endpoint() +
          " does not do what is asked of it (501 NotImplemented: told to by a test); checkpoints want a "
          "store with conditional writes and uploads in parts");
  proxy.breaks("PUT", "status 403 ExpiredToken", 1);
  EXPECT_SAYS(
      error_of([&] { write_text(elsewhere, "s3://bucket/x", "x"); }),
      "the session token has expired or is not of these keys (ExpiredToken); set AWS_SESSION_TOKEN anew");
  proxy.breaks("PUT", "status 403 RequestTimeTooSkewed", 1);
  EXPECT_SAYS(error_of([&] { write_text(elsewhere, "s3://bucket/x", "x"); }),
              "this machine's clock and that of " + proxy.endpoint() + " are too far apart");
  proxy.breaks("PUT", "status 409 OperationAborted", 1);
  EXPECT_SAYS(error_of([&] { write_text(elsewhere, "s3://bucket/x", "x"); }),
              proxy.endpoint() + " answers 409 OperationAborted: told to by a test");
  proxy.breaks("PUT", "status 503 SlowDown", 1000);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_SAYS(error_of([&] { write_text(elsewhere, "s3://bucket/x", "x"); }),
              "cannot write s3://bucket/x: it answers 503 SlowDown; asked " + proxy.endpoint() + " ");
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 10);
}

// What passes is tried again, and what was written and read is right.
TEST(S3, OutlivesFaultsOnTheWay) {
  NEEDS_A_SERVER();
  const S3Server server;
  const FaultyProxy proxy(server.endpoint());
  Settings settings = server.settings();
  settings.endpoint = proxy.endpoint(), settings.part_bytes = 5 << 20;
  S3Storage storage(settings);
  std::string text(12 << 20, 'x');
  for (size_t i = 0; i < text.size(); i += 97) text[i] = static_cast<char>(i);
  int before = 0;
  auto round = [&](const std::string& match, const std::string& does) {
    proxy.breaks(match, does, 2);
    const std::string path = "s3://bucket/faults/f";
    for (const std::string& words : {text, std::string("small")}) {
      write_text(storage, path, words);
      EXPECT_EQ(read_text(storage, path, 1 << 28), words) << match << " " << does;
    }
    EXPECT_EQ(storage.list("s3://bucket/faults").size(), 1u);
    EXPECT_EQ(proxy.broken() - before, 2) << match << " " << does;
    before = proxy.broken();
  };
  for (const char* does : {"status 500 InternalError", "status 503 SlowDown", "status 429 TooMany", "drop"})
    for (const char* match : {"PUT", "GET", "POST .*uploads=", "POST .*uploadId=", "HEAD"})
      round(match, does);
  for (const char* match : {"PUT", "POST .*uploadId="}) round(match, "after");  // done, and nobody heard
  for (const char* match : {"GET .*/f", "GET .*list-type"}) round(match, "cut");
}

// A lock is one process's; that of one who died here is taken over at once, and that of one who stood still
// after its lease, of which it hears before it commits.
TEST(S3, OneHoldsTheLock) {
  NEEDS_A_SERVER();
  const S3Server server;
  const std::string dir = "s3://bucket/locked/ckpt";
  Settings settings = server.settings();
  settings.lease_s = 2;
  auto in_child = [&](auto work) {
    const pid_t child = ::fork();
    if (child == 0) {
      S3Storage mine(settings);
      work(mine);
      ::_exit(0);
    }
    return child;
  };
  S3Storage storage(settings), other(settings);
  auto held = storage.lock(dir);
  const auto refused = error_of([&] { other.lock(dir); });
  EXPECT_SAYS(refused, str("checkpoint folder ", dir, " is in use by process ", ::getpid(), " on "));
  EXPECT_SAYS(refused, "; two jobs never write one folder: wait for it, stop it, or choose another --name");
  std::this_thread::sleep_for(std::chrono::seconds(5));  // renewed meanwhile
  held->check();
  held = nullptr;
  other.lock(dir)->check();
  EXPECT_FALSE(storage.exists(dir + "/.lock"));
  // Killed while it held the lock.
  pid_t child = in_child([&](S3Storage& mine) {
    auto lock = mine.lock(dir);
    ::raise(SIGKILL);
  });
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  auto start = std::chrono::steady_clock::now();
  testing::internal::CaptureStderr();
  held = storage.lock(dir);
  EXPECT_SAYS(testing::internal::GetCapturedStderr(), str("the lock of process ", child, " on "));
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 1.5);
  held = nullptr;
  // Stopped for longer than its lease: another one takes it.
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  child = in_child([&](S3Storage& mine) {
    auto lock = mine.lock(dir);
    (void)!::write(told[1], "x", 1);
    ::raise(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::seconds(2));
    std::string words = "nothing";
    try {
      lock->check();
    } catch (const StorageError& error) { words = error.what(); }
    (void)!::write(told[1], words.data(), words.size());
  });
  char byte;
  ASSERT_EQ(::read(told[0], &byte, 1), 1);
  ::waitpid(child, &status, WUNTRACED);
  held = storage.lock(dir);
  ::kill(child, SIGCONT);
  ::waitpid(child, &status, 0);
  ::close(told[1]);
  std::string words(4096, '\0');
  words.resize(static_cast<size_t>(std::max<ssize_t>(0, ::read(told[0], words.data(), words.size()))));
  EXPECT_SAYS(words, "the lock " + dir +
                         "/.lock is no longer this run's: another process took it; nothing more "
                         "is written there. Stop one of the two, or choose another --name");
  held->check();
}
}  // namespace
