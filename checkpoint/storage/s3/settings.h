// Settings of an S3 object store: endpoint, credentials and timeouts, from the usual environment variables.
#pragma once

#include <map>
#include <string>

namespace lockstep::checkpoint::s3 {

inline constexpr const char* kScheme = "s3://";

struct Settings {
  std::string endpoint;  // "http://127.0.0.1:9000"; "": that of AWS in the region
  std::string region;
  std::string access_key, secret_key, session_token;
  std::string ca_bundle;  // file of certificates; "": the system's
  double patience_s = 60;
  double lease_s = 60;           // validity of a lock that is not renewed
  size_t part_bytes = 16 << 20;  // of an upload in parts; at least 5 MiB

  // Of the bucket: in the host's name at AWS, in the path elsewhere, as stores behind an endpoint of their
  // own understand it.
  bool in_path(const std::string& bucket) const;
  std::string url(const std::string& bucket) const;
  std::string endpoint_words() const;  // without user and password in the endpoint's URL
};

// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION or AWS_DEFAULT_REGION (us-east-1), AWS_ACCESS_KEY_ID,
// AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_CA_BUNDLE; LOCKSTEP_S3_PATIENCE. Profiles and instance roles
// are not read.
Settings settings_of_environment();
// LOCKSTEP_S3_PATIENCE in seconds. UserError when it is not a valid number.
double patience_of_environment();

struct Address {
  std::string bucket, key;
};
// Of "s3://BUCKET/KEY"; the key may be empty. UserError for anything else, and for a key with "..", "." or an
// empty part between slashes, which stores treat differently.
Address address_of(const std::string& path);

// URL-encodes: every byte except letters, digits and -._~ becomes %XX; '/' is kept on request.
std::string url_encoded(const std::string& text, bool keep_slashes);
// Query names in sorted order, each with its "=", as the signature requires.
std::string query_text(const std::map<std::string, std::string>& query);

}  // namespace lockstep::checkpoint::s3
