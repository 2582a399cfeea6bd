// Flight recorder: records a worker's progress, heartbeat and last 256 collectives in memory that outlives
// the process. The record has a fixed layout (a header and 256 slots), so a supervisor can read it while the
// worker runs and after it was killed.
//
// The record is a memory file (memfd) that cannot shrink and whose pages are reserved at its creation, so
// neither a full disk nor a truncation makes a write raise SIGBUS. The path is a link to that file as long as
// the process lives. A reader that has it open can still read it afterwards (FlightReader). At the end the
// process or its supervisor replaces the link by a plain file (keep). `trainrun flight PATH` prints both.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/mesh/deadline.h"
#include "core/mesh/group.h"

namespace lockstep::distributed {

inline constexpr int kFlightRanks = 65536;  // of a group; a record with more is damaged

enum class FlightState : uint32_t { empty, started, done, failed };
std::string_view name(FlightState state);

// Identifies a group across processes. `key` is equal on its members. It differs between the groups of one
// mesh dim, and between groups of the same ranks from different splits (`instance`).
struct GroupIdentity {
  std::string name;
  uint64_t key = 0;
  int rank = 0;
  int size = 1;
};
// The identity of the group with these world ranks, for its rank `rank`.
GroupIdentity identify_group(const std::string& name, const std::vector<int>& world_ranks, int rank,
                             uint64_t instance = 0);

// A collective's position among those of its group. `site` is a hash of the properties that must be equal on
// all ranks (verb, label, dtype, reduction, root, counts). `trail` is a hash of all sites so far: if two
// ranks have the same number but different trails, they started different collectives.
struct SitePlace {
  int64_t number = -1;           // from 0; -1 for send and recv
  uint64_t site = 0, trail = 0;  // 0: not known
};
class SiteTrail {
 public:
  // Places in the order in which collectives are started. Thread-safe.
  SitePlace next(const Collective& what, const std::string& label);

 private:
  std::mutex mutex_;
  int64_t number_ = 0;
  uint64_t trail_ = 0;
};

// One collective as recorded. Times are nanoseconds of the host's steady clock, comparable between the
// processes of one host.
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
  uint64_t site = 0, trail = 0;  // of SitePlace
  int64_t count = -1;            // elements; the sum if there are several counts; -1: not known
  int dtype = -1, op = -1;       // of DType and ReduceOp; -1: none
};
// "all_reduce "loss" (f32, 4 elements, sum)", as far as the record knows.
std::string site_text(const FlightEntry& entry);

struct WorkerProgress {
  int rank = 0;
  int64_t pid = 0;
  int64_t step = -1;       // -1 before the first step
  int64_t op = -1;         // id of the node or phase that the worker last entered
  std::string phase;       // "compile", "step", "save", ...; cut to 31 bytes
  int64_t updated_ns = 0;  // steady clock
  int64_t beat_ns = 0;     // steady clock; the last heartbeat, 0: there is none
  int64_t cpu_ns = 0;      // processor time of the process at that heartbeat
  Pace pace = Pace::start;
  uint64_t events = 0;                             // does not change while the worker records nothing new
  int64_t busy_ns = 0, busy_steps = 0, share = 0;  // see FlightRecorder::worked
};

struct FlightLog {
  WorkerProgress progress;
  std::vector<FlightEntry> entries;  // oldest first, at most kFlightSlots
};

// Writer: one per process. Calls are lock-free stores into mapped memory; any thread may call them.
class FlightRecorder {
 public:
  // Creates or replaces the record at `path` (its folder must exist). Throws UserError, naming the path, and
  // the bytes if they cannot be reserved. `copied`: the reader is on another host, so `path` is a plain file,
  // which the heartbeat thread rewrites once a second, and not a link.
  FlightRecorder(const std::string& path, int rank, bool copied = false);
  ~FlightRecorder();  // keeps
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Starts the heartbeat thread, which writes the time into the record five times a second as long as the
  // recorder exists. A stopped process has no heartbeat; one that computes, waits or spins has. The thread
  // calls `beside` after each copy; it must not throw.
  void start_heart(std::function<void()> beside = {});
  void progress(int64_t step, int64_t op);
  void phase(std::string_view phase);
  void pace(Pace pace);
  // Records a step that took `seconds`, of which this rank waited `waited` for others. Its own work is the
  // rest, or, if longer, the time for which its heartbeat was delayed (stopped, frozen, without a core): a
  // rank that is stopped in a wait makes the others wait. `share`: its part of the work in micro-batches; 0
  // if all parts are equal. Returns its own work in seconds.
  double worked(double seconds, double waited, int64_t share);
  // Adds to the seconds that this rank's host has waited for collectives, and records the sum.
  void waited(double seconds);
  double waited() const;
  uint64_t started(const GroupIdentity& group, int64_t group_seq, std::string_view verb,
                   std::string_view label, int64_t bytes);
  uint64_t started(const GroupIdentity& group, const SitePlace& place, const Collective& what,
                   std::string_view label);
  void ended(uint64_t seq, FlightState state);  // ignored if a later collective has taken the slot
  const std::string& path() const;
  // Replaces the link at `path` by a plain file with the current record. Does nothing if that cannot be
  // written.
  void keep() const;

 private:
  struct Mapped;
  std::unique_ptr<Mapped> mapped_;
};

// The recorder that every Group of this process reports to; null: none.
void set_flight_recorder(std::shared_ptr<FlightRecorder> recorder);
// The recorder of the calling thread, if it has one; else that of the process.
std::shared_ptr<FlightRecorder> flight_recorder();
// Sets the recorder of the calling thread only, where ranks are threads of one process. Null: that of the
// process.
void set_thread_flight_recorder(std::shared_ptr<FlightRecorder> recorder);
// Sets the pace of the process (core/mesh/deadline.h) and writes it into the record.
void enter_pace(Pace pace);

// Flight: the record of one collective in flight. The constructor records the start and end() the end, in
// flight_recorder() if there is one.
class Flight {
 public:
  Flight() = default;
  Flight(const GroupIdentity& group, const SitePlace& place, const Collective& what, std::string_view label);
  // The same with a given recorder (null: none), for a thread that is not the rank's own.
  Flight(const GroupIdentity& group, const SitePlace& place, const Collective& what, std::string_view label,
         std::shared_ptr<FlightRecorder> recorder);
  // For an operation other than a single collective, such as the launch of a captured graph with many.
  Flight(const GroupIdentity& group, int64_t group_seq, std::string_view verb, std::string_view label,
         int64_t bytes);
  void end(FlightState state);  // the first call counts

 private:
  std::shared_ptr<FlightRecorder> recorder_;
  uint64_t seq_ = 0;
};

// The log with all its times moved by `ns`: from the clock of the host that wrote it to the reader's.
FlightLog moved(FlightLog log, int64_t ns);

// An open record; its content stays readable after its process has died.
class FlightReader {
 public:
  // Throws UserError, naming the path, if there is no file, or it is damaged or not a flight record of this
  // version. Never blocks.
  explicit FlightReader(const std::string& path);
  ~FlightReader();
  FlightReader(FlightReader&& other) noexcept;
  FlightReader& operator=(FlightReader&& other) noexcept;

  WorkerProgress progress() const;  // UserError as above
  FlightLog log() const;
  // Replaces a link at the path by a plain file, for later readers. Does nothing if there is no link, or if
  // that cannot be written.
  void keep() const;

 private:
  std::string path_;
  int fd_ = -1;
};
WorkerProgress read_progress(const std::string& path);
FlightLog read_flight_log(const std::string& path);

// A table for people: the progress line, then one line per collective with its age or its duration in ms.
std::string text(const FlightLog& log);

// Nanoseconds of the steady clock, the clock of every time above.
int64_t flight_clock_ns();

}  // namespace lockstep::distributed
