// The stages of a save: ranks start and settle each one together; a background thread does the work.
#include "checkpoint/save_in_flight.h"

#include <omp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <system_error>
#include <thread>
#include <utility>

#include "checkpoint/commit.h"
#include "checkpoint/io/read_chunks.h"
#include "checkpoint/place.h"
#include "core/base/log.h"
#include "core/base/steady_seconds.h"
#include "core/mesh/content.h"
#include "core/mesh/fingerprint.h"
#include "core/mesh/nonfinite.h"

namespace lockstep::checkpoint {

namespace {
// Throws the error of a failed outcome, naming the step. For a save, no error found on the way is damage to
// existing checkpoints.
void raise_of(int64_t step, WorkOutcome outcome) {
  if (outcome.verdict == Verdict::ok) return;
  if (outcome.verdict == Verdict::damaged) outcome.verdict = Verdict::refused;
  if (outcome.verdict == Verdict::unwritten)
    outcome.text =
        str("checkpoint of step ", step, " was not saved (older ones are untouched): ", outcome.text);
  raise(outcome);
}

// Background threads use what training leaves free: a quarter as many threads, at most four, at nice 15
// (about a thirtieth of a contended core). They spend their time on checksums and the state hash.
void stand_back() {
  omp_set_num_threads(std::clamp(omp_get_max_threads() / 4, 1, 4));
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 15);  // of Linux: this thread, and those it starts
}

// In addition to the thread that produces blocks: writers wait for the disk most of the time.
int writing_threads() { return std::clamp(omp_get_max_threads(), 2, 4); }
}  // namespace

SaveInFlight::SaveInFlight(std::string dir, SaveInfo info, const std::vector<const Array*>& arrays,
                           const LiveMesh& mesh, int keep, Storage& storage,
                           std::shared_ptr<SnapshotRoom> room, std::shared_ptr<const HostFolders> hosts)
    : dir_(std::move(dir)),
      info_(std::move(info)),
      mesh_(mesh),
      keep_(keep),
      storage_(storage),
      room_(std::move(room)),
      hosts_(std::move(hosts)) {
  Group& world = *mesh.world;
  LS_CHECK(info_.step >= 0 && world.size() == mesh.words.size() && world.rank() == mesh.rank);
  out_.path = dir_ + "/" + step_name(info_.step);
  if (world.size() > 1)
    compare(world, str("at the checkpoint of step ", info_.step),
            {{"numerics certificate",
              {{"", info_.certificate}},
              "the run cannot go on; start it again from its last checkpoint",
              false},
             issued_part(mesh)});
  raise(settle(world, attempt([&] { plan_ = plan_save(specs_of(arrays), mesh.words); })));
  auto prints = all_gather_text(world, plan_.fingerprint);
  for (size_t rank = 1; rank < prints.size(); ++rank)
    LS_CHECK(prints[rank] == prints[0], "ranks 0 and ", rank, " hold different states: their save plans are ",
             prints[0], " and ", prints[rank]);
  began_ = steady_seconds();
  if (!info_.allow_nonfinite && !looks())
    if (auto bad = find_nonfinite(arrays, mesh)) refuse_nonfinite(bad->text());
  if (room_ && !take_snapshot(arrays)) {
    const bool looked = !looks();
    room_ = nullptr;
    if (!looked)
      if (auto bad = find_nonfinite(arrays, mesh)) refuse_nonfinite(bad->text());
  }
  taken_ = steady_seconds() - began_;
  if (!room_) in_place_ = in_place(plan_, mesh.rank, arrays);
  source_ = room_ ? static_cast<ChunkSource*>(&room_->snapshot) : in_place_.get();
  prepare(0);
}

// On all ranks or none: all check for free memory before any rank allocates it.
bool SaveInFlight::take_snapshot(const std::vector<const Array*>& arrays) {
  auto all = [&](bool mine) {
    int64_t word = mine;
    if (mesh_.world->size() > 1)
      all_reduce(*mesh_.world, {&word, &word, 1, DType::i64, ReduceOp::min}, "snapshot of the state");
    return word != 0;
  };
  if (!all(room_->snapshot.holds(plan_, mesh_.rank) || !room_->has_room || room_->has_room(snapshot_bytes())))
    return false;
  bool taken = true;
  try {
    room_->snapshot.take(plan_, mesh_.rank, arrays);
  } catch (const UserError&) { taken = false; }  // memory is out
  return all(taken);
}

SaveInFlight::~SaveInFlight() {
  given_up_ = true;
  if (beside_outcome_.valid()) beside_outcome_.wait();
}

int64_t SaveInFlight::snapshot_bytes() const {
  return static_cast<int64_t>(Snapshot::bytes_of(plan_, mesh_.rank));
}

// Empty work: the stage belongs to another rank.
void SaveInFlight::begin(Stage stage, std::function<void()> work) {
  stage_ = stage;
  if (!room_ || !work)
    work_ = std::move(work);
  else
    try {
      beside_outcome_ = std::async(std::launch::async, [work] {
        stand_back();
        return attempt_save(work);
      });
    } catch (const std::system_error&) { work_ = std::move(work); }  // no more threads
}
WorkOutcome SaveInFlight::take_outcome() {
  if (beside_outcome_.valid()) return beside_outcome_.get();
  return work_ ? attempt_save(std::exchange(work_, {})) : WorkOutcome{};
}
bool SaveInFlight::ready() const { return wait(0); }
bool SaveInFlight::wait(double seconds) const {
  return !beside_outcome_.valid() ||
         beside_outcome_.wait_for(std::chrono::duration<double>(seconds)) == std::future_status::ready;
}

void SaveInFlight::again(double after_s) { prepare(after_s); }

void SaveInFlight::prepare(double after_s) {  // 0
  auto rest = [this, after_s] {
    for (double waited = 0; waited < after_s && !given_up_; waited += 0.05)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  auto work = [this, rest] {
    rest();
    lock_ = lock_checkpoints(dir_, storage_);
    tidy(storage_, dir_);
    serial_ = 1;
    for (const auto& folder : scan(storage_, dir_))
      if (folder.manifest && folder.serial < std::numeric_limits<int64_t>::max())
        serial_ = std::max(serial_, folder.serial + 1);
    there_ = hosts_ ? "" : manifest_there(storage_, out_.path);
    if (there_.empty()) storage_.make_folders(writing());
  };
  begin(Stage::prepare, lead() ? std::function<void()>(work) : std::function<void()>(rest));
}

// Whether step-N exists, intact, with these bits. Every rank verifies its share of the chunks. The manifest
// then gets the new SaveInfo::extra.
bool SaveInFlight::keep_what_is_there() {
  Group& world = *mesh_.world;
  const std::string text = broadcast_text(world, there_);
  tag_ = file_tag(storage_, dir_, text);
  if (text.empty()) return false;
  out_.state_hash = hash_of_ranks(content_of(source_->chunks(), {.hash = true}).hash, world);
  const Manifest manifest = parse_manifest(text, out_.path + "/" + kManifestName);
  bool whole = manifest.state_hash == out_.state_hash && manifest.step == info_.step;
  if (whole) {
    auto problems = verify_chunks(storage_, out_.path, manifest, world.rank(), world.size());
    const WorkOutcome found =
        settle(world, problems.empty() ? WorkOutcome{} : WorkOutcome{Verdict::damaged, problems[0]});
    whole = found.verdict == Verdict::ok;
    if (!whole && lead()) logs::warn(str(found.text, "; the checkpoint is replaced"));
  }
  if (!whole) {
    raise_of(info_.step,
             settle(world, lead() ? attempt_save([&] { storage_.make_folders(writing()); }) : WorkOutcome{}));
    return false;
  }
  auto renew = [&] {
    if (manifest.extra == info_.extra) return;
    Manifest now = manifest;
    now.extra = info_.extra;
    replace_text(storage_, out_.path + "/" + kManifestName, to_text(now));
  };
  raise_of(info_.step, settle(world, lead() ? attempt_save(renew) : WorkOutcome{}));
  for (const auto& file : manifest.files) out_.bytes += file.bytes;
  out_.kept = true;
  return true;
}

void SaveInFlight::refuse_nonfinite(const std::string& words) {
  throw NonFiniteError(str("the state after step ", info_.step, " is not saved: ", words,
                           "; the checkpoints in ", dir_, " are untouched"));
}

// Called for a block of a device snapshot as it passes through the host, from several threads.
void SaveInFlight::look_at(const Holding& of, const Box& block, const std::byte* data) {
  if (!looks() || !is_float(of.dtype)) return;
  const int64_t at = first_nonfinite(of.dtype, data, numel(block));
  if (at >= 0) tell_nonfinite(of, block, at, get_double(of.dtype, data, at));
}

void SaveInFlight::tell_nonfinite(const Holding& of, const Box& block, int64_t at, double value) {
  NonFinite found{of.fqn, std::vector<int64_t>(of.shape.size()), value, 1};
  for (size_t d = of.shape.size(); d-- > 0; at /= block.size[d])
    found.at[d] = block.offset[d] + at % block.size[d];
  std::lock_guard hold(found_);
  std::pair place{&of, found.at};
  if (!nonfinite_.empty() && nonfinite_at_ < place) return;
  nonfinite_ = found.text();
  nonfinite_at_ = std::move(place);
}

// The hash of the chunks that devices hash, which also finds values that are not finite: then nothing is
// written.
StateHash SaveInFlight::sum_in_place() {
  const std::vector<Holding>& chunks = source_->chunks();
  std::vector<Holding> summed;
  for (const Holding& chunk : chunks)
    if (summed_in_place(chunk)) summed.push_back(chunk);
  const Content all = content_of(summed, {.hash = true, .finite = looks()});
  for (size_t i = 0; i < chunks.size() && all.nonfinite > 0 && nonfinite_.empty(); ++i) {
    if (!summed_in_place(chunks[i])) continue;
    const Content of = content_of({chunks[i]}, {.finite = true});
    if (of.nonfinite == 0) continue;
    const Shape& shape = chunks[i].shape;
    Box one{std::vector<int64_t>(shape.size()), std::vector<int64_t>(shape.size(), 1)};
    int64_t place = of.first;
    for (size_t d = shape.size(); d-- > 0; place /= shape[d]) one.offset[d] = place % shape[d];
    const Buffer room = source_->rooms(1)[0];
    source_->copy(i, one, room.data());
    tell_nonfinite(chunks[i], one, 0, get_double(chunks[i].dtype, room.data(), 0));
  }
  return all.hash;
}

void SaveInFlight::write() {  // 1, 2
  nonfinite_.clear();
  begin(Stage::write, [this] {
    const StateHash summed = sum_in_place();
    if (!nonfinite_.empty()) return;
    receipt_ = write_shard(
        storage_, writing() + "/" + shard_name(mesh_.rank, tag_), *source_,
        {{"format", "pt"}, {"producer", kProducer}, {"step", str(info_.step)}, {"rank", str(mesh_.rank)}},
        writing_threads(), given_up_,
        [this](const Holding& of, const Box& block, const std::byte* data) { look_at(of, block, data); });
    receipt_.hash.add(summed);
  });
}

// Copies each written file to the next host.
WorkOutcome SaveInFlight::copy(const std::vector<std::string>& receipts) {
  std::vector<Passage> passages;
  for (size_t rank = 0; rank < receipts.size(); ++rank)
    if (const auto from = static_cast<int64_t>(rank); !plan_.by_rank[rank].empty())
      passages.push_back({writing() + "/" + shard_name(from, tag_), Json::parse(receipts[rank]).at("bytes"),
                          static_cast<int>(from), static_cast<int>(hosts_->keeper(from))});
  return pass_files(*mesh_.world, storage_, passages);
}

void SaveInFlight::commit(const std::string& hash) {
  auto receipts = all_gather_text(*mesh_.world, receipt_text(receipt_));
  if (hosts_) {
    fail(settle(*mesh_.world, copy(receipts)));
    all_reduce(*mesh_.world, {&serial_, &serial_, 1, DType::i64, ReduceOp::max}, "serial of a checkpoint");
  }
  auto work = [this, hash, receipts] {
    const Manifest manifest = make_manifest(info_, plan_, mesh_, hash, serial_, receipts);
    const std::string text = to_text(manifest);
    read_manifest_text(text, writing());  // nothing is committed that a reader would refuse
    lock_->check();
    commit_folder(storage_, dir_, step_name(info_.step), text);
    out_.bytes = 0;
    for (const auto& file : manifest.files) out_.bytes += file.bytes;
    if (!hosts_) finish_folder(storage_, dir_, step_name(info_.step), keep_);
  };
  begin(Stage::commit, lead() ? std::function<void()>(work) : nullptr);
}

void SaveInFlight::drop_unfinished() {
  if (lead()) attempt([&] { remove_unfinished(storage_, dir_, step_name(info_.step)); });
}

// Throws on all ranks.
void SaveInFlight::fail(const WorkOutcome& outcome) {
  if (outcome.verdict == Verdict::ok) return;
  if (stage_ != Stage::prepare) drop_unfinished();
  lock_ = nullptr;
  raise_of(info_.step, outcome);
}

void SaveInFlight::finish() {
  Group& world = *mesh_.world;
  broadcast(world, {&out_.bytes, 1, DType::i64, 0}, out_.kept ? "checkpoint kept" : "checkpoint committed");
  stage_ = Stage::over;
  lock_ = nullptr;
}

bool SaveInFlight::advance() {
  if (stage_ == Stage::over) return true;
  Group& world = *mesh_.world;
  fail(settle(world, take_outcome()));
  switch (stage_) {
    case Stage::prepare:
      if (keep_what_is_there()) {
        if (lead()) finish_folder(storage_, dir_, step_name(info_.step), keep_);
        finish();
        return true;
      }
      write();
      return false;
    case Stage::write:
      if (looks())
        for (const auto& words : all_gather_text(world, nonfinite_))
          if (!words.empty()) {
            drop_unfinished();
            refuse_nonfinite(words);
          }
      out_.state_hash = hash_of_ranks(receipt_.hash, world);
      commit(out_.state_hash);
      return false;
    default:
      if (hosts_ && lead()) attempt([&] { remove_others(storage_, dir_, step_name(info_.step)); });
      finish();
      logs::topic("checkpoint",
                  str("saved ", out_.path, ": ", plan_.bytes_of(mesh_.rank), " bytes of this rank, ",
                      out_.bytes, " in all, state ", out_.state_hash, ", in ", steady_seconds() - began_,
                      " s, of which the snapshot took ", taken_));
      return true;
  }
}

SavedInfo save_checkpoint(const std::string& dir, const SaveInfo& info,
                          const std::vector<const Array*>& arrays, const LiveMesh& mesh, int keep,
                          Storage& storage) {
  SaveInFlight save(dir, info, arrays, mesh, keep, storage, nullptr);
  while (!save.advance()) {}
  return save.saved();
}

}  // namespace lockstep::checkpoint
