// What an S3 object store refused, in words: what was asked, both values, the way out.
#pragma once

#include "checkpoint/storage/s3/request.h"
#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint::s3 {

// StorageError of an answer that is not good. Its code: ENOENT where there is no such object, EACCES where
// these credentials may not, ENODEV where there is no such bucket, ESTALE where a condition did not hold,
// else EIO.
StorageError refusal(const Request& request, const Response& response, const Settings& settings);
// Of an endpoint that does not answer: what was tried, how often, for how long.
StorageError unanswered(const Request& request, const std::string& cause, int tries, double seconds,
                        const Settings& settings);
StorageError no_credentials(const Request& request, const Settings& settings);

}  // namespace lockstep::checkpoint::s3
