// A request to an S3 object store, and its answer.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/storage/s3/settings.h"

namespace lockstep::checkpoint::s3 {

struct Request {
  std::string what;    // "write", "read": for messages, followed by the path
  std::string method;  // GET, HEAD, PUT, POST, DELETE
  Address at;
  std::map<std::string, std::string> query = {};
  std::vector<std::string> headers = {};  // "name: value", names in lower case
  std::string_view body = {};             // of PUT and POST; outlives the request
  // receives the body of a successful answer; else Response::body does
  std::byte* into = nullptr;
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

}  // namespace lockstep::checkpoint::s3
