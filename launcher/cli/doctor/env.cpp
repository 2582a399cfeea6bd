// trainrun env: prints the facts of this machine and environment that Lockstep uses.
#include <cstdlib>
#include <fstream>
#include <ostream>
#include <thread>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/log.h"
#ifdef LOCKSTEP_CUDA
#include "core/device/cuda/inventory.h"
#endif
#include "launcher/cli/commands.h"
#include "launcher/version.h"

namespace lockstep::launcher::cli {

namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return trim(line.substr(line.find(':') + 1));
  return "unknown";
}

std::string instruction_sets() {
  std::vector<std::string> out;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) out.push_back("avx2");
  if (__builtin_cpu_supports("fma")) out.push_back("fma");
  if (__builtin_cpu_supports("avx512f")) out.push_back("avx512f");
  if (__builtin_cpu_supports("avx512bw")) out.push_back("avx512bw");
  if (__builtin_cpu_supports("avx512vnni")) out.push_back("avx512vnni");
#endif
  return out.empty() ? "none beyond the base" : join(out, ", ");
}

void row(std::ostream& out, const std::string& name, const std::string& value, const std::string& help) {
  out << "  " << name << std::string(name.size() < 22 ? 22 - name.size() : 1, ' ') << value
      << std::string(value.size() < 12 ? 12 - value.size() : 1, ' ') << help << "\n";
}

void cuda_rows(std::ostream& out) {
#ifdef LOCKSTEP_CUDA
  out << "\nCUDA:\n";
  for (const auto& found : lockstep::cuda::inventory())
    out << "  " << found.what << std::string(found.what.size() < 22 ? 22 - found.what.size() : 1, ' ')
        << found.status << "\n";
#else
  out << "\nCUDA: not in this build, which found no CUDA headers\n";
#endif
}

}  // namespace

int env(std::ostream& out) {
  out << "lockstep " << kVersion << ", built with g++ " << __VERSION__ << "\n"
      << "processor: " << processor() << ", " << std::thread::hardware_concurrency() << " cores, "
      << instruction_sets() << "\n";
  cuda_rows(out);
  out << "\nVariables (value, meaning):\n";
  for (const auto& variable : env_vars()) {
    std::string value = lockstep::env(variable.name);
    row(out, variable.name, value.empty() ? "-" : value, variable.help);
  }
  out << "\nTopics of LOCKSTEP_LOGS (\"+fusion,overlap,-plan\"; \"all\" is every one):\n";
  for (const auto& topic : logs::topics()) row(out, topic.name, "", topic.help);
  return kExitOk;
}

}  // namespace lockstep::launcher::cli
