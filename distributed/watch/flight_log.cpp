// Readers of the flight record: progress, the list of collectives, and a table for people.
#include <algorithm>
#include <boost/interprocess/file_mapping.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"
#include "distributed/watch/flight_file.h"

namespace lockstep {

namespace ipc = boost::interprocess;

namespace {
template <size_t n>
std::string get_text(const char (&text)[n]) {
  return {text, strnlen(text, n)};
}

template <class Read>
auto with_file(const std::string& path, Read read) {
  ipc::mapped_region region;
  std::error_code error;
  auto bytes = std::filesystem::file_size(path, error);
  if (error) throw UserError(str("flight record ", path, ": ", error.message(), "; a worker writes it when it starts"));
  if (bytes != sizeof(FlightFile))
    throw UserError(str("flight record ", path, " has ", bytes, " bytes instead of ", sizeof(FlightFile),
                        "; it is not a flight record of this version"));
  try {
    region = ipc::mapped_region(ipc::file_mapping(path.c_str(), ipc::read_only), ipc::read_only);
  } catch (const ipc::interprocess_exception& failed) {
    throw UserError(str("flight record ", path, " cannot be read: ", failed.what(), "; check its permissions"));
  }
  const FlightFile& file = *static_cast<const FlightFile*>(region.get_address());
  if (file.magic.load(std::memory_order_acquire) != kFlightMagic || file.version != kFlightVersion || file.slot_count != kFlightSlots)
    throw UserError(
        str("flight record ", path, " is not one of version ", kFlightVersion, "; it was written by another program or not yet begun"));
  return read(file);
}

WorkerProgress get_progress(const FlightFile& file) {
  WorkerProgress out;
  out.rank = file.rank;
  out.pid = file.pid;
  out.updated_ns = file.updated_ns.load(std::memory_order_acquire);
  out.step = file.step.load(std::memory_order_relaxed);
  out.op = file.op.load(std::memory_order_relaxed);
  out.phase = get_text(file.phase);
  return out;
}

// Whether a slot holds what a recorder writes: a damaged file must not steer the loops and tables of its readers.
bool is_sound(const FlightEntry& entry) {
  return entry.state <= FlightState::failed && entry.group.size > 0 && entry.group.size <= kFlightRanks && entry.group.rank >= 0 &&
         entry.group.rank < entry.group.size;
}

// From one time to another, as text; times of a damaged file may lie further apart than an int64_t counts.
std::string ms(int64_t from_ns, int64_t to_ns) {
  char out[32];
  std::snprintf(out, sizeof out, "%.3f", (static_cast<double>(to_ns) - static_cast<double>(from_ns)) * 1e-6);
  return out;
}
}  // namespace

WorkerProgress read_progress(const std::string& path) { return with_file(path, get_progress); }

FlightLog read_flight_log(const std::string& path) {
  return with_file(path, [&](const FlightFile& file) {
    FlightLog log{get_progress(file), {}};
    for (const FlightSlot& slot : file.slots) {
      FlightEntry entry;
      entry.seq = slot.seq.load(std::memory_order_acquire);
      entry.group = {get_text(slot.group), slot.group_key, slot.group_rank, slot.group_size};
      entry.group_seq = slot.group_seq;
      entry.verb = get_text(slot.verb);
      entry.label = get_text(slot.label);
      entry.bytes = slot.bytes;
      entry.start_ns = slot.start_ns.load(std::memory_order_relaxed);
      entry.state = static_cast<FlightState>(slot.state.load(std::memory_order_acquire));
      entry.end_ns = slot.end_ns.load(std::memory_order_acquire);
      if (entry.seq == 0 || slot.seq.load(std::memory_order_acquire) != entry.seq) continue;  // being written
      if (!is_sound(entry))
        throw UserError(str("flight record ", path, " is damaged: collective ", entry.seq, " has state ", static_cast<uint32_t>(entry.state),
                            " and rank ", entry.group.rank, " of ", entry.group.size, "; the next attempt writes a new one"));
      log.entries.push_back(std::move(entry));
    }
    std::sort(log.entries.begin(), log.entries.end(), [](const auto& a, const auto& b) { return a.seq < b.seq; });
    return log;
  });
}

std::string text(const FlightLog& log) {
  int64_t now = flight_clock_ns();
  const WorkerProgress& at = log.progress;
  std::string out = str("rank ", at.rank, " (pid ", at.pid, "): step ", at.step, ", op ", at.op, at.phase.empty() ? "" : ", phase ",
                        at.phase, ", ", ms(at.updated_ns, now), " ms ago\n");
  for (const FlightEntry& e : log.entries) {
    std::string group_seq = e.group_seq < 0 ? "-" : str(e.group_seq);
    bool flying = e.state == FlightState::started;
    out +=
        str("  ", e.seq, "  ", e.group.name, "[", e.group.rank, "/", e.group.size, "] #", group_seq, "  ", e.verb, " \"", e.label, "\"  ",
            e.bytes, " bytes  ", name(e.state), "  ", flying ? str("for ", ms(e.start_ns, now)) : ms(e.start_ns, e.end_ns), " ms\n");
  }
  return out;
}

}  // namespace lockstep
