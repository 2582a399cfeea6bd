// Error messages of S3 requests: what was requested, both values, and the way out.
#pragma once

#include "checkpoint/storage/s3/request.h"
#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint::s3 {

// StorageError for an answer with an error status. Code: ENOENT for a missing object, EACCES when the
// credentials lack permission, ENODEV for a missing bucket, ESTALE for a failed condition, else EIO.
StorageError refusal(const Request& request, const Response& response, const Settings& settings);
// For an endpoint that does not answer: what was tried, how often, and for how long.
StorageError unanswered(const Request& request, const std::string& cause, int tries, double seconds,
                        const Settings& settings);
StorageError no_credentials(const Request& request, const Settings& settings);

}  // namespace lockstep::checkpoint::s3
