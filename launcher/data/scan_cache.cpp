// Entries of the cache: one small file per data file, locked while it is made.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "core/base/hash.h"
#include "core/base/json_text.h"
#include "core/base/plain_file.h"
#include "core/base/private_file.h"
#include "core/base/trusted_path.h"
#include "launcher/data/scan.h"

namespace lockstep::launcher::data {

namespace {
// A file written within the last moments may be written again with the same times: what was found of it is
// not kept.
constexpr int64_t kTooYoung_ns = 2'000'000'000;
// How long another process may read the file before this one does too.
constexpr auto kPatience = std::chrono::seconds(600);

Json key_of(const Source& source, const ScanPlan& plan) {
  const FileStamp& stamp = source.bytes.stamp();
  std::error_code none;
  return {{"path", std::filesystem::canonical(source.path, none).string()},
          {"device", stamp.device},
          {"inode", stamp.inode},
          {"bytes", stamp.bytes},
          {"written_ns", stamp.written_ns},
          {"changed_ns", stamp.changed_ns},
          {"width", source.width},
          {"stride", plan.stride}};
}
std::string dumped(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

// The entry's second line is the hash of its first, so that a torn one reads as none.
std::optional<Scan> entry_of(int fd, const Json& key) {
  std::string text(65536, '\0');
  const int64_t got = read_fully(fd, text.data(), text.size(), 0);
  if (got <= 0) return {};
  text.resize(got);
  const size_t end = text.find('\n');
  if (end == std::string::npos || text.substr(end + 1) != hash_hex(text.substr(0, end)) + "\n") return {};
  Json json = bounded_json(text.substr(0, end));
  if (!json.is_object() || !json.contains("key") || json["key"] != key) return {};
  return Scan{json.value("content", uint64_t{0}), json.value("largest", uint32_t{0}),
              json.value("at", int64_t{0})};
}

void keep(int fd, const Json& key, const Scan& found) {
  const std::string line =
      dumped({{"key", key}, {"content", found.content}, {"largest", found.largest}, {"at", found.at}});
  if (::ftruncate(fd, 0) != 0 || ::lseek(fd, 0, SEEK_SET) != 0) return;
  if (write_fully(fd, line + "\n" + hash_hex(line) + "\n") != 0 && ::ftruncate(fd, 0) != 0)
    return;  // a full disk: nothing is kept
}

bool too_young(const FileStamp& stamp) {
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  return now - std::max(stamp.written_ns, stamp.changed_ns) < kTooYoung_ns;
}

// Waits for whoever makes the entry. False when that takes too long, or where the file system has no locks.
bool locked(int fd) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}
}  // namespace

Scan scan_once(const Source& source, const ScanPlan& plan, const std::string& folder, int64_t& read) {
  auto now = [&] {
    read += plan.stride ? (source.bytes.size() / plan.stride + 1) * kScanBlock : source.bytes.size();
    return scan(source, plan);
  };
  if (folder.empty()) return now();
  const Json key = key_of(source, plan);
  TrustedOpen at = open_trusted_folder(folder, true);
  if (!at) return now();
  Descriptor entry = open_private(hash_hex(dumped({key["path"], key["stride"], key["width"]})) + ".json",
                                  O_RDWR, at.file.get());
  struct stat info{};
  if (!entry || ::fstat(entry.get(), &info) != 0 || info.st_uid != ::geteuid() || (info.st_mode & 022))
    return now();
  const bool mine = locked(entry.get());
  if (mine)
    if (auto kept = entry_of(entry.get(), key)) return *kept;
  Scan found = now();
  if (mine && !too_young(source.bytes.stamp()) && !source.bytes.changed()) keep(entry.get(), key, found);
  return found;
}

}  // namespace lockstep::launcher::data
