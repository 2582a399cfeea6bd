// Checkpoints in host memory: decides when one is due, checks free space, and writes it.
#include "launcher/loop/saves/memory_tier.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "checkpoint/plan/save_plan.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/mesh/together.h"
#include "launcher/loop/saves/run_saves.h"
#include "launcher/supervise/folders/memory.h"

namespace lockstep::launcher {

using namespace checkpoint;

namespace {
constexpr int kKept = 1;

std::string amount(int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

// Bytes of all checkpoints stored there.
int64_t bytes_in(const std::string& folder) {
  int64_t out = 0;
  std::error_code gone;
  for (std::filesystem::recursive_directory_iterator at(folder, gone), end; !gone && at != end;
       at.increment(gone))
    if (at->is_regular_file(gone)) out += static_cast<int64_t>(at->file_size(gone));
  return out;
}

int64_t free_bytes(const std::string& folder) {
  struct statvfs at;
  if (::statvfs(folder.c_str(), &at) != 0) return -1;
  return static_cast<int64_t>(at.f_bavail) * static_cast<int64_t>(at.f_frsize);
}
}  // namespace

MemoryTier::MemoryTier(const CheckpointConfig& policy, const LiveMesh& mesh, const WorkerPlace& at,
                       std::shared_ptr<SnapshotRoom> room, Storage& storage)
    : every_(policy.memory_every),
      beside_(policy.async),
      mesh_(mesh),
      place_(at),
      storage_(storage),
      folder_(at.memory_dir),
      room_(std::move(room)) {}

// Ranks of a host are consecutive, as trainrun numbers them.
void MemoryTier::learn_hosts() {
  Group& world = *mesh_.world;
  if (world.size() == 1) return;
  const int64_t mine = place_.rank - place_.local_rank;
  std::vector<int64_t> firsts(world.size()), ones(world.size(), 1);
  all_gather(world, {&mine, firsts.data(), ones, DType::i64}, "hosts of checkpoints in memory");
  const bool neighbours = std::is_sorted(firsts.begin(), firsts.end()) && firsts[0] == 0;
  if (!neighbours) {
    logs::info("checkpoint.memory_every is not used: the ranks of a host do not follow one another");
    folder_.clear();
    return;
  }
  firsts.erase(std::unique(firsts.begin(), firsts.end()), firsts.end());
  if (firsts.size() > 1) hosts_ = std::make_shared<HostFolders>(firsts, world.size());
}

bool MemoryTier::find(const std::vector<Array*>& arrays) {
  if (folder_.empty()) return false;
  learn_hosts();
  if (folder_.empty()) return false;
  if (hosts_) return gather_newest(folder_, *hosts_, arrays, *mesh_.world, storage_) >= 0;
  int64_t any =
      together(*mesh_.world, [&] { return leads() && !list_checkpoints(folder_, storage_).empty(); });
  if (mesh_.world->size() > 1)
    all_reduce(*mesh_.world, {&any, &any, 1, DType::i64, ReduceOp::max}, "checkpoints in memory");
  return any != 0;
}

// Bytes on this host while one is being written.
int64_t MemoryTier::bytes_of_host(const std::vector<const Array*>& arrays) const {
  const SavePlan plan = plan_save(specs_of(arrays), mesh_.words);
  int64_t out = 0;
  for (int64_t rank = 0; rank < place_.world_size; ++rank)
    if (!hosts_ || hosts_->holds(hosts_->of(place_.rank), rank)) out += plan.bytes_of(rank);
  return out;
}

int64_t MemoryTier::bytes_of_all(const std::vector<const Array*>& arrays) const {
  const SavePlan plan = plan_save(specs_of(arrays), mesh_.words);
  int64_t out = 0;
  for (int64_t rank = 0; rank < mesh_.words.size(); ++rank) out += plan.bytes_of(rank);
  return out;
}

void MemoryTier::open(const std::vector<const Array*>& arrays) {
  if (every_ == 0) return;
  if (folder_.empty()) {
    logs::info(
        "checkpoint.memory_every is not used: checkpoints in memory are kept by trainrun for the ranks "
        "that it restarts, and it did not start these");
    return;
  }
  beside_ = beside_ && bytes_of_all(arrays) > kWaited;
  together(*mesh_.world, [&] {
    if (!leads()) return;
    remove_forgotten_memory();
    make_memory_folder(folder_, place_.run_dir);
    lock_ = lock_checkpoints(folder_, storage_);
    const int64_t bytes = bytes_of_host(arrays), needed = 2 * bytes,
                  room = free_bytes(folder_) + bytes_in(folder_);
    if (room < needed)
      throw UserError(str("checkpoint.memory_every keeps a checkpoint of ", amount(bytes),
                          " in this host's memory while it writes the next: ", amount(needed), ", and ",
                          parent_folder(folder_), " has room for ", amount(room),
                          "; make it larger (mount -o remount,size=SIZE ", parent_folder(folder_),
                          "), or set checkpoint.memory_every=0"));
  });
  open_ = true;
}

bool MemoryTier::due(int64_t i, bool wait) {
  if (!open_) return false;
  late_ = late_ || i % every_ == 0;
  return late_ && !wait && !flight_;
}

void MemoryTier::save(const SaveInfo& info, const std::vector<const Array*>& arrays) {
  late_ = false;
  try {
    flight_ = std::make_unique<SaveInFlight>(folder_, info, arrays, mesh_, kKept, storage_,
                                             beside_ ? room_ : nullptr, hosts_);
  } catch (const NonFiniteError&) { return; }
  while (flight_ && !flight_->beside()) advance();
}

bool MemoryTier::keep(const SaveInfo& info, const std::vector<const Array*>& arrays) {
  if (!used()) return false;
  while (flight_) advance();
  beside_ = false;
  save(info, arrays);
  return newest_ == info.step;
}

int64_t MemoryTier::vote() const { return flight_ && flight_->ready() ? kReadyInMemory : 0; }

void MemoryTier::heard(int64_t votes) {
  if (flight_ && RunSaves::ready_in_memory(votes) == mesh_.world->size()) advance();
}

void MemoryTier::advance() {
  try {
    if (!flight_->advance()) return;
    newest_ = flight_->step();
    told_.clear();
  } catch (const NonFiniteError&) {
  } catch (const NotSaved& error) {  // reported once, until one succeeds
    if (mesh_.rank == 0 && std::exchange(told_, error.what()).empty())
      logs::warn(str("in memory: ", error.what(),
                     "; the run goes on, and tries again at the next (checkpoint.memory_every)"));
  }
  flight_ = nullptr;
}

void MemoryTier::end() {
  if (!open_ || !hosts_) return;
  flight_ = nullptr;
  barrier(*mesh_.world, "checkpoints in memory");
  lock_ = nullptr;  // released, because the process that removes the folder takes it
  if (leads())
    if (const std::string left = remove_memory_folder(folder_); !left.empty()) logs::warn(left);
}

void MemoryTier::forget() {
  if (folder_.empty()) return;
  flight_ = nullptr;
  if (mesh_.world->size() > 1) barrier(*mesh_.world, "checkpoints in memory");
  together(*mesh_.world, [&] {
    if (leads() && storage_.exists(folder_)) remove_others(storage_, folder_, "");
  });
}

}  // namespace lockstep::launcher
