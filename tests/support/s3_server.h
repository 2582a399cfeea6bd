// A real S3 store as a process: SeaweedFS (packages/s3, which scripts/install.sh --tests fetches), on
// loopback, with a bucket and two users.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/storage/s3/settings.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {

class S3Server {
 public:
  static constexpr const char* kBucket = "bucket";
  // "" where there is a server to start; else why a test is left out.
  static std::string missing();
  // Starts it, waits until it answers, makes the bucket. std::runtime_error with the end of its log.
  S3Server();
  ~S3Server();
  S3Server(const S3Server&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  // Of one who may write, and of one who may read.
  checkpoint::s3::Settings settings() const;
  checkpoint::s3::Settings reader() const;
  // Gives this process's environment, and that of what it starts, the words of settings().
  void export_settings() const;

 private:
  bool starts(int port);
  ScratchFolder folder_;
  int pid_ = 0;
  std::string endpoint_;
};

// A process between a client and the server that breaks what passes it. Requests whose "METHOD PATH" holds
// `match` (a regular expression) are answered by `does`, the first `times` of them.
class FaultyProxy {
 public:
  explicit FaultyProxy(const std::string& to);
  ~FaultyProxy();
  FaultyProxy(const FaultyProxy&) = delete;
  const std::string& endpoint() const { return endpoint_; }
  // `does`: "status 503 SlowDown", "drop" (the connection, unanswered), "cut" (after the answer's head),
  // "after" (the request is done, its answer dropped), "stall", "region eu-west-1".
  void breaks(const std::string& match, const std::string& does, int times) const;
  int broken() const;  // requests so far

 private:
  ScratchFolder folder_;
  int pid_ = 0;
  std::string endpoint_;
};

}  // namespace lockstep
