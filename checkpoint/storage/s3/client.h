// Requests to an S3 object store, signed, repeated where that may help, for a bounded time. Over libcurl.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/storage/s3/settings.h"

namespace lockstep::checkpoint::s3 {

struct Request {
  std::string what;    // "write", "read": for messages, with the path behind it
  std::string method;  // GET, HEAD, PUT, POST, DELETE
  Address at;
  std::map<std::string, std::string> query = {};
  std::vector<std::string> headers = {};  // "name: value", names in lower case
  std::string_view body = {};             // of PUT and POST; outlives the request
  std::byte* into = nullptr;              // where the body of a good answer goes; else Response::body
  size_t into_bytes = 0;
};
struct Response {
  long status = 0;
  std::string body;                                 // of an answer without `into`, or of an error
  size_t bytes = 0;                                 // of the body
  std::map<std::string, std::string> headers = {};  // names in lower case
  bool good() const { return status >= 200 && status < 300; }
  std::string header(const std::string& name) const;
  // Of an error: "NoSuchBucket", and what the store says of it.
  std::string code() const, message() const;
};

std::string path_of(const Address& at);  // "s3://bucket/key"

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
