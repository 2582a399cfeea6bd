// Settings: variables, URLs, addresses.
#include "checkpoint/storage/s3/settings.h"

#include <cstdlib>
#include <vector>

#include "core/base/env.h"
#include "core/base/error.h"

namespace lockstep::checkpoint::s3 {

namespace {
std::string first_of(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const char* value = std::getenv(name); value && *value) return value;
  return "";
}
}  // namespace

double patience_of_environment() {
  const std::string text = env("LOCKSTEP_S3_PATIENCE");
  char* end = nullptr;
  const double out = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !(out >= 0 && out <= 86400))
    throw UserError(str("LOCKSTEP_S3_PATIENCE is \"", shortened(printable(text), 40),
                        "\"; it must be seconds, from 0 to 86400"));
  return out;
}

Settings settings_of_environment() {
  Settings out;
  out.endpoint = first_of({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  while (out.endpoint.ends_with('/')) out.endpoint.pop_back();
  if (!out.endpoint.empty() && !out.endpoint.starts_with("http://") && !out.endpoint.starts_with("https://"))
    throw UserError(str("AWS_ENDPOINT_URL is \"", shortened(printable(out.endpoint), 80),
                        "\"; write it with its protocol, as in https://s3.example.org"));
  out.region = first_of({"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (out.region.empty()) out.region = "us-east-1";
  for (char c : out.region)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-')
      throw UserError(str("AWS_REGION is \"", shortened(printable(out.region), 40),
                          "\"; a region has letters, digits and -, as in eu-central-1"));
  out.access_key = first_of({"AWS_ACCESS_KEY_ID"});
  out.secret_key = first_of({"AWS_SECRET_ACCESS_KEY"});
  out.session_token = first_of({"AWS_SESSION_TOKEN"});
  out.ca_bundle = first_of({"AWS_CA_BUNDLE"});
  out.patience_s = patience_of_environment();
  return out;
}

bool Settings::in_path(const std::string& bucket) const {
  return !endpoint.empty() || bucket.find('.') != std::string::npos;
}
std::string Settings::url(const std::string& bucket) const {
  if (!endpoint.empty()) return endpoint + "/" + bucket;
  const std::string host = str("s3.", region, ".amazonaws.com");
  return in_path(bucket) ? str("https://", host, "/", bucket) : str("https://", bucket, ".", host);
}
std::string Settings::endpoint_words() const {
  if (endpoint.empty()) return str("https://s3.", region, ".amazonaws.com");
  const size_t host = endpoint.find("://") + 3, at = endpoint.find('@', host);
  return at == std::string::npos ? endpoint : endpoint.substr(0, host) + endpoint.substr(at + 1);
}

Address address_of(const std::string& path) {
  const std::string scheme = kScheme;
  const std::string rest = path.starts_with(scheme) ? path.substr(scheme.size()) : "";
  const size_t slash = rest.find('/');
  Address out{rest.substr(0, slash), slash == std::string::npos ? "" : rest.substr(slash + 1)};
  while (out.key.ends_with('/')) out.key.pop_back();
  bool sound = out.bucket.size() >= 3 && out.bucket.size() <= 63;
  for (char c : out.bucket)
    sound = sound && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.');
  if (!sound)
    throw UserError(str("\"", shortened(printable(path), 120),
                        "\" names no bucket: write s3://BUCKET/PREFIX, ",
                        "with a bucket of 3 to 63 lower-case letters, digits, - and ."));
  if (!out.key.empty())
    for (const auto& part : split(out.key, '/'))
      if (part.empty() || part == "." || part == "..")
        throw UserError(str("\"", shortened(printable(path), 120), "\": a part of the path is \"", part,
                            "\", which object stores do not take for a folder; leave it out"));
  return out;
}

std::string url_encoded(const std::string& text, bool keep_slashes) {
  static const char* digits = "0123456789ABCDEF";
  std::string out;
  for (unsigned char c : text)
    if (std::isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~' || (c == '/' && keep_slashes))
      out += static_cast<char>(c);
    else
      out += {'%', digits[c >> 4], digits[c & 15]};
  return out;
}

std::string query_text(const std::map<std::string, std::string>& query) {
  std::vector<std::string> words;
  for (const auto& [name, value] : query)
    words.push_back(url_encoded(name, false) + "=" + url_encoded(value, false));
  return join(words, "&");
}

}  // namespace lockstep::checkpoint::s3
