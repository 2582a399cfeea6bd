// Generated CUDA kernels: sources of fused bodies, and the set of them compiled and loaded on a device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/kernel.h"
#include "compiler/codegen/target.h"
#include "core/device/cuda/cuda_device.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, of core

// As compiler::generate_kernel: one or two __global__ functions, the second combining column sums that the
// first left in the workspace. Their parameters are the body's inputs, its outputs and the workspace.
// `launch` is JSON: {"functions": [{"name", "grid", "block", "shared": bytes of dynamic shared memory}, ...]
// in order, "aligned": [bytes that each argument's address must be a multiple of]}; that is 16 at most, and
// always met by whole rows or leading-dim slices of an aligned buffer, because chunks divide the rows. The
// order of every sum is a function of the shape alone, stated in form.h; neither the device nor what else is
// fused plays a part. InternalError naming the reason where no kernel fits.
// `together` > 1: for a kernel of which so many runs may go together. The functions have one parameter more,
// behind the workspace: for each argument, and for the workspace, the bytes from one run's to the next one's,
// 64-bit integers; run j of a launch is that of blockIdx.y j. `launch` says "together" then. Sums over
// columns have an order of their own (form.h), and a name of their own tells so.
KernelSource generate_kernel(const Graph& body, int64_t together = 1);

// As compiler::generate_multi_tensor: a pointwise body over a table of tensors, which is a parameter of at
// most 4 KiB by value; longer tables are several launches. Pointers need only be aligned to their elements;
// where all of a tensor's are at multiples of 16 bytes, accesses are of 16 bytes. `launch` is JSON:
// {"capacity", "columns", "per_tensor", "shared", "chunk", "block"}.
KernelSource generate_multi_tensor(const Graph& body);

// Names of kernels hash their bodies; this names what turns a body into text, for the certificate:
// kGeneratorVersion and a hash of the fixed texts (prelude, reductions). Raise the constant with every change
// of the generator that changes the text of a kernel.
inline constexpr int kGeneratorVersion = 5;
std::string generator_version();  // "1.0123456789abcdef"

// What one translation unit of these sources is: the prelude and the sources' texts.
std::string kernel_unit(const std::vector<KernelSource>& sources);
// Sources, equal names once, in a fixed order, grouped into units of about equal size; the units are a
// function of the sources alone.
std::vector<std::vector<KernelSource>> kernel_units(std::vector<KernelSource> sources);

// Compiled for the device's target, or taken from the cache in `cache_dir` ("": the default folder), and
// loaded. `threads`: compilers side by side, 0 = as many as there are cores. UserError with the compiler's
// first lines.
std::shared_ptr<const KernelSet> compile_kernels(CudaDevice& device, std::vector<KernelSource> sources,
                                                 const std::string& cache_dir = {}, int threads = 0);
// Begins to compile what compile_kernels of the same sources waits for.
void begin_kernels(CudaDevice& device, std::vector<KernelSource> sources, const std::string& cache_dir = {});
// The same from KernelSet::binary(). UserError when it is for another target than the device's; InternalError
// when it is damaged.
std::shared_ptr<const KernelSet> load_kernels(CudaDevice& device, const std::string& binary);

}  // namespace lockstep::compiler::cuda
