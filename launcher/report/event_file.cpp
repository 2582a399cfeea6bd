// Writes TensorBoard event files, with fields by their numbers in event.proto and summary.proto.
#include "launcher/report/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <climits>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/reading/whole_number.h"

namespace lockstep::launcher {

namespace {
constexpr std::string_view kPrefix = "events.out.tfevents.";

constexpr std::array<uint32_t, 256> castagnoli_table() {
  std::array<uint32_t, 256> out{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t rest = i;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ (rest & 1 ? 0x82f63b78u : 0u);
    out[i] = rest;
  }
  return out;
}

// Little-endian integers and floats.
template <class T>
std::string little_endian(T value) {
  std::string out(sizeof(T), '\0');
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    return little_endian(std::bit_cast<Bits>(value));
  } else {
    for (size_t i = 0; i < sizeof(T); ++i) out[i] = static_cast<char>(value >> (8 * i));
    return out;
  }
}
std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

// A field of a message: its number and wire type, then its value.
enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
std::string key(int number, Wire wire) {
  return varint(static_cast<uint64_t>(number) << 3 | static_cast<uint64_t>(wire));
}
std::string number_field(int number, int64_t value) {
  return key(number, Wire::varint) + varint(static_cast<uint64_t>(value));
}
std::string double_field(int number, double value) {
  return key(number, Wire::fixed64) + little_endian(value);
}
std::string float_field(int number, float value) { return key(number, Wire::fixed32) + little_endian(value); }
std::string bytes_field(int number, const std::string& value) {
  return key(number, Wire::bytes) + varint(value.size()) + value;
}

// event.proto: Event {double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5;
// SessionLog session_log = 7}; SessionLog {SessionStatus status = 1}; START = 1.
std::string event(double seconds, int64_t step) {
  return double_field(1, seconds) + (step ? number_field(2, step) : std::string());
}
double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The number in the name of the newest event file of a folder; 0: it has none.
int64_t newest_in(const std::string& folder) {
  int64_t out = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    const std::string number = name.substr(kPrefix.size(), name.find('.', kPrefix.size()) - kPrefix.size());
    out = std::max(out, whole_number(number).value_or(0));
  }
  return out;
}
std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "host";
}
}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr auto table = castagnoli_table();
  uint32_t out = ~uint32_t{0};
  for (char c : bytes) out = (out >> 8) ^ table[(out ^ static_cast<uint8_t>(c)) & 0xff];
  return ~out;
}
uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

std::string event_record(std::string_view event) {
  const std::string length = little_endian(static_cast<uint64_t>(event.size()));
  return str(length, little_endian(masked_crc32c(length)), event, little_endian(masked_crc32c(event)));
}

std::string tag_of(const std::string& name) {
  for (const char* norms : {"grad_norm.", "weight_norm."})
    if (name.starts_with(norms)) {
      std::string tag = name;
      tag[std::strlen(norms) - 1] = '/';
      return tag;
    }
  const bool pace = name.ends_with("_ms") || name.ends_with("_per_s") || name.starts_with("busy_ms") ||
                    name == "slowest_rank";
  return str(pace ? "pace/" : name.starts_with("val_") ? "validation/" : "train/", name);
}

std::string file_version_event(double seconds) { return event(seconds, 0) + bytes_field(3, "brain.Event:2"); }
std::string start_event(double seconds, int64_t step) {
  return event(seconds, step) + bytes_field(7, number_field(1, 1));
}
// summary.proto: Summary {repeated Value value = 1}; Value {string tag = 1; float simple_value = 2}.
std::string scalars_event(double seconds, const MetricsRow& row) {
  std::string summary;
  for (const auto& [name, value] : row.numbers())
    summary += bytes_field(1, bytes_field(1, tag_of(name)) + float_field(2, static_cast<float>(value)));
  return event(seconds, row.step()) + bytes_field(5, summary);
}

EventWriter::EventWriter(const std::string& folder, int64_t resume_step) {
  const double now = seconds_now();
  const std::string number = str(std::max(static_cast<int64_t>(now), newest_in(folder) + 1));
  path_ = str(folder, "/", kPrefix, std::string(10 - std::min<size_t>(10, number.size()), '0'), number, ".",
              host_name(), ".", getpid());
  PlainFile file = create_plain(path_);
  if (!file.fd) throw UserError(str("cannot write ", path_, ": ", file.why));
  file_ = std::move(file.fd);
  const int code =
      append(event_record(file_version_event(now)) + event_record(start_event(now, resume_step + 1)));
  if (code) throw UserError(str("cannot write ", path_, ": ", std::strerror(code)));
}

EventWriter::~EventWriter() {
  if (lost_)
    logs::warn(str(path_, ": ", lost_, lost_ == 1 ? " row of this run is" : " rows of this run are",
                   " not in it; metrics.jsonl has what it could take"));
}

int EventWriter::append(const std::string& record) {
  const int code = write_fully(file_.get(), record);
  if (!code) {
    bytes_ += static_cast<int64_t>(record.size());
  } else if (ftruncate(file_.get(), bytes_) == 0) {
    lseek(file_.get(), bytes_, SEEK_SET);
  }
  return code;
}

void EventWriter::write(const MetricsRow& row) {
  const int code = append(event_record(scalars_event(seconds_now(), row)));
  if (!code) return;
  if (!lost_++)
    logs::warn(str("cannot write ", path_, ": ", std::strerror(code),
                   "; the run goes on, and this row is in metrics.jsonl alone"));
}

}  // namespace lockstep::launcher
