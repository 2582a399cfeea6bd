// Flight recorder: the progress word of a worker and its last 256 collectives, in a mapped file that outlives the process.
// The file has a fixed layout (a header and 256 slots), so a supervisor reads it while the worker runs and after it was killed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/mesh/group.h"

namespace lockstep {

inline constexpr int kFlightSlots = 256;
inline constexpr int kFlightRanks = 65536;  // of a group; a record that speaks of more is damaged

enum class FlightState : uint32_t { empty, started, done, failed };
std::string_view name(FlightState state);

// What names a group across processes: `key` is equal on its members and differs between the groups of one mesh dim.
struct GroupIdentity {
  std::string name;
  uint64_t key = 0;
  int rank = 0;
  int size = 1;
};
// The identity of the group whose members have these world ranks, seen from its rank `rank`.
GroupIdentity identify_group(const std::string& name, const std::vector<int>& world_ranks, int rank);

// One collective as recorded. Times are nanoseconds of the host's steady clock, comparable between the processes of one host.
struct FlightEntry {
  uint64_t seq = 0;        // counts the collectives of the process from 1
  GroupIdentity group;     // name cut to 31 bytes
  int64_t group_seq = -1;  // counts the collectives of the group from 0; -1 for send and recv
  std::string verb;        // "all_reduce", ...
  std::string label;       // cut to 63 bytes
  int64_t bytes = 0;       // handed over by this rank
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // 0 while in flight
  FlightState state = FlightState::empty;
};

struct WorkerProgress {
  int rank = 0;
  int64_t pid = 0;
  int64_t step = -1;       // -1 before the first step
  int64_t op = -1;         // id of the node or phase that the worker last entered
  std::string phase;       // "compile", "step", "save", ...; cut to 31 bytes
  int64_t updated_ns = 0;  // steady clock
};

struct FlightLog {
  WorkerProgress progress;
  std::vector<FlightEntry> entries;  // oldest first, at most kFlightSlots
};

// Writer: one per process. Calls are lock-free stores into mapped memory; any thread may call them.
class FlightRecorder {
 public:
  // Creates or replaces the file (its folder must exist). UserError naming the path when it cannot be written.
  FlightRecorder(const std::string& path, int rank);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  void progress(int64_t step, int64_t op);
  void phase(std::string_view phase);
  uint64_t started(const GroupIdentity& group, int64_t group_seq, std::string_view verb, std::string_view label, int64_t bytes);
  void ended(uint64_t seq, FlightState state);  // ignored when the slot has been taken by a later collective
  const std::string& path() const;

 private:
  struct Mapped;
  std::unique_ptr<Mapped> mapped_;
};

// The recorder that every Group of this process reports to; null: none.
void set_flight_recorder(std::shared_ptr<FlightRecorder> recorder);
// The calling thread's own one, where it has one; else the process's.
std::shared_ptr<FlightRecorder> flight_recorder();
// For the calling thread alone, where ranks are threads of one process. Null: the process's again.
void set_thread_flight_recorder(std::shared_ptr<FlightRecorder> recorder);

// Token of one collective: records the start when built and the end when told, into flight_recorder() if there is one.
class Flight {
 public:
  Flight() = default;
  Flight(const GroupIdentity& group, int64_t group_seq, const Collective& what, std::string_view label);
  // The same into a given recorder (null: none), where another thread than the rank's own records.
  Flight(const GroupIdentity& group, int64_t group_seq, const Collective& what, std::string_view label, std::shared_ptr<FlightRecorder> recorder);
  // Of something that is no single collective, such as the launch of a captured graph that holds many.
  Flight(const GroupIdentity& group, int64_t group_seq, std::string_view verb, std::string_view label, int64_t bytes);
  void end(FlightState state);  // the first call counts

 private:
  std::shared_ptr<FlightRecorder> recorder_;
  uint64_t seq_ = 0;
};

// Readers. UserError naming the path when the file is missing, short, damaged, or not a flight record of this version.
WorkerProgress read_progress(const std::string& path);
FlightLog read_flight_log(const std::string& path);

// A table for people: the progress line, then one line per collective with its age or its duration in ms.
std::string text(const FlightLog& log);

// Nanoseconds of the steady clock, the clock of every time above.
int64_t flight_clock_ns();

}  // namespace lockstep
