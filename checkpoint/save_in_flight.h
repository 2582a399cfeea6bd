// SaveInFlight: a save in three stages, whose work on the storage may run beside the training. Ranks enter
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

// Where a rank's snapshots lie between saves, and whether there is memory for one that is not held yet.
struct SnapshotRoom {
  Snapshot snapshot;
  std::function<bool(int64_t bytes)> has_room;  // empty: there is
};

// The stages of the protocol at the head of commit.cpp: prepare (0, rank 0), write (1 and 2, every rank),
// commit (4 to 7, rank 0). The work of a stage touches this rank's storage and memory alone, so that a thread
// of its own can do it; ranks talk in the constructor and in advance(), on the thread that calls them.
class SaveInFlight {
 public:
  // Compares, plans and checks as save_checkpoint, which throws what is thrown here, and begins. With a
  // `room` the state is copied there, the arrays may change as soon as this returns, and the work runs on
  // threads of their own; where a rank has no memory for it, on all ranks alike as without: the work is done
  // by advance(), from the arrays, which must stay as they are. A copy on a device is searched for values
  // that are not finite as its bytes pass: advance() throws then. Collective. The other references outlive
  // it. With `hosts` the folder `dir` is another one on each host: its first rank does there what rank 0 does
  // else, every file is copied to the next host before the commit, and the newest alone is kept, once it is
  // there on all hosts.
  SaveInFlight(std::string dir, SaveInfo info, const std::vector<const Array*>& arrays, const LiveMesh& mesh,
               int keep, Storage& storage, std::shared_ptr<SnapshotRoom> room,
               std::shared_ptr<const HostFolders> hosts = nullptr);
  // Gives up what is not written yet, and waits for this rank's work. What rank 0 has begun to commit is
  // committed.
  ~SaveInFlight();
  SaveInFlight(const SaveInFlight&) = delete;

  int64_t step() const { return info_.step; }
  bool beside() const { return room_ != nullptr; }
  int64_t snapshot_bytes() const;  // of this rank
  // Whether this rank's work of the stage is over. Never blocks.
  bool ready() const;
  // Blocks until it is, at most so many seconds.
  bool wait(double seconds) const;
  // Waits for this rank's work, agrees with the others, and begins the next stage. True: the checkpoint is
  // there. Collective: with a snapshot best when all are ready(). NotSaved, NonFiniteError, UserError and
  // InternalError on all ranks as save_checkpoint; after NotSaved it may be tried again.
  bool advance();
  // Begins once more, after so many seconds. On all ranks.
  void again(double after_s);
  const SavedInfo& saved() const { return out_; }  // of a checkpoint that is there

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
  std::string there_;  // on rank 0: the manifest of a step-N that is there already
  std::string tag_;    // of the files' names, the same on all ranks
  ShardReceipt receipt_;
  std::mutex found_;
  std::string nonfinite_;  // of values that are none the first in the order of the file
  std::pair<const Holding*, std::vector<int64_t>> nonfinite_at_;
  SavedInfo out_;
  std::atomic<bool> given_up_ = false;
  std::function<void()> work_;               // of a stage that is done in place, by advance()
  std::future<WorkOutcome> beside_outcome_;  // the last member: its thread uses the others
};

}  // namespace lockstep::checkpoint
