// The doctor's checks of the host: processor, memory, limits.
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "core/base/error.h"
#include "launcher/cli/doctor/doctor.h"
#include "launcher/machine/host_cores.h"
#include "launcher/machine/host_rates.h"
#include "launcher/memory/host.h"

namespace lockstep::launcher::cli {

namespace {
constexpr double kGigabyte = 1e9;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return trim(line);
}
std::optional<double> number_in(const std::string& text) {
  try {
    return std::stod(text);
  } catch (const std::exception&) { return {}; }
}

void check_cores(const std::string& root, Findings& out) {
  const int64_t all = std::thread::hardware_concurrency(), mine = cores_by_affinity();
  const auto quota = cgroup_cores(root);
  std::string value = str(mine, mine == 1 ? " core" : " cores");
  if (mine < all) value += str(" of the host's ", all, " (affinity)");
  if (quota) value += str(", of which the cgroup lets ", decimals(*quota, 1), " run");
  if (quota && *quota < static_cast<double>(mine) - 0.05)
    out.push_back({Health::warn, "cores", value,
                   str("ranks beyond the quota are stopped in each period: use --nproc ",
                       std::max<int64_t>(1, static_cast<int64_t>(*quota)), ", or raise the quota")});
  else
    out.push_back({Health::ok, "cores", value, ""});
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool wide = __builtin_cpu_supports("avx512f"), vectors = __builtin_cpu_supports("avx2");
  out.push_back({vectors ? Health::ok : Health::warn, "instructions",
                 wide      ? "avx512"
                 : vectors ? "avx2"
                           : "neither avx2 nor avx512",
                 "kernels run on narrow vectors; take a processor with avx2"});
#endif
  const auto words = split(first_line(root + "/proc/loadavg"), ' ');
  const auto load = number_in(words[0]);
  if (!load) return;
  const bool busy = *load > 0.5 * static_cast<double>(all);
  out.push_back({busy ? Health::warn : Health::ok, "load", str(words[0], " over the last minute"),
                 "others compute here; ranks wait for the slowest one, so stop them, or use fewer ranks"});
}

void check_clocks(const std::string& root, Findings& out) {
  const std::string source =
      first_line(root + "/sys/devices/system/clocksource/clocksource0/current_clocksource");
  if (!source.empty()) {
    const bool quick = source == "tsc" || source == "arch_sys_counter" || source == "kvm-clock" ||
                       source == "hyperv_clocksource_tsc_page";
    out.push_back({quick ? Health::ok : Health::warn, "clock source", source,
                   "each look at the clock is a call of the kernel, which steps take many of; boot with "
                   "clocksource=tsc"});
  }
  const std::string governor = first_line(root + "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (!governor.empty())
    out.push_back({governor == "powersave" ? Health::warn : Health::ok, "cpu clock", governor,
                   "cores may stay slow; cpupower frequency-set -g performance"});
}

void check_memory(const std::string& root, Findings& out) {
  constexpr int64_t kLittle = int64_t{2} << 30;
  HostMemory memory;
  try {
    memory = host_memory(root);
  } catch (const UserError& error) {
    out.push_back({Health::fail, "memory", error.what(), "set LOCKSTEP_MEMORY to an amount, or unset it"});
    return;
  }
  if (memory.bytes > 0)
    out.push_back({memory.bytes < kLittle ? Health::warn : Health::ok, "memory",
                   str(bytes_text(static_cast<double>(memory.bytes)), " for ranks (", memory.source, ")"),
                   "a small model alone fits; trainrun plan says what a run takes"});
}

// Measured now, and stored for predictions.
void check_rates(Findings& out) {
  const HostRates rates = measure_host_rates();
  store(rates);
  const std::string by = str(" by ", rates.cores, rates.cores == 1 ? " core" : " cores");
  out.push_back({rates.copies < 4 * kGigabyte ? Health::warn : Health::ok, "memory speed",
                 str(decimals(rates.copies / kGigabyte, 1), " GB/s read and written", by),
                 "others use the memory now, or the host is throttled"});
  const auto rate = [](const std::map<std::string, double>& of, const char* precision) {
    return decimals(of.at(precision) / kGigabyte, 0);
  };
  out.push_back(
      {Health::ok, "products",
       str("fp32 ", rate(rates.products, "fp32"), ", bf16 ", rate(rates.products, "bf16"),
           " GFLOP/s; attention ", rate(rates.attention, "fp32"), ", ", rate(rates.attention, "bf16"), by),
       ""});
}

void check_shared_memory(const std::string& root, Findings& out) {
  constexpr double kLittle = 256 << 20;
  struct statvfs at{};
  if (statvfs((root + "/dev/shm").c_str(), &at) != 0) {
    out.push_back({Health::warn, "/dev/shm", "not there",
                   "ranks then share memory through files in TMPDIR, which is slower; mount a tmpfs there"});
    return;
  }
  const double free = static_cast<double>(at.f_bavail) * static_cast<double>(at.f_frsize);
  out.push_back({free < kLittle ? Health::warn : Health::ok, "/dev/shm", str(bytes_text(free), " free"),
                 "ranks share memory there; of a container: --shm-size=2g"});
}

std::string limit_text(rlim_t limit) { return limit == RLIM_INFINITY ? "unlimited" : str(limit); }
void check_limits(Findings& out) {
  rlimit files{}, locked{}, processes{};
  getrlimit(RLIMIT_NOFILE, &files);
  getrlimit(RLIMIT_MEMLOCK, &locked);
  getrlimit(RLIMIT_NPROC, &processes);
  out.push_back(
      {files.rlim_cur < 256    ? Health::fail
       : files.rlim_cur < 1024 ? Health::warn
                               : Health::ok,
       "open files", limit_text(files.rlim_cur),
       str("trainrun holds several for each rank, and a checkpoint of many ranks has a file of each: "
           "ulimit -n ",
           files.rlim_max == RLIM_INFINITY ? "65536" : limit_text(files.rlim_max))});
  out.push_back({processes.rlim_cur < 512 ? Health::warn : Health::ok, "processes",
                 limit_text(processes.rlim_cur),
                 "each rank has a thread per core and a few more: ulimit -u 4096"});
  // Shared memory needs no locked memory; network adapters register buffers, and CUDA pins them through its
  // driver.
  out.push_back({Health::ok, "locked memory",
                 locked.rlim_cur == RLIM_INFINITY
                     ? "unlimited"
                     : str(bytes_text(static_cast<double>(locked.rlim_cur)),
                           ", which links within a host do not need (ulimit -l unlimited for InfiniBand)"),
                 ""});
}
}  // namespace

Findings host_findings(const std::string& root) {
  Findings out;
  check_cores(root, out);
  check_clocks(root, out);
  check_memory(root, out);
  check_rates(out);
  check_shared_memory(root, out);
  check_limits(out);
  return out;
}

}  // namespace lockstep::launcher::cli
