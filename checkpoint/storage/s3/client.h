// Requests to an S3 object store, signed, repeated where that may help, for a bounded time. Over libcurl.
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

  // The store's answer, whatever it is, but one that may pass: 5xx, 429, a connection that broke or stood
  // still. Those are tried again, after 0.1, 0.2, ... at most 5 s, until the patience is used up; then
  // StorageError with the last cause. An endpoint that never answered is asked three times. StorageError
  // without credentials. Safe for several threads.
  Response send(const Request& request);
  // The same; StorageError in words (words.h) for an answer that is not good.
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
