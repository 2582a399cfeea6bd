// Compiles kernels on rank 0 and broadcasts the machine code.
#include "compiler/compile/distribute_kernels.h"

#include <chrono>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/mesh/together.h"

namespace lockstep::compiler {

std::shared_ptr<const KernelSet> distribute_kernels(Group& world, const CompileOptions& options,
                                                    const std::vector<KernelSource>& sources) {
  std::shared_ptr<const KernelSet> kernels;
  std::string binary;
  together(world, [&] {
    if (world.rank() != 0) return;
    auto start = std::chrono::steady_clock::now();
    kernels = target_of(options).compile(sources, target_options(options));
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    logs::topic("cache", str(kernels->from_cache() ? "kernels from the cache, " : "kernels compiled, ",
                             seconds, " s, library ", kernels->hash()));
    if (world.size() > 1) binary = kernels->binary();
  });
  if (world.size() == 1) return kernels;
  binary = broadcast_text(world, binary);
  std::string unloadable;
  if (world.rank() != 0) try {
      kernels = target_of(options).load(binary);
    } catch (const std::exception& e) { unloadable = e.what(); }
  agree(world, unloadable);
  return kernels;
}

}  // namespace lockstep::compiler
