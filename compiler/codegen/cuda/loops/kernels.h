// Generated CUDA kernels: sources of fused bodies, and the set of kernels compiled and loaded on a device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/kernel.h"
#include "compiler/codegen/target.h"
#include "core/device/cuda/cuda_device.h"

namespace lockstep::compiler::cuda {

using namespace lockstep::cuda;  // the device and its driver, from core

// As compiler::generate_kernel: one or two __global__ functions; the second combines column sums that the
// first left in the workspace. Their parameters are the body's inputs, its outputs and the workspace.
// `launch` is JSON: {"functions": [{"name", "grid", "block", "shared": bytes of dynamic shared memory}, ...]
// in order, "aligned": [bytes of which each argument's address must be a multiple]}.
// Alignments are at most 16 bytes. Whole rows or leading-dim slices of an aligned buffer always satisfy them,
// because chunks divide the rows. The order of every sum is a function of the shape only (form.h); neither
// the device nor the rest of the fused body changes it. InternalError naming the reason if no kernel fits.
// `together` > 1: for a kernel of which up to that many runs may run together. Its functions have one more
// parameter, after the workspace: the byte strides between runs of each argument and of the workspace, as
// 64-bit integers. Run j of a launch has blockIdx.y j. `launch` then has "together". Column sums have another
// order then (form.h), so the kernel has another name.
KernelSource generate_kernel(const Graph& body, int64_t together = 1);

// As compiler::generate_multi_tensor: a pointwise body over a table of tensors, passed by value in at most 4
// KiB; a longer table takes several launches. Pointers need only the alignment of their elements; accesses
// are of 16 bytes for a tensor whose pointers are all multiples of 16 bytes. `launch` is JSON: {"capacity",
// "columns", "per_tensor", "shared", "chunk", "block"}.
KernelSource generate_multi_tensor(const Graph& body);

// Identifies the code generator in the certificate, since names of kernels hash only their bodies:
// kGeneratorVersion and a hash of the fixed texts (prelude, reductions). Raise the constant with every change
// of the generator that changes the text of a kernel.
inline constexpr int kGeneratorVersion = 5;
std::string generator_version();  // "1.0123456789abcdef"

// The translation unit of these sources: the prelude and the sources' texts.
std::string kernel_unit(const std::vector<KernelSource>& sources);
// Sources without duplicate names, in a fixed order, grouped into units of about equal size. The units are a
// function of the sources only.
std::vector<std::vector<KernelSource>> kernel_units(std::vector<KernelSource> sources);

// Compiles for the device's target, or takes from the cache in `cache_dir` ("": the default folder), and
// loads. `threads`: parallel compilers, 0 = the number of cores. UserError with the compiler's first lines.
std::shared_ptr<const KernelSet> compile_kernels(CudaDevice& device, std::vector<KernelSource> sources,
                                                 const std::string& cache_dir = {}, int threads = 0);
// Starts compiling in the background; compile_kernels of the same sources waits for the result.
void begin_kernels(CudaDevice& device, std::vector<KernelSource> sources, const std::string& cache_dir = {});
// Loads the result of KernelSet::binary(). UserError if it is for another target than the device's;
// InternalError if it is damaged.
std::shared_ptr<const KernelSet> load_kernels(CudaDevice& device, const std::string& binary);

}  // namespace lockstep::compiler::cuda
