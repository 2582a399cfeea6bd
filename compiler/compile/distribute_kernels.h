// Kernels of a program on all ranks: rank 0 compiles them once and sends them to the others.
#pragma once

#include <memory>
#include <vector>

#include "compiler/codegen/target.h"
#include "core/mesh/group.h"

namespace lockstep::compiler {

// Rank 0 compiles the sources (or finds them in the cache); the others load its machine code. Collective over
// `world`. UserError, on every rank, if something does not compile or cannot be loaded.
std::shared_ptr<const KernelSet> distribute_kernels(Group& world, const CompileOptions& options,
                                                    const std::vector<KernelSource>& sources);

}  // namespace lockstep::compiler
