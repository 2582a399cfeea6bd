// Committing: rank 0's part of the protocol in commit.cpp, and the message of a failed save.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/io/write_shard.h"

namespace lockstep::checkpoint {

inline constexpr const char* kProducer = "lockstep 0.1.0";

// A rank's record of the file that it wrote, for make_manifest().
std::string receipt_text(const ShardReceipt& receipt);
// `receipts`: of all ranks.
Manifest make_manifest(const SaveInfo& info, const SavePlan& plan, const LiveMesh& mesh,
                       const std::string& hash, int64_t serial, const std::vector<std::string>& receipts);

// The manifest text of an existing step-N; "" when there is none or it is damaged, which is reported.
// UserError when it cannot be read for lack of permission.
std::string manifest_there(Storage& storage, const std::string& path);
// 7: `latest`, and all but the newest `keep`. A failure is only a warning.
void finish_folder(Storage& storage, const std::string& dir, const std::string& name, int keep);

}  // namespace lockstep::checkpoint
