// Error messages for refusals of an S3 store.
#include "checkpoint/storage/s3/words.h"

#include <cerrno>
#include <cstdio>

#include "core/reading/one_line.h"

namespace lockstep::checkpoint::s3 {

namespace {
std::string failed(const Request& request) { return str("cannot ", request.what, " ", path_of(request.at)); }

// The store's own text, shortened for a message, without control characters.
std::string said(const Response& response) {
  const std::string text = response.message();
  return text.empty() ? "" : str(": ", shortened(one_line(text), 200));
}

// The region that the store names in its refusal.
std::string region_of(const Response& response) {
  if (const std::string named = response.header("x-amz-bucket-region"); !named.empty()) return named;
  const size_t begin = response.body.find("<Region>"), end = response.body.find("</Region>");
  return begin == std::string::npos || end == std::string::npos
             ? ""
             : response.body.substr(begin + 8, end - begin - 8);
}

StorageError forbidden(const Request& request, const Response& response, const Settings& settings) {
  const std::string code = response.code(), there = settings.endpoint_words();
  std::string why;
  if (code == "SignatureDoesNotMatch")
    why = str(there,
              " does not accept the signature: AWS_SECRET_ACCESS_KEY is not the one of AWS_ACCESS_KEY_ID");
  else if (code == "InvalidAccessKeyId")
    why = str(there,
              " knows no such access key; set AWS_ACCESS_KEY_ID to one of its own, or AWS_ENDPOINT_URL "
              "to the store that knows this one");
  else if (code == "ExpiredToken" || code == "InvalidToken" || code == "TokenRefreshRequired")
    why =
        str("the session token has expired or is not of these keys (", code, "); set AWS_SESSION_TOKEN anew");
  else if (code == "RequestTimeTooSkewed")
    why = str("this machine's clock and that of ", there, " are too far apart (", code, "); set the clock");
  else
    why =
        str(there, " does not let these credentials ", request.what, " there (403",
            code.empty() ? "" : " " + shortened(one_line(code), 60), said(response), "); grant them bucket ",
            request.at.bucket, ", or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of somebody who may");
  return {str(failed(request), ": ", why), path_of(request.at), EACCES};
}
}  // namespace

StorageError refusal(const Request& request, const Response& response, const Settings& settings) {
  const std::string code = response.code(), path = path_of(request.at), there = settings.endpoint_words();
  const long status = response.status;
  if (const std::string region = region_of(response);
      status == 301 || status == 307 || code == "AuthorizationHeaderMalformed")
    return {str(failed(request), ": bucket ", request.at.bucket, " is in ",
                region.empty() ? "another region" : "region " + shortened(one_line(region), 60),
                ", and AWS_REGION is ", settings.region,
                region.empty() ? "; set it to the bucket's"
                               : "; set AWS_REGION=" + shortened(one_line(region), 60)),
            path, EIO};
  if (status == 403 || status == 401) return forbidden(request, response, settings);
  if (code == "NoSuchBucket")
    return {str(failed(request), ": ", there, " has no bucket \"", request.at.bucket,
                "\"; make it, or name another"),
            path, ENODEV};
  if (status == 404) return {str(failed(request), ": there is no such object"), path, ENOENT};
  if (status == 412) return {str(failed(request), ": it was replaced meanwhile"), path, ESTALE};
  if (status == 501)
    return {str(failed(request), ": ", there, " does not do what is asked of it (501",
                code.empty() ? "" : " ", shortened(one_line(code), 60), said(response),
                "); checkpoints want a store with conditional writes and uploads in parts"),
            path, EIO};
  return {str(failed(request), ": ", there, " answers ", status, code.empty() ? "" : " ",
              shortened(one_line(code), 60), said(response)),
          path, EIO};
}

StorageError unanswered(const Request& request, const std::string& cause, int tries, double seconds,
                        const Settings& settings) {
  char time[32];
  std::snprintf(time, sizeof time, "%.1f", seconds);
  return {str(failed(request), ": ", cause, "; asked ", settings.endpoint_words(), " ", tries,
              tries == 1 ? " time in " : " times in ", time,
              " s (AWS_ENDPOINT_URL says where it is, LOCKSTEP_S3_PATIENCE how long it is asked: ",
              number_text(settings.patience_s), " s)"),
          path_of(request.at), EIO};
}

StorageError no_credentials(const Request& request, const Settings& settings) {
  const bool key = settings.access_key.empty(), secret = settings.secret_key.empty();
  return {str(failed(request), ": ", key ? "AWS_ACCESS_KEY_ID" : "", key && secret ? " and " : "",
              secret ? "AWS_SECRET_ACCESS_KEY" : "", key && secret ? " are" : " is",
              " not set; export the keys of who may read and write there (profiles of ~/.aws and roles of "
              "machines are not read)"),
          path_of(request.at), EACCES};
}

}  // namespace lockstep::checkpoint::s3
