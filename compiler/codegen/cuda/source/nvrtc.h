// NVRTC as a function: CUDA C++ in, machine code of one target out, directly or through the kernel cache.
#pragma once

#include <string>
#include <vector>

namespace lockstep::compiler::cuda {

// "13.0": the version of the NVRTC that is opened at run time (LOCKSTEP_NVRTC, else the usual names).
// UserError saying why if there is none.
std::string nvrtc_version();
// Whether NVRTC can be opened; else `why` says what is missing. Never throws.
bool nvrtc_available(std::string* why = nullptr);

// Machine code of a source that includes no headers, for a target as CudaDevice::target() names it ("sm_90").
// Always without contraction of a*b+c (--fmad=false), and with exact division, square roots and subnormals,
// because bits are part of the result. Thread-safe. UserError: no NVRTC; an unknown target; or the first
// lines of its log with the source around the first error.
std::string compile_cubin(const std::string& source, const std::string& target,
                          const std::vector<std::string>& extra_flags = {});

struct Cubins {
  std::vector<std::string> code;  // one per source, in order
  int compiled = 0;               // how many were not in the cache
};
// compile_cubin of several sources in parallel on `threads` threads (0: the number of cores), each through
// the cache in `cache_dir` ("": the default folder). Files are named by the hash of source, target, flags and
// NVRTC's version, and have a checksum. A damaged file is compiled again, and many processes may use one
// folder. A folder that cannot store files is a warning. Throws the error of the first source that fails.
Cubins cached_cubins(const std::vector<std::string>& sources, const std::string& target,
                     const std::string& cache_dir = {}, const std::vector<std::string>& extra_flags = {},
                     int threads = 0);

// Starts the same for each source on threads of the process, and returns. begun_cubins takes the results of
// sources that were begun and compiles the rest. Thread-safe.
void begin_cubins(const std::vector<std::string>& sources, const std::string& target,
                  const std::string& cache_dir = {});
Cubins begun_cubins(const std::vector<std::string>& sources, const std::string& target,
                    const std::string& cache_dir = {}, int threads = 0);

}  // namespace lockstep::compiler::cuda
