// Requests over libcurl, which signs them (AWS SigV4).
#include "checkpoint/storage/s3/client.h"

#include <curl/curl.h>
#include <sodium.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "checkpoint/storage/s3/words.h"
#include "core/base/log.h"
#include "core/base/steady_seconds.h"
#include "core/reading/one_line.h"

namespace lockstep::checkpoint::s3 {

namespace {
constexpr size_t kMostBody = 64 << 20;  // limit for an answer kept as text
constexpr long kConnectS = 10, kStandstillS = 30, kLeastS = 10;
constexpr long kStandstillBytes = 1024;  // a second; a slower transfer counts as stalled
// The store joins the parts before it answers, which takes minutes for many large parts. It sends a space now
// and then, the only sign that it is working.
constexpr long kCompletingBytes = 1;     // a second
constexpr long kCompletesS = 600;        // S3 documents "several minutes"; the request fails after this
constexpr size_t kLeastRate = 16 << 10;  // bytes a second, averaged over the whole transfer

// CompleteMultipartUpload.
bool completes(const Request& request) { return request.method == "POST" && request.query.count("uploadId"); }

std::string sha256(std::string_view body) {
  unsigned char hash[crypto_hash_sha256_BYTES];
  crypto_hash_sha256(hash, reinterpret_cast<const unsigned char*>(body.data()), body.size());
  char hex[2 * sizeof hash + 1];
  sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
  return hex;
}

// A transfer in progress: what remains to send, and what has arrived.
struct Transfer {
  const Request& request;
  CURL* handle;
  Response response = {};
  size_t sent = 0;
  bool too_much = false;

  static size_t send(char* to, size_t size, size_t count, void* self) {
    auto& one = *static_cast<Transfer*>(self);
    const size_t n = std::min(size * count, one.request.body.size() - one.sent);
    std::memcpy(to, one.request.body.data() + one.sent, n);
    one.sent += n;
    return n;
  }
  static int seek(void* self, curl_off_t offset, int origin) {
    auto& one = *static_cast<Transfer*>(self);
    if (origin != SEEK_SET || offset < 0 || static_cast<size_t>(offset) > one.request.body.size())
      return CURL_SEEKFUNC_FAIL;
    one.sent = static_cast<size_t>(offset);
    return CURL_SEEKFUNC_OK;
  }
  static size_t take(char* from, size_t size, size_t count, void* self) {
    auto& one = *static_cast<Transfer*>(self);
    const size_t n = size * count;
    long status = 0;
    curl_easy_getinfo(one.handle, CURLINFO_RESPONSE_CODE, &status);
    if (one.request.into && status >= 200 && status < 300) {
      if (one.response.bytes + n > one.request.into_bytes) return one.too_much = true, 0;
      std::memcpy(one.request.into + one.response.bytes, from, n);
    } else {
      if (one.response.body.size() + n > kMostBody) return one.too_much = true, 0;
      one.response.body.append(from, n);
    }
    one.response.bytes += n;
    return n;
  }
  static size_t head(char* from, size_t size, size_t count, void* self) {
    auto& one = *static_cast<Transfer*>(self);
    const std::string_view line(from, size * count);
    // drop those of an earlier answer (redirect, 100)
    if (line.starts_with("HTTP/")) one.response.headers.clear();
    if (const size_t colon = line.find(':'); colon != std::string_view::npos) {
      std::string name(line.substr(0, colon));
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      one.response.headers[name] = trim(line.substr(colon + 1));
    }
    return size * count;
  }
};

void set_option(CURL* curl, CURLoption option, auto value) {
  LS_CHECK(curl_easy_setopt(curl, option, value) == CURLE_OK, "libcurl does not know an option");
}

void set_method(Transfer& transfer) {
  const Request& request = transfer.request;
  auto set = [&](CURLoption option, auto value) { set_option(transfer.handle, option, value); };
  if (request.method == "HEAD") set(CURLOPT_NOBODY, 1L);
  if (request.method == "DELETE") set(CURLOPT_CUSTOMREQUEST, "DELETE");
  if (request.method == "PUT") {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_READFUNCTION, &Transfer::send);
    set(CURLOPT_READDATA, &transfer);
    set(CURLOPT_SEEKFUNCTION, &Transfer::seek);
    set(CURLOPT_SEEKDATA, &transfer);
  }
  if (request.method == "POST") {
    set(CURLOPT_POST, 1L);
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.data());
  }
}

using HeaderLines = std::unique_ptr<curl_slist, void (*)(curl_slist*)>;
HeaderLines header_lines(const Request& request, const Settings& settings) {
  // TLS already protects the bytes; without TLS the signature covers them.
  const bool covered = !settings.url(request.at.bucket).starts_with("https://");
  std::vector<std::string> lines = request.headers;
  lines.push_back("x-amz-content-sha256: " + (covered ? sha256(request.body) : "UNSIGNED-PAYLOAD"));
  if (!settings.session_token.empty()) lines.push_back("x-amz-security-token: " + settings.session_token);
  HeaderLines headers(nullptr, &curl_slist_free_all);
  for (const auto& line : lines) {
    curl_slist* longer = curl_slist_append(headers.get(), line.c_str());
    LS_CHECK(longer, "memory is out");
    if (!headers) headers.reset(longer);
  }
  return headers;
}
}  // namespace

// Idle handles for later requests, with their connections.
struct Client::Handles {
  std::mutex guard;
  std::vector<CURL*> idle;
  CURL* take() {
    std::lock_guard<std::mutex> hold(guard);
    if (idle.empty()) return curl_easy_init();
    CURL* out = idle.back();
    idle.pop_back();
    curl_easy_reset(out);
    return out;
  }
  void give(CURL* handle) {
    std::lock_guard<std::mutex> hold(guard);
    idle.push_back(handle);
  }
  ~Handles() {
    for (CURL* handle : idle) curl_easy_cleanup(handle);
  }
};

struct Client::Attempt {
  Response response;
  std::string cause;       // "": an answer arrived
  bool unreached = false;  // no connection was made
};

Client::Client(Settings settings) : settings_(std::move(settings)), handles_(std::make_unique<Handles>()) {
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK && sodium_init() >= 0;
  LS_CHECK(ready, "libcurl or libsodium does not start");
}
Client::~Client() = default;

Client::Attempt Client::once(const Request& request) {
  std::unique_ptr<CURL, std::function<void(CURL*)>> owner(handles_->take(),
                                                          [this](CURL* one) { handles_->give(one); });
  CURL* curl = owner.get();
  LS_CHECK(curl, "libcurl gives no handle");
  Transfer transfer{request, curl};
  std::string url = str(settings_.url(request.at.bucket), "/", url_encoded(request.at.key, true));
  if (!request.query.empty()) url += str("?", query_text(request.query));
  auto set = [&](CURLoption option, auto value) { set_option(curl, option, value); };
  char error[CURL_ERROR_SIZE] = "";
  set(CURLOPT_ERRORBUFFER, error);
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, kConnectS);
  // A trickle of bytes counts as stalled, and an endless answer as none.
  const long patience = std::max(1L, static_cast<long>(settings_.patience_s));
  set(CURLOPT_LOW_SPEED_LIMIT, completes(request) ? kCompletingBytes : kStandstillBytes);
  set(CURLOPT_LOW_SPEED_TIME, std::min(kStandstillS, patience));
  set(CURLOPT_TIMEOUT, std::max(completes(request) ? kCompletesS : kLeastS, patience) +
                           static_cast<long>((request.body.size() + request.into_bytes) / kLeastRate));
  if (!settings_.ca_bundle.empty()) set(CURLOPT_CAINFO, settings_.ca_bundle.c_str());
  const std::string signer = str("aws:amz:", settings_.region, ":s3");
  set(CURLOPT_AWS_SIGV4, signer.c_str());
  set(CURLOPT_USERNAME, settings_.access_key.c_str());
  set(CURLOPT_PASSWORD, settings_.secret_key.c_str());
  const HeaderLines headers = header_lines(request, settings_);
  set(CURLOPT_HTTPHEADER, headers.get());
  set_method(transfer);
  set(CURLOPT_WRITEFUNCTION, &Transfer::take);
  set(CURLOPT_WRITEDATA, &transfer);
  set(CURLOPT_HEADERFUNCTION, &Transfer::head);
  set(CURLOPT_HEADERDATA, &transfer);
  const CURLcode done = curl_easy_perform(curl);
  Attempt out;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &transfer.response.status);
  if (done != CURLE_OK) {
    out.cause = transfer.too_much ? "the answer is longer than what was asked for"
                : *error          ? std::string(error)
                                  : std::string(curl_easy_strerror(done));
    out.unreached = done == CURLE_COULDNT_RESOLVE_HOST || done == CURLE_COULDNT_CONNECT ||
                    done == CURLE_SSL_CONNECT_ERROR || done == CURLE_PEER_FAILED_VERIFICATION;
  }
  out.response = std::move(transfer.response);
  return out;
}

Response Client::send(const Request& request) {
  if (settings_.access_key.empty() || settings_.secret_key.empty()) throw no_credentials(request, settings_);
  const double start = steady_seconds();
  double rest = 0.1;
  for (int tries = 1;; ++tries) {
    Attempt tried = once(request);
    const long status = tried.response.status;
    const bool passing = status >= 500 && status != 501;
    if (tried.cause.empty() && !passing && status != 429) {
      met_ = true;
      return std::move(tried.response);
    }
    if (tried.cause.empty()) {
      met_ = true;
      const std::string code = tried.response.code();
      tried.cause = str("it answers ", status, code.empty() ? "" : " ", shortened(one_line(code), 60));
    }
    const bool never = tried.unreached && !met_ && tries >= 3;
    if (never || steady_seconds() - start + rest > settings_.patience_s)
      throw unanswered(request, tried.cause, tries, steady_seconds() - start, settings_);
    logs::topic("checkpoint", str("cannot ", request.what, " ", path_of(request.at), " (", tried.cause,
                                  "); try ", tries + 1, " follows in ", number_text(rest), " s"));
    std::this_thread::sleep_for(std::chrono::duration<double>(rest));
    rest = std::min(2 * rest, 5.0);
  }
}

Response Client::must(const Request& request) {
  Response out = send(request);
  if (!out.good()) throw refusal(request, out, settings_);
  return out;
}

}  // namespace lockstep::checkpoint::s3
