// Layout of a flight record on disk: shared by the writer and the readers, which are processes of one host.
#pragma once

#include <atomic>
#include <cstdint>

#include "distributed/watch/flight_record.h"

namespace lockstep {

inline constexpr uint64_t kFlightMagic = 0x3154484749'4c464cull;  // "LFLIGHT1", little-endian
inline constexpr uint32_t kFlightVersion = 1;

struct FlightSlot {
  std::atomic<uint64_t> seq;  // 0 while the slot is being written
  uint64_t group_key;
  int64_t group_seq;
  int64_t bytes;
  std::atomic<int64_t> start_ns, end_ns;
  std::atomic<uint32_t> state;
  int32_t group_rank, group_size;
  char verb[20];
  char group[32];
  char label[64];
};

struct FlightFile {
  std::atomic<uint64_t> magic;
  uint32_t version, slot_count;
  int32_t rank;
  int64_t pid;
  std::atomic<int64_t> step, op, updated_ns;
  std::atomic<uint64_t> count;  // collectives recorded so far
  char phase[32];
  FlightSlot slots[kFlightSlots];
};
static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

}  // namespace lockstep
