// Readers of the flight record: progress, the list of collectives, and a table for people.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "distributed/watch/flight_file.h"
#include "distributed/watch/flight_record.h"
#include "distributed/watch/kept_record.h"

namespace lockstep::distributed {

namespace {
// Text of a record is printed to terminals, so characters other than printable ASCII are replaced.
template <size_t n>
std::string get_text(const char (&text)[n]) {
  std::string out(text, strnlen(text, n));
  for (char& c : out)
    if (c < ' ' || c > '~') c = '?';
  return out;
}

// A copy of the record's first `bytes` bytes. It is read and not mapped, so a file that shrinks gives fewer
// bytes and no SIGBUS.
struct Copy {
  std::unique_ptr<FlightFile> file = std::make_unique<FlightFile>();
  Copy(int fd, const std::string& path, size_t bytes) {
    size_t got = 0;
    while (got < bytes) {
      const ssize_t n =
          pread(fd, reinterpret_cast<char*>(file.get()) + got, bytes - got, static_cast<off_t>(got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0)
        throw UserError(str("flight record ", path, " cannot be read: ", std::strerror(errno),
                            "; check its permissions"));
      if (n == 0)
        throw UserError(str("flight record ", path, " has ", got, " bytes instead of ", sizeof(FlightFile),
                            "; it is not a flight record of this version"));
      got += n;
    }
    if (file->magic.load() != kFlightMagic || file->version != kFlightVersion ||
        file->slot_count != kFlightSlots)
      throw UserError(str("flight record ", path, " is not one of version ", kFlightVersion,
                          "; it was written by another program or not yet begun"));
  }
};

WorkerProgress get_progress(const FlightFile& file) {
  WorkerProgress out;
  out.rank = file.rank;
  out.pid = file.pid;
  out.updated_ns = file.updated_ns;
  out.step = file.step;
  out.op = file.op;
  out.phase = get_text(file.phase);
  out.beat_ns = file.beat_ns;
  out.cpu_ns = file.cpu_ns;
  out.pace = file.pace == static_cast<uint32_t>(Pace::steps) ? Pace::steps : Pace::start;
  out.events = file.events;
  out.busy_ns = file.busy_ns;
  out.busy_steps = file.busy_steps;
  out.share = file.share;
  return out;
}

// Whether a slot has values that a recorder can write: a damaged file must not control the loops and tables
// of readers.
bool is_sound(const FlightEntry& entry) {
  return entry.state <= FlightState::failed && entry.group.size > 0 && entry.group.size <= kFlightRanks &&
         entry.group.rank >= 0 && entry.group.rank < entry.group.size;
}

// The time from one point to another as text; times of a damaged file may differ by more than an int64_t
// represents.
std::string ms(int64_t to_ns, int64_t from_ns) {
  char out[32];
  std::snprintf(out, sizeof out, "%.3f", (static_cast<double>(to_ns) - static_cast<double>(from_ns)) * 1e-6);
  return out;
}
}  // namespace

FlightReader::FlightReader(const std::string& path) : path_(path) {
  fd_ = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd_ < 0)
    throw UserError(
        str("flight record ", path, ": ", std::strerror(errno), "; a worker writes it when it starts"));
  struct stat about{};
  if (fstat(fd_, &about) != 0 || !S_ISREG(about.st_mode) ||
      about.st_size != static_cast<off_t>(sizeof(FlightFile))) {
    close(fd_);
    const std::string what = S_ISREG(about.st_mode)
                                 ? str("has ", about.st_size, " bytes instead of ", sizeof(FlightFile))
                                 : "is no file";
    throw UserError(str("flight record ", path, " ", what, "; it is not a flight record of this version"));
  }
}
FlightReader::~FlightReader() {
  if (fd_ >= 0) close(fd_);
}
FlightReader::FlightReader(FlightReader&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
FlightReader& FlightReader::operator=(FlightReader&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

WorkerProgress FlightReader::progress() const {
  return get_progress(*Copy(fd_, path_, offsetof(FlightFile, slots)).file);
}

FlightLog FlightReader::log() const {
  const Copy copy(fd_, path_, sizeof(FlightFile));
  FlightLog log{get_progress(*copy.file), {}};
  for (const FlightSlot& slot : copy.file->slots) {
    FlightEntry entry;
    entry.seq = slot.seq;
    if (entry.seq == 0 || slot.seq_again != entry.seq) continue;
    entry.group = {get_text(slot.group), slot.group_key, slot.group_rank, slot.group_size};
    entry.group_seq = slot.group_seq;
    entry.verb = get_text(slot.verb);
    entry.label = get_text(slot.label);
    entry.bytes = slot.bytes;
    entry.start_ns = slot.start_ns;
    entry.state = static_cast<FlightState>(slot.state.load());
    entry.end_ns = slot.end_ns;
    entry.site = slot.site;
    entry.trail = slot.trail;
    entry.count = slot.count;
    entry.dtype = slot.dtype == 255 ? -1 : slot.dtype;
    entry.op = slot.op == 255 ? -1 : slot.op;
    if (!is_sound(entry))
      throw UserError(str("flight record ", path_, " is damaged: collective ", entry.seq, " has state ",
                          static_cast<uint32_t>(entry.state), " and rank ", entry.group.rank, " of ",
                          entry.group.size, "; the next attempt writes a new one"));
    log.entries.push_back(std::move(entry));
  }
  std::sort(log.entries.begin(), log.entries.end(),
            [](const auto& a, const auto& b) { return a.seq < b.seq; });
  return log;
}

FlightLog moved(FlightLog log, int64_t ns) {
  auto move = [ns](int64_t& time) {
    if (time != 0) time += ns;
  };
  move(log.progress.updated_ns), move(log.progress.beat_ns);
  for (FlightEntry& entry : log.entries) move(entry.start_ns), move(entry.end_ns);
  return log;
}

void FlightReader::keep() const {
  std::error_code none;
  if (!std::filesystem::is_symlink(path_, none)) return;
  try {
    const Copy copy(fd_, path_, sizeof(FlightFile));
    write_kept_record(path_, copy.file.get(), sizeof(FlightFile));
  } catch (const UserError&) {}  // a dangling link is treated like a missing file
}

WorkerProgress read_progress(const std::string& path) { return FlightReader(path).progress(); }
FlightLog read_flight_log(const std::string& path) { return FlightReader(path).log(); }

std::string site_text(const FlightEntry& entry) {
  std::vector<std::string> details;
  if (entry.dtype >= 0 && entry.dtype <= static_cast<int>(DType::boolean))
    details.push_back(std::string(name(static_cast<DType>(entry.dtype))));
  if (entry.count >= 0) details.push_back(str(entry.count, " elements"));
  if (entry.op >= 0 && entry.op <= static_cast<int>(ReduceOp::min))
    details.push_back(std::string(name(static_cast<ReduceOp>(entry.op))));
  return str(entry.verb, " \"", entry.label, "\"",
             details.empty() ? "" : str(" (", join(details, ", "), ")"));
}

std::string text(const FlightLog& log) {
  int64_t now = flight_clock_ns();
  const WorkerProgress& at = log.progress;
  std::string out = str("rank ", at.rank, " (pid ", at.pid, "): step ", at.step, ", op ", at.op,
                        at.phase.empty() ? "" : ", phase ", at.phase, ", ", ms(now, at.updated_ns), " ms ago",
                        at.beat_ns ? str(", last heartbeat ", ms(now, at.beat_ns), " ms ago") : "", "\n");
  for (const FlightEntry& e : log.entries) {
    std::string group_seq = e.group_seq < 0 ? "-" : str(e.group_seq);
    bool flying = e.state == FlightState::started;
    out += str("  ", e.seq, "  ", e.group.name, "[", e.group.rank, "/", e.group.size, "] #", group_seq, "  ",
               site_text(e), "  ", e.bytes, " bytes  ", name(e.state), "  ",
               flying ? str("for ", ms(now, e.start_ns)) : ms(e.end_ns, e.start_ns), " ms\n");
  }
  return out;
}

}  // namespace lockstep::distributed
