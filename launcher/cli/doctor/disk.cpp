// The doctor's checks of the run folder, the kernel cache and the kernel compiler.
#include <fcntl.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "compiler/codegen/cache/kernel_cache.h"
#include "compiler/codegen/cpu/compiler.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/files/descriptor.h"
#include "launcher/cli/doctor/doctor.h"

namespace lockstep::launcher::cli {

namespace {
constexpr size_t kWriteBytes = size_t{4} << 20;
constexpr int64_t kMost = int64_t{256} << 20;  // bytes written to measure a disk
constexpr double kLongest = 1.5;               // seconds

using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string file_system(const std::string& folder) {
  struct statfs at{};
  if (statfs(folder.c_str(), &at) != 0) return "";
  switch (static_cast<uint32_t>(at.f_type)) {
    case 0x01021994:
      return "tmpfs";
    case 0x6969:
      return "NFS";
    case 0x0BD00BD0:
      return "Lustre";
    case 0x65735546:
      return "FUSE";
    case 0xEF53:
      return "ext4";
    case 0x58465342:
      return "XFS";
    case 0x9123683E:
      return "Btrfs";
    case 0x794C7630:
      return "overlay";
  }
  return "";
}

// Writes, syncs and removes a file: bytes per second including the sync, and the seconds of a small sync.
struct DiskSpeed {
  double rate = 0, sync_s = 0;
  std::string why;  // why it could not be written
};
DiskSpeed disk_speed(const std::string& folder) {
  DiskSpeed out;
  std::string path = folder + "/.doctor.XXXXXX";
  const Descriptor file(mkstemp(path.data()));
  if (file.get() < 0) {
    out.why = std::strerror(errno);
    return out;
  }
  unlink(path.c_str());  // unlinked at once, so that nothing is left
  std::vector<char> block(kWriteBytes);
  for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<char>(i * 2654435761u >> 24);
  auto put = [&](size_t bytes) {
    const ssize_t n = write(file.get(), block.data(), bytes);
    if (n != static_cast<ssize_t>(bytes)) out.why = n < 0 ? std::strerror(errno) : "the disk is full";
    return out.why.empty();
  };
  const auto small = Clock::now();
  if (!put(4096) || fsync(file.get()) != 0) {
    if (out.why.empty()) out.why = std::strerror(errno);
    return out;
  }
  out.sync_s = since(small);
  int64_t written = 0;
  const auto begin = Clock::now();
  for (int64_t blocks = 1; written < kMost && since(begin) < kLongest; ++blocks) {
    if (!put(kWriteBytes)) return out;
    written += kWriteBytes;
    if (blocks % 4 == 0 && fdatasync(file.get()) != 0) break;  // else it would all go to the page cache
  }
  if (fsync(file.get()) != 0) out.why = std::strerror(errno);
  out.rate = static_cast<double>(written) / since(begin);
  return out;
}

void check_runs(Findings& out) {
  std::error_code none;
  const bool made = std::filesystem::is_directory("runs", none);
  const std::string folder = made ? "runs" : ".", name = made ? "runs/" : "runs/ (here)";
  struct statvfs at{};
  const DiskSpeed speed = disk_speed(folder);
  if (!speed.why.empty()) {
    out.push_back({Health::fail, name,
                   str("a file in ", std::filesystem::absolute(folder, none).string(),
                       " cannot be written: ", speed.why),
                   "start runs in a folder that you may write and that has space"});
    return;
  }
  if (statvfs(folder.c_str(), &at) == 0) {
    const double free = static_cast<double>(at.f_bavail) * static_cast<double>(at.f_frsize);
    const std::string kind = file_system(folder);
    const bool memory = kind == "tmpfs";
    out.push_back(
        {free < 1e9 || memory ? Health::warn : Health::ok, name,
         str(bytes_text(free), " free", kind.empty() ? "" : ", " + kind),
         memory
             ? "files in memory are lost at a reboot; start runs on a disk"
             : "a checkpoint of N parameters takes 12 N bytes; trainrun ckpt prune RUN --keep 1 frees some"});
  }
  out.push_back({speed.rate < 50e6 ? Health::warn : Health::ok, "disk speed",
                 str(decimals(speed.rate / 1e6, 0), " MB/s written and synced, ",
                     decimals(speed.sync_s * 1e3, 1), " ms a sync"),
                 "saving stalls the run: save seldom (checkpoint.every), or put runs/ on a faster disk"});
}

void check_cache(Findings& out) {
  try {
    const compiler::cpu::KernelCache cache;
    const std::string why = cache.try_write();
    out.push_back({why.empty() ? Health::ok : Health::warn, "kernel cache",
                   why.empty() ? cache.dir() : str(cache.dir(), ": ", why),
                   "kernels are compiled anew at each start; set LOCKSTEP_CACHE to a folder of yours"});
  } catch (const UserError& error) {
    out.push_back(
        {Health::fail, "kernel cache", error.what(), "set LOCKSTEP_CACHE to a folder of yours alone"});
  }
}

void check_compiler(Findings& out) {
  try {
    out.push_back(
        {Health::ok, "compiler", compiler::cpu::compiler_version(lockstep::env("LOCKSTEP_CXX")), ""});
  } catch (const UserError& error) {
    out.push_back({Health::fail, "compiler", error.what(), "runs on the CPU compile their kernels with it"});
  }
}
}  // namespace

Findings disk_findings() {
  Findings out;
  check_runs(out);
  check_cache(out);
  check_compiler(out);
  return out;
}

}  // namespace lockstep::launcher::cli
