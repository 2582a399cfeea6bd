// Flight recorder: the progress word of a worker, its heartbeat and its last 256 collectives, in memory that
// outlives the process. The record has a fixed layout (a header and 256 slots), so a supervisor reads it
// while the worker runs, and after it was killed.
//
// It lies in a memory file (memfd) that cannot shrink, and is reserved when it is made: no full disk and no
// truncation makes a write into it SIGBUS. Its path is a link to that file, as long as its process lives; who
// has it open reads it afterwards too (FlightReader), and the process or its supervisor turns the link into a
// plain file at the end (keep). `trainrun flight PATH` prints both.
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

inline constexpr int kFlightRanks = 65536;  // of a group; a record that speaks of more is damaged

enum class FlightState : uint32_t { empty, started, done, failed };
std::string_view name(FlightState state);

// What names a group across processes: `key` is equal on its members and differs between the groups of one
// mesh dim, and between groups of the same ranks that were made by different splits (`instance`).
struct GroupIdentity {
  std::string name;
  uint64_t key = 0;
  int rank = 0;
  int size = 1;
};
// The identity of the group whose members have these world ranks, seen from its rank `rank`.
GroupIdentity identify_group(const std::string& name, const std::vector<int>& world_ranks, int rank,
                             uint64_t instance = 0);

// A collective's place among those of its group. `site` is a hash of what all ranks must have alike (verb,
// label, dtype, reduction, root, counts), `trail` one of all sites up to here: where two ranks have the same
// number and another trail, they did not start the same.
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
  int64_t count = -1;            // elements; the sum of the counts where there are several; -1: not known
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
  int64_t beat_ns = 0;     // steady clock; when the heart last beat, 0: there is none
  int64_t cpu_ns = 0;      // processor time of the process at that beat
  Pace pace = Pace::start;
  uint64_t events = 0;                             // as long as it stands still, the worker says nothing new
  int64_t busy_ns = 0, busy_steps = 0, share = 0;  // see FlightRecorder::worked
};

struct FlightLog {
  WorkerProgress progress;
  std::vector<FlightEntry> entries;  // oldest first, at most kFlightSlots
};

// Writer: one per process. Calls are lock-free stores into mapped memory; any thread may call them.
class FlightRecorder {
 public:
  // Creates or replaces the record at `path` (its folder must exist). UserError naming the path, and the
  // bytes that could not be reserved. `copied`: who reads it is on another host, so `path` is no link but a
  // plain file, which the heart writes anew once a second.
  FlightRecorder(const std::string& path, int rank, bool copied = false);
  ~FlightRecorder();  // keeps
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Starts the thread that writes the time into the record five times a second, until the recorder goes. A
  // process that is stopped beats no more; one that computes, waits or spins does. `beside` is called in that
  // thread after each copy, and throws nothing.
  void start_heart(std::function<void()> beside = {});
  void progress(int64_t step, int64_t op);
  void phase(std::string_view phase);
  void pace(Pace pace);
  // One more step has ended after `seconds`, in `waited` of which this rank waited for others. Its own work
  // is the rest, or the time in which its heart wanted to beat and could not (stopped, frozen, without a
  // core) where that is more, since a rank that is stopped in a wait keeps the others waiting. `share`: its
  // part of the work, in micro-batches; 0 where ranks share alike. Returns its own work in seconds.
  double worked(double seconds, double waited, int64_t share);
  // Adds to the seconds that the host of this rank has waited for collectives, and tells their sum.
  void waited(double seconds);
  double waited() const;
  uint64_t started(const GroupIdentity& group, int64_t group_seq, std::string_view verb,
                   std::string_view label, int64_t bytes);
  uint64_t started(const GroupIdentity& group, const SitePlace& place, const Collective& what,
                   std::string_view label);
  void ended(uint64_t seq, FlightState state);  // ignored when the slot has been taken by a later collective
  const std::string& path() const;
  // Turns the link at `path` into a plain file of what the record holds now. Does nothing where that cannot
  // be written.
  void keep() const;

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
// Sets the pace of the process (core/mesh/deadline.h), and says so in the record.
void enter_pace(Pace pace);

// Token of one collective: records the start when built and the end when told, into flight_recorder() if
// there is one.
class Flight {
 public:
  Flight() = default;
  Flight(const GroupIdentity& group, const SitePlace& place, const Collective& what, std::string_view label);
  // The same into a given recorder (null: none), where another thread than the rank's own records.
  Flight(const GroupIdentity& group, const SitePlace& place, const Collective& what, std::string_view label,
         std::shared_ptr<FlightRecorder> recorder);
  // Of something that is no single collective, such as the launch of a captured graph that holds many.
  Flight(const GroupIdentity& group, int64_t group_seq, std::string_view verb, std::string_view label,
         int64_t bytes);
  void end(FlightState state);  // the first call counts

 private:
  std::shared_ptr<FlightRecorder> recorder_;
  uint64_t seq_ = 0;
};

// The log with all its times moved by `ns`: from the clock of the host that wrote it to the reader's.
FlightLog moved(FlightLog log, int64_t ns);

// A record that is open: what its process held in it when it died is still there.
class FlightReader {
 public:
  // UserError naming the path when there is nothing, or something that is damaged or no flight record of this
  // version. Never blocks.
  explicit FlightReader(const std::string& path);
  ~FlightReader();
  FlightReader(FlightReader&& other) noexcept;
  FlightReader& operator=(FlightReader&& other) noexcept;

  WorkerProgress progress() const;  // UserError as above
  FlightLog log() const;
  // Turns a link at the path into a plain file, for those who come later; nothing where there is no link, or
  // where that cannot be written.
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
