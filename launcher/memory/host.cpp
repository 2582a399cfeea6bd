// Reads the host's free memory from /proc/meminfo and the limits of cgroups.
#include "launcher/memory/host.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/base/env.h"
#include "core/base/error.h"

namespace lockstep::launcher {

namespace fs = std::filesystem;

namespace {
constexpr int64_t kNoLimit = int64_t{1} << 60;  // v1 writes 2^63 rounded down to pages

// The number after `key` in a file of lines "key number" or "key: number kB".
std::optional<int64_t> number_in(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string word; file >> word;)
    if (int64_t value = 0; word == key && file >> value) return value;
  return {};
}
std::optional<int64_t> number_of(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;  // "max": no number
}

struct Cgroups {
  const char *limit, *used, *files;
};
constexpr Cgroups kV2{"memory.max", "memory.current", "file"};
constexpr Cgroups kV1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"};

// The tightest limit from `path` below `mount` up to the mount itself. A missing path belongs to another
// namespace; then the mount itself is our group.
void along(const std::string& mount, fs::path path, const Cgroups& names, HostMemory& least) {
  if (!fs::exists(mount + "/" + path.relative_path().string())) path = "/";
  for (;; path = path.parent_path()) {
    const std::string folder = (fs::path(mount) / path.relative_path()).string();
    const auto limit = number_of(folder + "/" + names.limit);
    if (limit && *limit < kNoLimit) {
      const int64_t used = number_of(folder + "/" + names.used).value_or(0) -
                           number_in(folder + "/memory.stat", names.files).value_or(0);
      const int64_t left = std::max<int64_t>(1, *limit - std::max<int64_t>(0, used));
      if (left < least.bytes || !least.bytes)
        least = {left, str("the cgroup ", path.string(), " may hold ",
                           bytes_text(static_cast<double>(*limit)), " (", names.limit, ") and holds ",
                           bytes_text(static_cast<double>(std::max<int64_t>(0, used))))};
    }
    if (!path.has_relative_path()) return;
  }
}
}  // namespace

HostMemory host_memory(const std::string& root) {
  if (const std::string given = env("LOCKSTEP_MEMORY"); !given.empty()) try {
      return {parse_memory(given), "LOCKSTEP_MEMORY"};
    } catch (const UserError& error) { throw UserError(str("LOCKSTEP_MEMORY: ", error.what())); }
  HostMemory least;
  const std::string meminfo = root + "/proc/meminfo";
  if (auto available = number_in(meminfo, "MemAvailable:"))
    least = {(*available + number_in(meminfo, "SwapFree:").value_or(0)) * 1024,
             "MemAvailable and SwapFree of /proc/meminfo"};
  std::ifstream own(root + "/proc/self/cgroup");
  for (std::string line; std::getline(own, line);) {  // "0::/path" of v2, "4:memory:/path" of v1
    const auto parts = split(line, ':');
    if (parts.size() < 3) continue;
    const std::string path = line.substr(parts[0].size() + parts[1].size() + 2);
    const auto controllers = split(parts[1], ',');
    if (parts[1].empty()) along(root + "/sys/fs/cgroup", path, kV2, least);
    if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end())
      along(root + "/sys/fs/cgroup/memory", path, kV1, least);
  }
  return least;
}

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t mapped = 0, resident = 0;
  return file >> mapped >> resident ? resident * sysconf(_SC_PAGESIZE) : 0;
}

std::optional<int64_t> address_space_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  const int64_t mapped = number_of("/proc/self/statm").value_or(0) * sysconf(_SC_PAGESIZE);
  return std::max<int64_t>(
      1, static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, static_cast<rlim_t>(kNoLimit))) - mapped);
}

bool room_for_more(int64_t bytes, int64_t ranks, const std::string& root) {
  const HostMemory host = host_memory(root);
  const int64_t held = env("LOCKSTEP_MEMORY").empty() ? 0 : resident_bytes() * ranks;
  if (host.bytes &&
      static_cast<double>(bytes) * static_cast<double>(ranks) > 0.9 * static_cast<double>(host.bytes - held))
    return false;
  const auto mapped = address_space_left();
  return !mapped || static_cast<double>(bytes) <= 0.9 * static_cast<double>(*mapped);
}

std::string does_not_fit_host(const std::string& name, int64_t ranks, const MemoryNeeds& needs,
                              const HostMemory& host) {
  if (!host.bytes ||
      static_cast<double>(needs.exact()) * static_cast<double>(ranks) <= static_cast<double>(host.bytes))
    return "";
  auto text_of = [](double bytes) { return bytes_text(bytes); };
  const auto exact = [](const MemoryPart& part) { return part.bound ? 0 : part.bytes; };
  auto most = std::max_element(needs.parts.begin(), needs.parts.end(),
                               [&](const auto& a, const auto& b) { return exact(a) < exact(b); });
  const auto each = static_cast<double>(needs.exact());
  std::string out = str(name, " does not fit on this host: ");
  if (ranks == 1)
    out += str("its rank needs ", text_of(each));
  else
    out += str(ranks, " ranks need ", text_of(each * static_cast<double>(ranks)), " together, ",
               text_of(each), " each");
  if (most != needs.parts.end())
    out += str(", most of it for ", most->name, " (", text_of(static_cast<double>(most->bytes)), ")");
  return out + str("; there are ", text_of(static_cast<double>(host.bytes)), " (", host.source,
                   "). Choose a smaller model or batch.micro, ",
                   ranks == 1 ? "" : "fewer ranks, the mesh dim dp_shard, ",
                   "compile.memory_budget, or more memory; trainrun plan prints the parts");
}

std::string offloaded_does_not_fit_host(const std::string& name, int64_t ranks, const MemoryNeeds& needs,
                                        const HostMemory& host) {
  const double each = static_cast<double>(needs.on_host + needs.away),
               all = each * static_cast<double>(ranks);
  if (!host.bytes || all <= static_cast<double>(host.bytes)) return "";
  const bool moments = needs.on_host > 0, activations = needs.away > 0;
  return str(name, " keeps its ", moments ? "moments on the host (optim.offload)" : "",
             moments && activations ? " and its " : "",
             activations ? "activations on the host (compile.offload_activations)" : "",
             ", and they do not fit there: ",
             ranks == 1 ? "its rank has " : str(ranks, " ranks have ", bytes_text(all), " together, "),
             bytes_text(each), ranks == 1 ? "" : " each", "; there are ",
             bytes_text(static_cast<double>(host.bytes)), " (", host.source, "). Take more hosts, ",
             moments ? "optim.moments bf16, or optim.offload false" : "", moments && activations ? ", " : "",
             activations ? "a larger compile.memory_budget, or compile.offload_activations false" : "");
}

}  // namespace lockstep::launcher
