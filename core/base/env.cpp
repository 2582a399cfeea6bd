// The table of environment variables.
#include "core/base/env.h"

#include <cstdlib>

#include "core/base/error.h"
#include "core/base/text.h"

namespace lockstep {

std::span<const EnvVar> env_vars() {
  static const EnvVar table[] = {
      {"LOCKSTEP_LOGS", "", "topics to log, as in \"+fusion,overlap,-plan\"; `trainrun env` lists them"},
      {"LOCKSTEP_VERIFY", "0",
       "1: verify the graph after every pass, each rank's step program, and each collective against another "
       "rank before it starts"},
      {"LOCKSTEP_SKIP_PASSES", "",
       "comma list of pipeline rows to skip by name (only rows that say they may be skipped)"},
      {"LOCKSTEP_CACHE", "",
       "folder of the kernel cache, which others must not be able to write; default $XDG_CACHE_HOME/lockstep "
       "or ~/.cache/lockstep"},
      {"LOCKSTEP_CACHE_LIMIT", "4096",
       "MiB of the kernel cache; beyond it the least recently read kernels are removed. 0: no limit"},
      {"LOCKSTEP_CXX", "c++", "compiler of generated kernels"},
      {"LOCKSTEP_PYTHON", "",
       "interpreter of Python programs; default: python3 next to trainrun, then of VIRTUAL_ENV, then of "
       "PATH"},
      {"LOCKSTEP_ISA", "auto", "instruction set of generated kernels: auto, avx512, avx2, plain"},
      {"LOCKSTEP_CUDA_DRIVER", "", "file of the CUDA driver; default libcuda.so.1"},
      {"LOCKSTEP_NVRTC", "",
       "file of NVRTC, the compiler of CUDA kernels; default libnvrtc.so.13, then .12, then "
       "/usr/local/cuda/lib64"},
      {"LOCKSTEP_MEMORY", "",
       "memory of this host for all its ranks, as in 16GiB; default: what /proc/meminfo and the cgroup have"},
      {"LOCKSTEP_S3_PATIENCE", "60",
       "seconds for which an object store that does not answer, or answers 5xx, is asked again"},
      {"LOCKSTEP_DEADLINE", "60,600",
       "seconds before a wait for peers is an error: in steps, and before the first and around checkpoints; "
       "one number is for both. It overrides watch.deadline"},
      {"LOCKSTEP_VERIFY_COLLECTIVES", "auto",
       "checksums of MPI messages between ranks: auto (over TCP), on, off. It overrides verify.collectives"},
      {"LOCKSTEP_LOG_LIMIT", "256",
       "MiB of a rank's log; a larger one becomes rank-R.log.1 at the next step and a new one begins. 0: no "
       "limit"},
      {"LOCKSTEP_FAULT", "", "fault injection for tests, as in \"kill:rank=2,step=60\""},
      {"LOCKSTEP_RUN_DIR", "", "set by trainrun for its workers: the run's folder"},
      {"LOCKSTEP_LOG_DIR", "",
       "set by trainrun for its workers: the folder of this attempt's logs and records"},
      {"LOCKSTEP_MEMORY_FOLDER", "",
       "set by trainrun for its workers: where a host keeps checkpoints in memory (checkpoint.memory_every)"},
      {"LOCKSTEP_HOSTS", "", "set by trainrun for its workers: the number of hosts of the run; \"\" for one"},
      {"LOCKSTEP_PLAN", "", "set by trainrun plan for a program, which then plans its first step and ends"},
      {"LOCKSTEP_REPLAY", "",
       "set by trainrun replay for a program, whose train() then computes one step and ends"},
      {"LOCKSTEP_PROFILE", "",
       "set by trainrun --profile for a program: the number of steps that train() traces"},
      {"LOCKSTEP_RESTART", "0", "set by trainrun for its workers: how often the group was restarted"},
      {"LOCKSTEP_TERMINAL", "0",
       "set by trainrun for its workers: columns of its terminal, 0 if its output is not a terminal"},
  };
  return table;
}

std::string env(const std::string& name) {
  for (const auto& row : env_vars())
    if (name == row.name) {
      const char* value = std::getenv(row.name);
      return value ? value : row.fallback;
    }
  throw InternalError(str("environment variable ", name, " is not in the table of core/base/env.cpp"));
}

bool env_flag(const std::string& name) {
  std::string value = env(name);
  for (const char* no : {"", "0", "off", "false", "no"})
    if (value == no) return false;
  for (const char* yes : {"1", "on", "true", "yes"})
    if (value == yes) return true;
  throw UserError(str("environment: ", name, " is \"", shortened(value, 40), "\"; give 1 (on) or 0 (off)"));
}

}  // namespace lockstep
