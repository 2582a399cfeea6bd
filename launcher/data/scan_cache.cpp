// The scan cache: one small file per data file, locked while it is made.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "core/base/hash.h"
#include "core/files/plain_file.h"
#include "core/files/private_file.h"
#include "core/files/trusted_path.h"
#include "core/reading/json_text.h"
#include "launcher/data/cache_lock.h"
#include "launcher/data/scan.h"

namespace lockstep::launcher::data {

namespace {
Json key_of(const Source& source, const ScanPlan& plan) {
  const FileStamp& stamp = source.bytes.stamp();
  return {{"path", real_path_of(source.path)},
          {"device", stamp.device},
          {"inode", stamp.inode},
          {"bytes", stamp.bytes},
          {"written_ns", stamp.written_ns},
          {"changed_ns", stamp.changed_ns},
          {"width", source.width},
          {"stride", plan.stride}};
}
std::string dumped(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

// The entry's second line is the hash of the first, so that a torn entry is ignored.
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
    return;  // for example a full disk: nothing is cached
}
}  // namespace

Scan scan_once(const Source& source, const ScanPlan& plan, const std::string& folder, int64_t& read) {
  auto now = [&] {
    read += plan.stride ? (source.bytes.size() / plan.stride + 1) * kScanBlock : source.bytes.size();
    return scan(source, plan);
  };
  if (folder.empty() || source.bytes.stamp().inode == 0) return now();  // in-memory bytes are not a file
  const Json key = key_of(source, plan);
  TrustedOpen at = open_trusted_folder(folder, true);
  if (!at) return now();
  Descriptor entry = open_private(hash_hex(dumped({key["path"], key["stride"], key["width"]})) + ".json",
                                  O_RDWR, at.file.get());
  struct stat info{};
  if (!entry || ::fstat(entry.get(), &info) != 0 || info.st_uid != ::geteuid() || (info.st_mode & 022))
    return now();
  const bool mine = lock_entry(entry.get());
  if (mine)
    if (auto kept = entry_of(entry.get(), key)) return *kept;
  Scan found = now();
  if (mine && !too_young(source.bytes.stamp()) && !source.bytes.changed()) keep(entry.get(), key, found);
  return found;
}

}  // namespace lockstep::launcher::data
