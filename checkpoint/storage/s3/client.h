// Sends signed requests to an S3 object store over libcurl, with bounded retries.
#pragma once

#include <atomic>
#include <memory>

#include "checkpoint/storage/s3/request.h"

namespace lockstep::checkpoint::s3 {

class Client {
 public:
  explicit Client(Settings settings);
  ~Client();
  const Settings& settings() const { return settings_; }

  // The store's answer, of any status except transient failures: 5xx, 429, a broken or stalled connection.
  // Those are retried after 0.1, 0.2, ... at most 5 s, until the patience runs out; then StorageError with
  // the last cause. An endpoint that never answered is tried three times. StorageError without credentials.
  // Safe for several threads.
  Response send(const Request& request);
  // The same, but throws a StorageError (words.h) for an answer with an error status.
  Response must(const Request& request);

 private:
  struct Attempt;
  struct Handles;
  Attempt once(const Request& request);

  const Settings settings_;
  std::unique_ptr<Handles> handles_;
  std::atomic<bool> met_ = false;  // the endpoint has answered
};

}  // namespace lockstep::checkpoint::s3
