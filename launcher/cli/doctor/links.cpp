// The doctor's check of ranks: starts two like a run's; they connect and exchange data.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>

#include "compiler/codegen/cpu/compiler.h"
#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/files/private_file.h"
#include "core/files/temporary_folder.h"
#include "core/mesh/group.h"
#include "core/reading/json_text.h"
#include "distributed/open_world.h"
#include "launcher/cli/doctor/doctor.h"
#include "launcher/machine/host_rates.h"
#include "launcher/supervise/folders/run.h"

namespace lockstep::launcher::cli {

namespace {
constexpr int kPatience = 12;  // seconds for both ranks
constexpr const char* kMend =
    "several ranks cannot run here: install Open MPI (apt-get install libopenmpi-dev openmpi-bin) with PMIx, "
    "or "
    "use one rank, or trainrun --simulate N";

std::string last_line(const std::string& text) {
  const auto lines = split(trim(text), '\n');
  for (const auto& line : lines)
    if (line.find("root cause: ") != std::string::npos) return trim(line);
  return lines.empty() ? "" : trim(lines.back());
}

// The folder for logs and records of the two ranks; it must have room for a megabyte. Returns "" if it does.
std::string why_no_room(const TemporaryFolder& folder) {
  const Descriptor file = create_private("room", O_WRONLY, folder.folder().get());
  const int code = file ? write_fully(file.get(), std::string(size_t{1} << 20, ' ')) : errno;
  ::unlinkat(folder.folder().get(), "room", 0);
  return code ? std::strerror(code) : "";
}

// The median of the seconds that `work` takes.
double median_seconds(int times, const std::function<void()>& work) {
  std::vector<double> taken;
  for (int i = 0; i < times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    taken.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(taken.begin(), taken.end());
  return taken[taken.size() / 2];
}
}  // namespace

int link_rank(const std::string& file) {
  auto world = distributed::open_world();
  auto group = world->group();
  constexpr int64_t kLarge = int64_t{8} << 20;
  std::vector<int64_t> word(1, 1), sum(1);
  std::vector<uint8_t> mine(kLarge, 7), all(kLarge * world->size());
  const auto small = [&] { all_reduce(*group, {word.data(), sum.data(), 1, DType::i64}, "doctor"); };
  const auto large = [&] {
    all_gather(*group,
               {mine.data(), all.data(), std::vector<int64_t>(static_cast<size_t>(world->size()), kLarge),
                DType::u8},
               "doctor");
  };
  median_seconds(20, small), median_seconds(2, large);  // the first calls open connections
  const double latency = median_seconds(200, small), taken = median_seconds(12, large);
  if (world->rank() == 0)
    write_whole(file, Json({{"ranks", world->size()},
                            {"library", distributed::world_library()},
                            {"latency_s", latency},
                            {"bytes_per_s", static_cast<double>(kLarge) * (world->size() - 1) / taken}})
                          .dump());
  world->finish();
  return kExitOk;
}

Findings link_findings(const std::string& self) {
  std::optional<TemporaryFolder> scratch;
  try {
    scratch.emplace("doctor");
  } catch (const UserError& error) {
    return {{Health::fail, "temporary files", error.what(), "set TMPDIR to a folder that you may write"}};
  }
  if (const std::string why = why_no_room(*scratch); !why.empty())
    return {{Health::fail, "temporary files", str("cannot write in ", scratch->path(), ": ", why),
             str("make room in ", std::filesystem::path(scratch->path()).parent_path().string(),
                 ", or set TMPDIR to a folder with space")}};
  const std::string file = scratch->path() + "/measured.json";
  const auto done = compiler::cpu::run_programs(
      {{"/bin/sh", "-c", "cd \"$1\" && shift && exec \"$@\"", "sh", scratch->path(), self, "--nproc", "2",
        "--deadline", "8", "--name=doctor", self, "doctor-rank", file}},
      1, kPatience)[0];
  std::string text, none;
  read_plain(file, text, none);
  const Json told = bounded_json(text);
  if (done.status != 0 || !told.is_object())
    return {{Health::fail, "ranks",
             done.status == 128 + SIGKILL
                 ? str("two ranks did not meet within ", kPatience, " s")
                 : str("two ranks could not be started: ", shortened(printable(last_line(done.output)), 300)),
             done.status == kExitUser ? "two ranks run here once that is mended" : kMend}};
  const double latency = told.at("latency_s").get<double>(), rate = told.at("bytes_per_s").get<double>();
  if (auto rates = stored_host_rates()) rates->link = {rate, latency}, store(*rates);
  return {{Health::ok, "MPI", told.at("library").get<std::string>(), ""},
          {latency > 1e-3 || rate < 3e8 ? Health::warn : Health::ok, "link of 2 ranks",
           str(decimals(latency * 1e6, 1), " us for a sum of 8 bytes, ", decimals(rate * 1e-9, 2), " GB/s"),
           "fewer cores are free than ranks run, or shared memory is not used; see load and /dev/shm above"}};
}

}  // namespace lockstep::launcher::cli
