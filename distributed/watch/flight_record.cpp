// Writer of the flight record: the memory file, the heartbeat thread, and the process-wide recorder.
#include "distributed/watch/flight_record.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <thread>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "distributed/watch/flight_file.h"
#include "distributed/watch/kept_record.h"

namespace lockstep::distributed {

std::string_view name(FlightState state) {
  static constexpr std::string_view names[] = {"empty", "started", "done", "failed"};
  return names[static_cast<size_t>(state)];
}

int64_t flight_clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

GroupIdentity identify_group(const std::string& name, const std::vector<int>& world_ranks, int rank,
                             uint64_t instance) {
  uint64_t key = hash64(world_ranks.data(), world_ranks.size() * sizeof(int), hash64(name, instance));
  return {name, key, rank, static_cast<int>(world_ranks.size())};
}

namespace {
constexpr std::chrono::milliseconds kBeat{200}, kTick{10}, kCopy{1000};
constexpr int64_t kLateTick = 5'000'000;  // ns; a shorter delay is usual on a busy core

template <size_t n>
void put_text(char (&out)[n], std::string_view text) {
  size_t length = std::min(text.size(), n - 1);
  std::memcpy(out, text.data(), length);
  std::memset(out + length, 0, n - length);
}

int64_t processor_ns() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}
}  // namespace

struct FlightRecorder::Mapped {
  std::string path;
  bool copied = false;
  std::mutex keeping;  // only one thread at a time writes the plain file
  int fd = -1;
  FlightFile* file = nullptr;
  std::thread heart;
  std::mutex mutex;
  std::condition_variable over;
  bool ending = false;
  std::atomic<int64_t> stalled_ns = 0;  // total time by which heartbeats were late
  int64_t stalled_before_ns = 0;        // at the last worked()

  struct Start {
    const GroupIdentity& group;
    int64_t group_seq = -1;
    std::string_view verb, label;
    int64_t bytes = 0, count = -1;
    int dtype = 255, op = 255;
    uint64_t site = 0, trail = 0;
  };
  uint64_t start(const Start& what) {
    const uint64_t seq = file->count.fetch_add(1) + 1;
    FlightSlot& slot = file->slots[(seq - 1) % kFlightSlots];
    slot.seq_again.store(0, std::memory_order_relaxed);
    slot.seq.store(0, std::memory_order_release);  // readers skip a slot whose two numbers are not the same
    std::atomic_thread_fence(std::memory_order_release);
    slot.group_key = what.group.key;
    slot.group_rank = what.group.rank;
    slot.group_size = what.group.size;
    slot.group_seq = what.group_seq;
    slot.bytes = what.bytes;
    slot.count = what.count;
    slot.dtype = static_cast<uint8_t>(what.dtype);
    slot.op = static_cast<uint8_t>(what.op);
    slot.site = what.site;
    slot.trail = what.trail;
    put_text(slot.group, what.group.name);
    put_text(slot.verb, what.verb);
    put_text(slot.label, what.label);
    slot.start_ns.store(flight_clock_ns(), std::memory_order_relaxed);
    slot.end_ns.store(0, std::memory_order_relaxed);
    slot.state.store(static_cast<uint32_t>(FlightState::started), std::memory_order_relaxed);
    slot.seq.store(seq, std::memory_order_release);
    slot.seq_again.store(seq, std::memory_order_release);
    file->events.fetch_add(1, std::memory_order_relaxed);
    return seq;
  }
  void keep() {
    std::lock_guard lock(keeping);
    write_kept_record(path, file, sizeof(FlightFile));
  }
  void said(FlightFile& at) {
    at.events.fetch_add(1, std::memory_order_relaxed);
    at.updated_ns.store(flight_clock_ns(), std::memory_order_release);
  }
  ~Mapped() {
    if (heart.joinable()) {
      {
        std::lock_guard lock(mutex);
        ending = true;
      }
      over.notify_all();
      heart.join();
    }
    if (file) munmap(file, sizeof(FlightFile));
    if (fd >= 0) close(fd);
  }
};

FlightRecorder::FlightRecorder(const std::string& path, int rank, bool copied)
    : mapped_(std::make_unique<Mapped>()) {
  mapped_->path = path;
  mapped_->copied = copied;
  auto check = [&](bool well, const char* what) {
    if (!well)
      throw UserError(str("flight record ", path, " cannot be written: ", what, " of ", sizeof(FlightFile),
                          " bytes: ", std::strerror(errno),
                          "; choose a run folder that is writable, and leave the memory free"));
  };
  int& fd = mapped_->fd;
  fd = memfd_create("lockstep-flight-record", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  check(fd >= 0, "making a memory file");
  check(fchmod(fd, 0600) == 0 && fallocate(fd, 0, 0, sizeof(FlightFile)) == 0, "reserving a memory file");
  // From here on no write into the map can fail: the pages are allocated and the file cannot shrink.
  check(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0, "sealing a memory file");
  void* map = mmap(nullptr, sizeof(FlightFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  check(map != MAP_FAILED, "mapping a memory file");
  // A new file reads as zeros, which is a valid empty record except for the header; the magic is written
  // last.
  FlightFile& file = *(mapped_->file = static_cast<FlightFile*>(map));
  file.version = kFlightVersion;
  file.slot_count = kFlightSlots;
  file.rank = rank;
  file.pid = getpid();
  file.step.store(-1);
  file.op.store(-1);
  file.updated_ns.store(flight_clock_ns());
  file.magic.store(kFlightMagic, std::memory_order_release);
  if (copied) {
    check(write_kept_record(path, &file, sizeof file), "a copy");
    return;
  }
  unlink(path.c_str());
  check(symlink(str("/proc/", getpid(), "/fd/", fd).c_str(), path.c_str()) == 0, "a link to a memory file");
}
FlightRecorder::~FlightRecorder() { keep(); }

const std::string& FlightRecorder::path() const { return mapped_->path; }
void FlightRecorder::keep() const { mapped_->keep(); }

void FlightRecorder::start_heart(std::function<void()> beside) {
  if (mapped_->heart.joinable()) return;
  auto beat = [file = mapped_->file] {
    file->cpu_ns.store(processor_ns(), std::memory_order_relaxed);
    file->beat_ns.store(flight_clock_ns(), std::memory_order_release);
  };
  beat();
  if (mapped_->copied) mapped_->keep();
  // Blocks signals, which the program's own threads handle.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  mapped_->heart = std::thread([beat, beside = std::move(beside), mapped = mapped_.get()] {
    std::unique_lock lock(mapped->mutex);
    int64_t beaten = flight_clock_ns(), copied = beaten;
    for (int64_t began = beaten; !mapped->over.wait_for(lock, kTick, [&] { return mapped->ending; });) {
      const int64_t now = flight_clock_ns(), late = now - began - std::chrono::nanoseconds(kTick).count();
      if (late > kLateTick) mapped->stalled_ns.fetch_add(late, std::memory_order_relaxed);
      if (now - beaten >= std::chrono::nanoseconds(kBeat).count()) beat(), beaten = now;
      if (mapped->copied && now - copied >= std::chrono::nanoseconds(kCopy).count()) {
        lock.unlock();  // a network file system may block
        mapped->keep();
        if (beside) beside();
        lock.lock();
        copied = flight_clock_ns();
      }
      began = flight_clock_ns();
    }
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void FlightRecorder::progress(int64_t step, int64_t op) {
  FlightFile& file = *mapped_->file;
  file.step.store(step, std::memory_order_relaxed);
  file.op.store(op, std::memory_order_relaxed);
  mapped_->said(file);
}

void FlightRecorder::phase(std::string_view phase) {
  put_text(mapped_->file->phase, phase);
  mapped_->said(*mapped_->file);
}

void FlightRecorder::pace(Pace pace) {
  mapped_->file->pace.store(static_cast<uint32_t>(pace), std::memory_order_relaxed);
  mapped_->said(*mapped_->file);
}

double FlightRecorder::worked(double seconds, double waited, int64_t share) {
  FlightFile& file = *mapped_->file;
  const int64_t stalled_ns = mapped_->stalled_ns;
  const double stalled = static_cast<double>(stalled_ns - mapped_->stalled_before_ns) * 1e-9;
  mapped_->stalled_before_ns = stalled_ns;
  const double own = std::clamp(std::max(seconds - waited, stalled), 0.0, seconds);
  file.busy_ns.fetch_add(static_cast<int64_t>(own * 1e9), std::memory_order_relaxed);
  file.share.store(share, std::memory_order_relaxed);
  file.busy_steps.fetch_add(1, std::memory_order_release);
  return own;
}

void FlightRecorder::waited(double seconds) {
  mapped_->file->waited_ns.fetch_add(static_cast<int64_t>(seconds * 1e9), std::memory_order_relaxed);
}
double FlightRecorder::waited() const { return static_cast<double>(mapped_->file->waited_ns.load()) * 1e-9; }

uint64_t FlightRecorder::started(const GroupIdentity& group, int64_t group_seq, std::string_view verb,
                                 std::string_view label, int64_t bytes) {
  return mapped_->start(
      {.group = group, .group_seq = group_seq, .verb = verb, .label = label, .bytes = bytes});
}

namespace {
// The details of a collective in addition to its verb: elements, dtype, reduction.
struct Detail {
  int64_t count = -1;
  int dtype = 255, op = 255;
};
int64_t total(const std::vector<int64_t>& counts) {
  int64_t sum = 0;
  for (int64_t count : counts) sum += count;
  return sum;
}
Detail seen_of(const AllReduce& c) { return {c.count, static_cast<int>(c.dtype), static_cast<int>(c.op)}; }
Detail seen_of(const AllGather& c) { return {total(c.counts), static_cast<int>(c.dtype)}; }
Detail seen_of(const ReduceScatter& c) {
  return {total(c.counts), static_cast<int>(c.dtype), static_cast<int>(c.op)};
}
Detail seen_of(const AllToAll& c) { return {total(c.send_counts), static_cast<int>(c.dtype)}; }
Detail seen_of(const Broadcast& c) { return {c.count, static_cast<int>(c.dtype)}; }
Detail seen_of(const Send& c) { return {c.count, static_cast<int>(c.dtype)}; }
Detail seen_of(const Recv& c) { return {c.count, static_cast<int>(c.dtype)}; }
Detail seen_of(const Barrier&) { return {}; }

uint64_t counts_hash(const std::vector<int64_t>& counts, uint64_t seed) {
  return hash64(counts.data(), counts.size() * sizeof(int64_t), seed);
}
// Hashes the properties that must be equal on all ranks, except verb, label, dtype and reduction.
uint64_t common(const AllReduce& c, uint64_t seed) { return hash64(&c.count, sizeof c.count, seed); }
uint64_t common(const AllGather& c, uint64_t seed) {
  return counts_hash(c.counts, seed + static_cast<uint64_t>(c.more));
}
uint64_t common(const ReduceScatter& c, uint64_t seed) { return counts_hash(c.counts, seed); }
uint64_t common(const AllToAll&, uint64_t seed) { return seed; }  // its parts may differ
uint64_t common(const Broadcast& c, uint64_t seed) {
  return hash64(&c.root, sizeof c.root, hash64(&c.count, sizeof c.count, seed));
}
uint64_t common(const Send&, uint64_t seed) { return seed; }
uint64_t common(const Recv&, uint64_t seed) { return seed; }
uint64_t common(const Barrier&, uint64_t seed) { return seed; }
}  // namespace

SitePlace SiteTrail::next(const Collective& what, const std::string& label) {
  const Detail seen = std::visit([](const auto& c) { return seen_of(c); }, what);
  const int words[] = {static_cast<int>(what.index()), seen.dtype, seen.op};
  uint64_t site = hash64(label, hash64(words, sizeof words));
  site = std::visit([&](const auto& c) { return common(c, site); }, what) | 1;
  std::lock_guard lock(mutex_);
  trail_ = hash64(&site, sizeof site, trail_) | 1;
  return {number_++, site, trail_};
}

uint64_t FlightRecorder::started(const GroupIdentity& group, const SitePlace& place, const Collective& what,
                                 std::string_view label) {
  const Detail seen = std::visit([](const auto& c) { return seen_of(c); }, what);
  return mapped_->start({.group = group,
                         .group_seq = place.number,
                         .verb = lockstep::name(what),
                         .label = label,
                         .bytes = sent_bytes(what),
                         .count = seen.count,
                         .dtype = seen.dtype,
                         .op = seen.op,
                         .site = place.site,
                         .trail = place.trail});
}

void FlightRecorder::ended(uint64_t seq, FlightState state) {
  FlightSlot& slot = mapped_->file->slots[(seq - 1) % kFlightSlots];
  if (slot.seq.load(std::memory_order_acquire) != seq) return;
  slot.end_ns.store(flight_clock_ns(), std::memory_order_relaxed);
  slot.state.store(static_cast<uint32_t>(state), std::memory_order_release);
  mapped_->file->events.fetch_add(1, std::memory_order_relaxed);
}

namespace {
std::mutex recorder_mutex;
std::shared_ptr<FlightRecorder>& recorder_slot() {
  // Never destroyed: progress threads may outlive main's statics.
  static auto& slot = *new std::shared_ptr<FlightRecorder>;
  return slot;
}
thread_local std::shared_ptr<FlightRecorder> thread_recorder;
}  // namespace

void set_flight_recorder(std::shared_ptr<FlightRecorder> recorder) {
  std::lock_guard lock(recorder_mutex);
  recorder_slot() = std::move(recorder);
}
void set_thread_flight_recorder(std::shared_ptr<FlightRecorder> recorder) {
  thread_recorder = std::move(recorder);
}
std::shared_ptr<FlightRecorder> flight_recorder() {
  if (thread_recorder) return thread_recorder;
  std::lock_guard lock(recorder_mutex);
  return recorder_slot();
}

void enter_pace(Pace pace) {
  set_pace(pace);
  if (auto recorder = flight_recorder()) recorder->pace(pace);
}

Flight::Flight(const GroupIdentity& group, const SitePlace& place, const Collective& what,
               std::string_view label)
    : Flight(group, place, what, label, flight_recorder()) {}
Flight::Flight(const GroupIdentity& group, const SitePlace& place, const Collective& what,
               std::string_view label, std::shared_ptr<FlightRecorder> recorder)
    : recorder_(std::move(recorder)) {
  if (recorder_) seq_ = recorder_->started(group, place, what, label);
}
Flight::Flight(const GroupIdentity& group, int64_t group_seq, std::string_view verb, std::string_view label,
               int64_t bytes)
    : recorder_(flight_recorder()) {
  if (recorder_) seq_ = recorder_->started(group, group_seq, verb, label, bytes);
}
void Flight::end(FlightState state) {
  if (!recorder_) return;
  recorder_->ended(seq_, state);
  recorder_.reset();
}

}  // namespace lockstep::distributed
