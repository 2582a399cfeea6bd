// Writer of the flight record: the file's layout, the mapping, and the process-wide recorder.
#include "distributed/watch/flight_record.h"

#include <unistd.h>

#include <boost/interprocess/file_mapping.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/private_file.h"
#include "distributed/watch/flight_file.h"

namespace lockstep {

namespace ipc = boost::interprocess;

std::string_view name(FlightState state) {
  static constexpr std::string_view names[] = {"empty", "started", "done", "failed"};
  return names[static_cast<size_t>(state)];
}

int64_t flight_clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

GroupIdentity identify_group(const std::string& name, const std::vector<int>& world_ranks, int rank) {
  uint64_t key = hash64(world_ranks.data(), world_ranks.size() * sizeof(int), hash64(name));
  return {name, key, rank, static_cast<int>(world_ranks.size())};
}

namespace {
template <size_t n>
void put_text(char (&out)[n], std::string_view text) {
  size_t length = std::min(text.size(), n - 1);
  std::memcpy(out, text.data(), length);
  std::memset(out + length, 0, n - length);
}
}  // namespace

struct FlightRecorder::Mapped {
  std::string path;
  ipc::file_mapping file;
  ipc::mapped_region region;
  FlightFile& get() { return *static_cast<FlightFile*>(region.get_address()); }
};

FlightRecorder::FlightRecorder(const std::string& path, int rank) : mapped_(std::make_unique<Mapped>()) {
  mapped_->path = path;
  try {
    if (!create_private(path)) throw std::runtime_error(std::strerror(errno));
    std::filesystem::resize_file(path, sizeof(FlightFile));
    mapped_->file = ipc::file_mapping(path.c_str(), ipc::read_write);
    mapped_->region = ipc::mapped_region(mapped_->file, ipc::read_write, 0, sizeof(FlightFile));
  } catch (const std::exception& error) {
    throw UserError(str("flight record ", path, " cannot be written: ", error.what(), "; choose a run folder that is writable"));
  }
  // A new file reads as zeros, which is a valid empty record but for the header; the magic goes last.
  FlightFile& file = mapped_->get();
  file.version = kFlightVersion;
  file.slot_count = kFlightSlots;
  file.rank = rank;
  file.pid = getpid();
  file.step.store(-1);
  file.op.store(-1);
  file.updated_ns.store(flight_clock_ns());
  file.magic.store(kFlightMagic, std::memory_order_release);
}
FlightRecorder::~FlightRecorder() = default;

const std::string& FlightRecorder::path() const { return mapped_->path; }

void FlightRecorder::progress(int64_t step, int64_t op) {
  FlightFile& file = mapped_->get();
  file.step.store(step, std::memory_order_relaxed);
  file.op.store(op, std::memory_order_relaxed);
  file.updated_ns.store(flight_clock_ns(), std::memory_order_release);
}

void FlightRecorder::phase(std::string_view phase) {
  FlightFile& file = mapped_->get();
  put_text(file.phase, phase);
  file.updated_ns.store(flight_clock_ns(), std::memory_order_release);
}

uint64_t FlightRecorder::started(const GroupIdentity& group, int64_t group_seq, std::string_view verb, std::string_view label,
                                 int64_t bytes) {
  FlightFile& file = mapped_->get();
  uint64_t seq = file.count.fetch_add(1) + 1;
  FlightSlot& slot = file.slots[(seq - 1) % kFlightSlots];
  slot.seq.store(0, std::memory_order_release);  // readers skip a slot whose number is 0 or changes under them
  slot.group_key = group.key;
  slot.group_rank = group.rank;
  slot.group_size = group.size;
  slot.group_seq = group_seq;
  slot.bytes = bytes;
  put_text(slot.group, group.name);
  put_text(slot.verb, verb);
  put_text(slot.label, label);
  slot.start_ns.store(flight_clock_ns(), std::memory_order_relaxed);
  slot.end_ns.store(0, std::memory_order_relaxed);
  slot.state.store(static_cast<uint32_t>(FlightState::started), std::memory_order_relaxed);
  slot.seq.store(seq, std::memory_order_release);
  return seq;
}

void FlightRecorder::ended(uint64_t seq, FlightState state) {
  FlightSlot& slot = mapped_->get().slots[(seq - 1) % kFlightSlots];
  if (slot.seq.load(std::memory_order_acquire) != seq) return;
  slot.end_ns.store(flight_clock_ns(), std::memory_order_relaxed);
  slot.state.store(static_cast<uint32_t>(state), std::memory_order_release);
}

namespace {
std::mutex recorder_mutex;
std::shared_ptr<FlightRecorder>& recorder_slot() {
  static auto& slot = *new std::shared_ptr<FlightRecorder>;  // never destroyed: progress threads may outlive main's statics
  return slot;
}
thread_local std::shared_ptr<FlightRecorder> thread_recorder;
}  // namespace

void set_flight_recorder(std::shared_ptr<FlightRecorder> recorder) {
  std::lock_guard lock(recorder_mutex);
  recorder_slot() = std::move(recorder);
}
void set_thread_flight_recorder(std::shared_ptr<FlightRecorder> recorder) { thread_recorder = std::move(recorder); }
std::shared_ptr<FlightRecorder> flight_recorder() {
  if (thread_recorder) return thread_recorder;
  std::lock_guard lock(recorder_mutex);
  return recorder_slot();
}

Flight::Flight(const GroupIdentity& group, int64_t group_seq, const Collective& what, std::string_view label)
    : Flight(group, group_seq, lockstep::name(what), label, sent_bytes(what)) {}
Flight::Flight(const GroupIdentity& group, int64_t group_seq, const Collective& what, std::string_view label,
               std::shared_ptr<FlightRecorder> recorder)
    : recorder_(std::move(recorder)) {
  if (recorder_) seq_ = recorder_->started(group, group_seq, lockstep::name(what), label, sent_bytes(what));
}
Flight::Flight(const GroupIdentity& group, int64_t group_seq, std::string_view verb, std::string_view label, int64_t bytes)
    : recorder_(flight_recorder()) {
  if (recorder_) seq_ = recorder_->started(group, group_seq, verb, label, bytes);
}
void Flight::end(FlightState state) {
  if (!recorder_) return;
  recorder_->ended(seq_, state);
  recorder_.reset();
}

}  // namespace lockstep
