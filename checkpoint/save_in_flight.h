// SaveInFlight: a save in three stages whose storage work may run in the background of training. Ranks enter
// each stage together.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/agreement.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/host_folders.h"
#include "checkpoint/io/chunk_source.h"
#include "checkpoint/io/write_shard.h"
#include "checkpoint/place.h"

namespace lockstep::checkpoint {

// A rank's snapshot memory, kept between saves, and whether more can be allocated.
struct SnapshotRoom {
  Snapshot snapshot;
  std::function<bool(int64_t bytes)> has_room;  // empty: always true
};

// The stages of the protocol at the head of commit.cpp: prepare (0, rank 0), write (1 and 2, every rank),
// commit (4 to 7, rank 0). The work of a stage touches only this rank's storage and memory, so a background
// thread can do it. Ranks communicate in the constructor and in advance(), on the calling thread.
class SaveInFlight {
 public:
  // Compares, plans and checks like save_checkpoint, with the same errors, and starts the save. With a `room`
  // the state is copied there, the arrays may change as soon as this returns, and background threads do the
  // work. If any rank lacks the memory, all ranks proceed as without a room: advance() does the work from the
  // arrays, which must not change. A device snapshot is searched for values that are not finite as its bytes
  // pass: advance() throws then. Collective. The other references must outlive this object. With `hosts`,
  // `dir` is a different folder on each host, where the host's first rank does the work of rank 0. Every file
  // is copied to the next host before the commit. Only the newest checkpoint is kept, once all hosts have it.
  SaveInFlight(std::string dir, SaveInfo info, const std::vector<const Array*>& arrays, const LiveMesh& mesh,
               int keep, Storage& storage, std::shared_ptr<SnapshotRoom> room,
               std::shared_ptr<const HostFolders> hosts = nullptr);
  // Drops unwritten work and waits for this rank's thread. A commit that rank 0 has begun is finished.
  ~SaveInFlight();
  SaveInFlight(const SaveInFlight&) = delete;

  int64_t step() const { return info_.step; }
  bool beside() const { return room_ != nullptr; }
  int64_t snapshot_bytes() const;  // of this rank
  // Whether this rank's work of the stage is over. Never blocks.
  bool ready() const;
  // Blocks until it is over, at most for that many seconds.
  bool wait(double seconds) const;
  // Waits for this rank's work, agrees with the others, and starts the next stage. True: the checkpoint
  // exists. Collective; with a snapshot, call it when all ranks are ready() to avoid waiting. NotSaved,
  // NonFiniteError, UserError and InternalError on all ranks as in save_checkpoint; after NotSaved the save
  // may be retried.
  bool advance();
  // Retries after that many seconds. On all ranks.
  void again(double after_s);
  const SavedInfo& saved() const { return out_; }  // valid once the checkpoint exists

 private:
  enum class Stage { prepare, write, commit, over };
  void begin(Stage stage, std::function<void()> work);
  WorkOutcome take_outcome();
  void prepare(double after_s);
  bool take_snapshot(const std::vector<const Array*>& arrays);
  bool keep_what_is_there();
  void write();
  void commit(const std::string& hash);
  void finish();
  void look_at(const Holding& of, const Box& block, const std::byte* data);
  void tell_nonfinite(const Holding& of, const Box& block, int64_t at, double value);
  StateHash sum_in_place();
  [[noreturn]] void refuse_nonfinite(const std::string& words);
  bool looks() const { return room_ && room_->snapshot.on_device() && !info_.allow_nonfinite; }
  void drop_unfinished();
  void fail(const WorkOutcome& outcome);
  bool lead() const { return hosts_ ? hosts_->leads(mesh_.rank) : mesh_.rank == 0; }
  WorkOutcome copy(const std::vector<std::string>& receipts);
  std::string writing() const { return writing_folder(storage_, dir_, step_name(info_.step)); }

  const std::string dir_;
  const SaveInfo info_;
  const LiveMesh& mesh_;
  const int keep_;
  Storage& storage_;
  std::shared_ptr<SnapshotRoom> room_;
  std::shared_ptr<const HostFolders> hosts_;
  SavePlan plan_;
  std::unique_ptr<ChunkSource> in_place_;
  ChunkSource* source_ = nullptr;

  double began_ = 0, taken_ = 0;  // seconds: when, and how long the caller waited for the snapshot

  Stage stage_ = Stage::prepare;
  std::shared_ptr<FolderLock> lock_;
  int64_t serial_ = 1;
  std::string there_;  // on rank 0: the manifest of an existing step-N
  std::string tag_;    // of the files' names, the same on all ranks
  ShardReceipt receipt_;
  std::mutex found_;
  std::string nonfinite_;  // the first value that is not finite, in file order
  std::pair<const Holding*, std::vector<int64_t>> nonfinite_at_;
  SavedInfo out_;
  std::atomic<bool> given_up_ = false;
  std::function<void()> work_;               // of a stage that is done in place, by advance()
  std::future<WorkOutcome> beside_outcome_;  // the last member: its thread uses the others
};

}  // namespace lockstep::checkpoint
