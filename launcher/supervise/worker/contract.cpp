// Reads a worker's environment; writes and reads the error records of an attempt.
#include "launcher/supervise/worker/contract.h"

#include <fcntl.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <filesystem>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/files/private_file.h"
#include "core/reading/json_text.h"

namespace lockstep::launcher {

namespace {
bool has(const char* name) { return std::getenv(name) != nullptr; }

int64_t number(const char* name) {
  const char* text = std::getenv(name);
  char* end = nullptr;
  int64_t value = text ? std::strtoll(text, &end, 10) : 0;
  bool whole = text && end != text && (*end == '\0' || *end == '(' || *end == ',');  // Slurm: "4(x2),3"
  if (!whole)
    throw UserError(str("environment: ", name, " is ", text ? str('"', text, '"') : "not set",
                        "; it must be a number (start with trainrun, mpirun or srun)"));
  return value;
}
}  // namespace

WorkerPlace worker_place() {
  WorkerPlace at;
  if (has("OMPI_COMM_WORLD_RANK")) {
    at.rank = number("OMPI_COMM_WORLD_RANK"), at.world_size = number("OMPI_COMM_WORLD_SIZE");
    at.local_rank = number("OMPI_COMM_WORLD_LOCAL_RANK"),
    at.local_world_size = number("OMPI_COMM_WORLD_LOCAL_SIZE");
  } else if ((has("PMIX_RANK") || has("PMI_RANK")) && has("SLURM_STEP_NUM_TASKS")) {
    at.rank = number(has("PMIX_RANK") ? "PMIX_RANK" : "PMI_RANK"),
    at.world_size = number("SLURM_STEP_NUM_TASKS");
    at.local_rank = number("SLURM_LOCALID"), at.local_world_size = number("SLURM_STEP_TASKS_PER_NODE");
  } else if (has("RANK") || has("WORLD_SIZE")) {
    at.rank = number("RANK"), at.world_size = number("WORLD_SIZE");
    at.local_rank = has("LOCAL_RANK") ? number("LOCAL_RANK") : at.rank;
    at.local_world_size = has("LOCAL_WORLD_SIZE") ? number("LOCAL_WORLD_SIZE") : at.world_size;
  }
  if (at.rank < 0 || at.rank >= at.world_size)
    throw UserError(str("environment: rank ", at.rank, " is not below the world size ", at.world_size,
                        "; check RANK and WORLD_SIZE"));
  if (at.local_rank < 0 || at.local_rank >= at.local_world_size || at.local_world_size > at.world_size)
    throw UserError(str("environment: local rank ", at.local_rank, " of ", at.local_world_size,
                        " on this host contradicts a world of ", at.world_size,
                        "; check LOCAL_RANK and LOCAL_WORLD_SIZE"));
  at.run_dir = env("LOCKSTEP_RUN_DIR");
  at.log_dir = env("LOCKSTEP_LOG_DIR");
  at.memory_dir = env("LOCKSTEP_MEMORY_FOLDER");
  at.restart = has("LOCKSTEP_RESTART") ? number("LOCKSTEP_RESTART") : 0;
  return at;
}

void export_place(const WorkerPlace& at) {
  setenv("RANK", str(at.rank).c_str(), 1);
  setenv("WORLD_SIZE", str(at.world_size).c_str(), 1);
  setenv("LOCAL_RANK", str(at.local_rank).c_str(), 1);
  setenv("LOCAL_WORLD_SIZE", str(at.local_world_size).c_str(), 1);
}

namespace {
Json record_json(const ErrorRecord& record, const std::string& message) {
  Json out = {{"rank", record.rank},
              {"kind", record.kind},
              {"message", message},
              {"step", record.step},
              {"time_ns", record.time_ns}};
  if (record.wrong)
    out["wrong"] = {{"ranks", record.wrong->ranks},
                    {"leave_out", record.wrong->leave_out},
                    {"devices", record.wrong->devices}};
  return out;
}
std::optional<WrongRanks> wrong_of(const Json& record) {
  if (!record.contains("wrong")) return {};
  const Json& json = record["wrong"];
  return WrongRanks{json.value("ranks", std::vector<int64_t>()), json.value("leave_out", false),
                    json.value("devices", std::string())};
}
// nullopt when a field has another type: the file is not an error record.
std::optional<ErrorRecord> record_of(const Json& json, int64_t ticket) try {
  if (!json.is_object()) return {};
  for (const char* key : {"rank", "step", "time_ns"})
    if (json.contains(key) && !json[key].is_number_integer()) return {};
  return ErrorRecord{json.value("rank", int64_t{0}),
                     json.value("kind", std::string("InternalError")),
                     json.value("message", std::string()),
                     json.value("step", int64_t{-1}),
                     json.value("time_ns", int64_t{0}),
                     ticket,
                     wrong_of(json)};
} catch (const Json::exception&) { return {}; }
std::string dumped(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

constexpr int64_t kMostRecords = 1000000;  // limit for writing and reading
// Unlikely to occur in a log by accident.
constexpr std::string_view kRecordTag = "\x1elockstep error record ";
}  // namespace

int64_t write_error_record(const std::string& log_dir, const ErrorRecord& record) {
  std::string draft = str(log_dir, "/error.rank-", record.rank, ".", getpid());
  Descriptor fd = create_private(draft);
  if (!fd) return 0;
  bool whole = write_fully(fd.get(), dumped(record_json(record, record.message), 1) + "\n") == 0;
  int64_t ticket = 0;
  for (int64_t t = 1; whole && t <= kMostRecords; ++t) {
    if (link(draft.c_str(), str(log_dir, "/error-", t, ".json").c_str()) == 0) {
      ticket = t;
      break;
    }
    if (errno != EEXIST) break;
  }
  unlink(draft.c_str());
  return ticket;
}

std::string error_record_line(const ErrorRecord& record) {
  std::string message = record.message, line;
  do {
    line = str(kRecordTag, dumped(record_json(record, message), -1), "\n");
    message.resize(message.size() / 4 * 3);
  } while (line.size() > PIPE_BUF && !message.empty());
  return line;
}

std::optional<ErrorRecord> parse_error_record_line(const std::string& line, std::string* before) {
  size_t tag = line.find(kRecordTag);
  if (tag == std::string::npos) return {};
  Json json = bounded_json(line.substr(tag + kRecordTag.size()));
  std::optional<ErrorRecord> out = record_of(json, 0);
  if (out && before) *before = line.substr(0, tag);
  return out;
}

std::vector<ErrorRecord> read_error_records(const std::string& log_dir) {
  std::vector<ErrorRecord> out;
  for (int64_t ticket = 1;; ++ticket) {
    if (ticket > kMostRecords) return out;
    const PlainFile there = open_plain(str(log_dir, "/error-", ticket, ".json"));
    // If a FIFO or folder has the name, the next ticket may still be a record. After any other failure
    // (missing, no descriptor, no permission) every later name would fail the same way.
    if (there.code == EINVAL || there.code == EISDIR) continue;
    if (!there.fd) return out;
    if (there.bytes > kJsonBytes) continue;  // unreadable or not a record: skipped
    std::string text(static_cast<size_t>(there.bytes), '\0');
    const int64_t bytes = read_fully(there.fd.get(), text.data(), text.size(), 0);
    if (bytes < 0) continue;
    text.resize(static_cast<size_t>(bytes));  // it may have been truncated since
    if (auto record = record_of(bounded_json(text), ticket)) out.push_back(std::move(*record));
  }
}

std::string rank_log_file(const std::string& log_dir, int64_t rank) {
  return str(log_dir, "/rank-", rank, ".log");
}
std::string worker_file(const std::string& log_dir, int64_t rank) {
  return str(log_dir, "/worker-", rank, ".json");
}
std::string stopped_file(const std::string& log_dir, int64_t rank) { return str(log_dir, "/stopped-", rank); }
std::string stop_file(const std::string& log_dir) { return log_dir + "/stop"; }
std::string regroup_file(const std::string& log_dir) { return log_dir + "/regroup"; }
std::string progress_file(const std::string& log_dir, int64_t rank) {
  return str(log_dir, "/progress-", rank);
}
std::string links_file(const std::string& log_dir, int64_t rank) { return str(log_dir, "/links-", rank); }

}  // namespace lockstep::launcher
