// Saving: the commit protocol.
//
//   0. All ranks compare step, certificate and the collectives they have started (core/mesh/fingerprint.h).
//      Rank 0 takes the folder's lock and removes what an interrupted save left. An intact step-N with the
//      same bits is kept, SaveInfo::extra is updated, and only 7 follows.
//   1. Every rank writes its chunks to step-N.tmp/rank-R.safetensors (place.h).
//   2. Every rank syncs its file.
//   3. All ranks agree that 1 and 2 went well, and their checksums reach rank 0. If not: step-N.tmp is
//      removed, everyone throws.
//   4. Rank 0 writes step-N.tmp/manifest.json, syncs it, and syncs the folder step-N.tmp.
//   5. Rank 0 renames step-N.tmp to step-N. A step-N with other bits is first set aside as step-N.old, which
//      readers use until step-N exists.
//   6. Rank 0 syncs the parent folder. From here on the checkpoint exists.
//   7. Rank 0 writes `latest` (by rename) and removes old checkpoints. A failure here is only a warning:
//      readers need neither.
//
// A reader trusts only a folder with a manifest and never looks at *.tmp, so a crash between any two
// operations leaves the older checkpoints, or these and the new one.
//
// On a storage without renames (Commit::manifest_last) files are written straight into step-N, under names
// that differ from those of an existing step-N. Then 4 is the commit: the manifest appears at once.
//
// Three stages do this work: 0, then 1 and 2, then 4 to 7 (save_in_flight.h). They may run during training;
// ranks agree between them.
#include "checkpoint/commit.h"

#include "checkpoint/agreement.h"
#include "checkpoint/folder.h"
#include "checkpoint/format/damage.h"
#include "checkpoint/place.h"
#include "core/base/log.h"

namespace lockstep::checkpoint {

std::string receipt_text(const ShardReceipt& receipt) {
  Json json = {{"file", receipt.file},
               {"bytes", receipt.bytes},
               {"header_bytes", receipt.header_bytes},
               {"header_xxh3", receipt.header_xxh3},
               {"offsets", receipt.offsets},
               {"checksums", receipt.checksums}};
  return json.dump();
}
namespace {
ShardReceipt parse_receipt(const std::string& text) {
  Json json = Json::parse(text);
  return {json.at("file"),
          json.at("bytes"),
          json.at("header_bytes"),
          json.at("header_xxh3"),
          json.at("offsets"),
          json.at("checksums"),
          {}};
}
}  // namespace

Manifest make_manifest(const SaveInfo& info, const SavePlan& plan, const LiveMesh& mesh,
                       const std::string& hash, int64_t serial, const std::vector<std::string>& texts) {
  std::vector<ShardReceipt> receipts;
  for (const auto& text : texts) receipts.push_back(parse_receipt(text));
  Manifest out;
  out.step = info.step;
  out.serial = serial;
  out.state_hash = hash;
  out.certificate = info.certificate;
  out.producer = kProducer;
  out.mesh = mesh.words;
  out.config = info.config;
  out.extra = info.extra;
  for (const auto& spec : plan.tensors)
    out.tensors.push_back({spec.fqn, spec.dtype, spec.shape, {}, spec.updates});
  for (size_t rank = 0; rank < plan.by_rank.size(); ++rank) {
    const auto& chunks = plan.by_rank[rank];
    const auto& receipt = receipts[rank];
    LS_CHECK(receipt.checksums.size() == chunks.size() && receipt.offsets.size() == chunks.size(), "rank ",
             rank, " wrote ", receipt.checksums.size(), " of ", chunks.size(), " chunks");
    if (chunks.empty()) continue;
    const std::string& file = receipt.file;
    out.files.push_back({file, receipt.bytes, receipt.header_bytes, receipt.header_xxh3});
    for (size_t i = 0; i < chunks.size(); ++i) {
      TensorRecord& tensor = out.tensors[chunks[i].tensor];
      tensor.chunks.push_back({file, receipt.offsets[i],
                               numel(chunks[i].box) * static_cast<int64_t>(size_of(tensor.dtype)),
                               chunks[i].box, receipt.checksums[i]});
    }
  }
  return out;
}

std::string manifest_there(Storage& storage, const std::string& path) {
  WorkOutcome found = attempt([&] {
    if (!storage.exists(path)) return;
    load_manifest(storage, path);
  });
  if (found.verdict == Verdict::damaged) {
    logs::warn(str(found.text, "; it is replaced"));
    return "";
  }
  raise(found);
  return storage.exists(path) ? load_manifest_text(storage, path) : "";
}

void finish_folder(Storage& storage, const std::string& dir, const std::string& name, int keep) {  // 7
  auto tidied = [&](const std::function<void()>& work) {
    try {
      work();
    } catch (const std::exception& e) {
      logs::warn(str(dir, "/", name, " is saved, but tidying up after it failed: ", e.what()));
    }
  };
  tidied([&] { write_latest(storage, dir, name); });
  tidied([&] { retain(storage, dir, keep); });
}

std::shared_ptr<FolderLock> lock_checkpoints(const std::string& dir, Storage& storage) {
  storage.make_folders(dir);
  return storage.lock(dir);
}

}  // namespace lockstep::checkpoint
