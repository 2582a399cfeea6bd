// Saving: the commit protocol.
//
//   0. All ranks compare step, certificate and the collectives they have started (core/mesh/fingerprint.h).
//      Rank 0 takes the folder's lock and removes what an interrupted save left. A step-N that is whole and
//      holds the same bits is kept, and only 7 follows.
//   1. Every rank writes its chunks to step-N.tmp/rank-R.safetensors.
//   2. Every rank syncs its file.
//   3. All ranks agree that 1 and 2 went well, and their checksums reach rank 0. If not: step-N.tmp is
//      removed, everyone throws.
//   4. Rank 0 writes step-N.tmp/manifest.json, syncs it, and syncs the folder step-N.tmp.
//   5. Rank 0 renames step-N.tmp to step-N. A step-N with other bits is first set aside as step-N.old, which
//      readers take while step-N is not there.
//   6. Rank 0 syncs the parent folder. From here on the checkpoint is there.
//   7. Rank 0 writes `latest` (by rename) and removes old checkpoints. Trouble here is a warning: readers do
//      not need either.
//
// A reader trusts only a folder with a manifest and never looks at *.tmp, so a crash between any two
// operations leaves the older checkpoints, or these and the new one.
#include <algorithm>
#include <limits>
#include <map>

#include "checkpoint/agreement.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/format/checksum.h"
#include "checkpoint/io/read_chunks.h"
#include "checkpoint/io/write_shard.h"
#include "core/base/log.h"
#include "core/mesh/fingerprint.h"
#include "core/mesh/nonfinite.h"

namespace lockstep::checkpoint {

namespace {
constexpr const char* kProducer = "lockstep 0.1.0";

std::string receipt_text(const ShardReceipt& receipt) {
  Json json = {{"bytes", receipt.bytes},
               {"header_bytes", receipt.header_bytes},
               {"header_xxh3", receipt.header_xxh3},
               {"offsets", receipt.offsets},
               {"checksums", receipt.checksums}};
  return json.dump();
}
ShardReceipt parse_receipt(const std::string& text) {
  Json json = Json::parse(text);
  return {json.at("bytes"), json.at("header_bytes"), json.at("header_xxh3"), json.at("offsets"),
          json.at("checksums")};
}

Manifest make_manifest(const SaveInfo& info, const SavePlan& plan, const LiveMesh& mesh,
                       const std::string& hash, int64_t serial, const std::vector<ShardReceipt>& receipts) {
  Manifest out;
  out.step = info.step;
  out.serial = serial;
  out.state_hash = hash;
  out.certificate = info.certificate;
  out.producer = kProducer;
  out.mesh = mesh.words;
  out.config = info.config;
  out.extra = info.extra;
  for (const auto& spec : plan.tensors) out.tensors.push_back({spec.fqn, spec.dtype, spec.shape, {}});
  for (size_t rank = 0; rank < plan.by_rank.size(); ++rank) {
    const auto& chunks = plan.by_rank[rank];
    const auto& receipt = receipts[rank];
    LS_CHECK(receipt.checksums.size() == chunks.size() && receipt.offsets.size() == chunks.size(), "rank ",
             rank, " wrote ", receipt.checksums.size(), " of ", chunks.size(), " chunks");
    if (chunks.empty()) continue;
    std::string file = shard_name(static_cast<int64_t>(rank));
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

// Throws what is not ok, saying of which step; for a save, whatever is found wrong on the way is no damage to
// what is there.
void raise_of(int64_t step, WorkOutcome outcome) {
  if (outcome.verdict == Verdict::ok) return;
  if (outcome.verdict == Verdict::damaged) outcome.verdict = Verdict::refused;
  if (outcome.verdict == Verdict::unwritten)
    outcome.text =
        str("checkpoint of step ", step, " was not saved (older ones are untouched): ", outcome.text);
  raise(outcome);
}

// Work of rank 0 alone, in which all ranks share success or failure.
void on_lead(Group& world, int64_t step, const std::function<void()>& work) {
  raise_of(step, settle(world, world.rank() == 0 ? attempt_save(work) : WorkOutcome{}));
}

// Is step-N there, whole, with these bits? Every rank verifies its share of the chunks.
bool already_saved(Storage& storage, const std::string& path, const std::string& hash, Group& world,
                   int64_t& bytes) {
  std::string text;
  WorkOutcome found;
  if (world.rank() == 0)
    found = attempt([&] {
      if (!storage.exists(path)) return;
      std::string read = load_manifest_text(storage, path);
      Manifest manifest = parse_manifest(read, path + "/" + kManifestName);
      if (manifest.state_hash == hash && manifest.step == step_of(last_part(path))) text = read;
    });
  if (found.verdict == Verdict::damaged) {
    logs::warn(str(found.text, "; it is replaced"));
    found = {};
  }
  raise(settle(world, found));
  text = broadcast_text(world, text);
  if (text.empty()) return false;
  Manifest manifest = parse_manifest(text, path + "/" + kManifestName);
  auto problems = verify_chunks(storage, path, manifest, world.rank(), world.size());
  WorkOutcome whole =
      settle(world, problems.empty() ? WorkOutcome{} : WorkOutcome{Verdict::damaged, problems[0]});
  if (whole.verdict != Verdict::ok) {
    if (world.rank() == 0) logs::warn(str(whole.text, "; the checkpoint is replaced"));
    return false;
  }
  bytes = 0;
  for (const auto& file : manifest.files) bytes += file.bytes;
  return true;
}

void commit_folder(Storage& storage, const std::string& dir, const std::string& name,
                   const std::string& manifest_text) {
  std::string path = dir + "/" + name, temporary = path + ".tmp", aside = path + ".old";
  write_text(storage, temporary + "/" + kManifestName, manifest_text);  // 4
  storage.sync_folder(temporary);
  bool replaces = storage.exists(path);  // 5
  if (replaces) {
    storage.rename(path, aside);
    storage.sync_folder(dir);
  }
  storage.rename(temporary, path);
  storage.sync_folder(dir);  // 6
  if (replaces) remove_folder(storage, aside);
}

void finish(Storage& storage, const std::string& dir, const std::string& name, int keep) {  // 7
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
}  // namespace

std::shared_ptr<FolderLock> lock_checkpoints(const std::string& dir, Storage& storage) {
  storage.make_folders(dir);
  return storage.lock(dir);
}

SavedInfo save_checkpoint(const std::string& dir, const SaveInfo& info,
                          const std::vector<const Array*>& arrays, const LiveMesh& mesh, int keep,
                          Storage& storage) {
  Group& world = *mesh.world;
  LS_CHECK(info.step >= 0 && world.size() == mesh.words.size() && world.rank() == mesh.rank);
  const bool lead = mesh.rank == 0;
  const std::string name = step_name(info.step), path = dir + "/" + name, temporary = path + ".tmp";
  if (world.size() > 1)
    compare(world, str("at the checkpoint of step ", info.step),
            {{"numerics certificate",
              {{"", info.certificate}},
              "the run cannot go on; start it again from its last checkpoint",
              false},
             issued_part(mesh)});
  SavePlan plan;
  raise(settle(world, attempt([&] { plan = plan_save(specs_of(arrays), mesh.words); })));
  auto prints = all_gather_text(world, plan.fingerprint);
  for (size_t rank = 1; rank < prints.size(); ++rank)
    LS_CHECK(prints[rank] == prints[0], "ranks 0 and ", rank, " hold different states: their save plans are ",
             prints[0], " and ", prints[rank]);
  if (!info.allow_nonfinite)
    if (auto bad = find_nonfinite(arrays, mesh))
      throw NonFiniteError(str("the state after step ", info.step, " is not saved: ", bad->text(),
                               "; the checkpoints in ", dir, " are untouched"));
  SavedInfo out{path, state_hash(arrays, mesh), 0, false};

  std::shared_ptr<FolderLock> lock;  // 0
  int64_t serial = 1;
  on_lead(world, info.step, [&] {
    lock = lock_checkpoints(dir, storage);
    tidy(storage, dir);
    for (const auto& folder : scan(storage, dir))
      if (folder.manifest && folder.serial < std::numeric_limits<int64_t>::max())
        serial = std::max(serial, folder.serial + 1);
  });
  if (already_saved(storage, path, out.state_hash, world, out.bytes)) {
    out.kept = true;
    if (lead) finish(storage, dir, name, keep);
    barrier(world, "checkpoint kept");
    return out;
  }
  on_lead(world, info.step, [&] { storage.make_folders(temporary); });

  ShardReceipt receipt;  // 1, 2
  std::map<std::string, std::string> metadata = {
      {"format", "pt"}, {"producer", kProducer}, {"step", str(info.step)}, {"rank", str(mesh.rank)}};
  WorkOutcome written = attempt_save([&] {
    receipt =
        write_shard(storage, temporary + "/" + shard_name(mesh.rank), plan, mesh.rank, arrays, metadata);
  });
  written = settle(world, written);  // 3
  if (written.verdict == Verdict::ok) {
    auto receipts = all_gather_text(world, receipt_text(receipt));
    written = lead ? attempt_save([&] {
      std::vector<ShardReceipt> all;
      for (const auto& text : receipts) all.push_back(parse_receipt(text));
      for (const auto& one : all) out.bytes += one.bytes;
      std::string text = to_text(make_manifest(info, plan, mesh, out.state_hash, serial, all));
      parse_manifest(text,
                     temporary + "/" + kManifestName);  // nothing is committed that a reader would refuse
      commit_folder(storage, dir, name, text);
    })
                   : WorkOutcome{};
    written = settle(world, written);
  }
  if (written.verdict != Verdict::ok) {
    if (lead)
      attempt([&] {
        if (storage.exists(temporary)) remove_folder(storage, temporary);
      });
    raise_of(info.step, written);
  }
  if (lead) finish(storage, dir, name, keep);
  int64_t bytes = out.bytes;
  broadcast(world, {&bytes, 1, DType::i64, 0}, "checkpoint committed");
  out.bytes = bytes;
  logs::topic("checkpoint", str("saved ", path, ": ", plan.bytes_of(mesh.rank), " bytes of this rank, ",
                                out.bytes, " in all, state ", out.state_hash));
  return out;
}

}  // namespace lockstep::checkpoint
