// S3 answers: parses headers and error texts.
#include "checkpoint/storage/s3/request.h"

#include "core/base/text.h"

namespace lockstep::checkpoint::s3 {

namespace {
// The text of an element of a small XML answer, as "Code".
std::string element(const std::string& xml, const std::string& name) {
  const size_t begin = xml.find("<" + name + ">");
  if (begin == std::string::npos) return "";
  const size_t from = begin + name.size() + 2, end = xml.find("</" + name + ">", from);
  return end == std::string::npos ? "" : xml.substr(from, end - from);
}
}  // namespace

std::string path_of(const Address& at) { return str(kScheme, at.bucket, at.key.empty() ? "" : "/", at.key); }

std::string Response::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}
std::string Response::code() const { return element(body, "Code"); }
std::string Response::message() const { return element(body, "Message"); }

}  // namespace lockstep::checkpoint::s3
