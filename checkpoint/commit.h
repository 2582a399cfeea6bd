// Committing: what the protocol at the head of commit.cpp does on rank 0, and the words of a failed save.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/io/write_shard.h"

namespace lockstep::checkpoint {

inline constexpr const char* kProducer = "lockstep 0.1.0";

// What a rank says of the file that it wrote, for make_manifest().
std::string receipt_text(const ShardReceipt& receipt);
// `receipts`: of all ranks.
Manifest make_manifest(const SaveInfo& info, const SavePlan& plan, const LiveMesh& mesh,
                       const std::string& hash, int64_t serial, const std::vector<std::string>& receipts);

// The text of the manifest of a step-N that is there already; "" where none is, or it is damaged, which is
// told. UserError where it may not be read.
std::string manifest_there(Storage& storage, const std::string& path);
// 7: `latest`, and all but the newest `keep`. Trouble is a warning.
void finish_folder(Storage& storage, const std::string& dir, const std::string& name, int keep);

}  // namespace lockstep::checkpoint
