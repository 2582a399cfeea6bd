// The memory layout of a flight record, which writer and readers share; they are processes of one host.
#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep::distributed {

inline constexpr uint64_t kFlightMagic = 0x3154484749'4c464cull;  // "LFLIGHT1", little-endian
inline constexpr uint32_t kFlightVersion = 2;
inline constexpr int kFlightSlots = 256;  // the newest collectives

struct FlightSlot {
  std::atomic<uint64_t> seq;  // 0 while the slot is being written
  uint64_t group_key;
  int64_t group_seq;
  int64_t bytes, count;
  uint64_t site, trail;
  std::atomic<int64_t> start_ns, end_ns;
  std::atomic<uint32_t> state;
  int32_t group_rank, group_size;
  uint8_t dtype, op;
  char verb[20];
  char group[32];
  char label[64];
  std::atomic<uint64_t>
      seq_again;  // equal to seq if the slot is complete: a reader copies from front to back
};

struct FlightFile {
  std::atomic<uint64_t> magic;
  uint32_t version, slot_count;
  int32_t rank;
  int64_t pid;
  std::atomic<int64_t> step, op, updated_ns;
  std::atomic<int64_t> beat_ns, cpu_ns;                        // of the heartbeat; 0: there is none
  std::atomic<int64_t> busy_ns, busy_steps, share, waited_ns;  // see FlightRecorder::worked and waited
  std::atomic<uint32_t> pace;
  std::atomic<uint64_t> count;   // collectives recorded so far
  std::atomic<uint64_t> events;  // grows with every entry that the worker writes, not with heartbeats
  char phase[32];
  FlightSlot slots[kFlightSlots];
};
static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

}  // namespace lockstep::distributed
