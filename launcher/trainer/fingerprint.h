// Facts that all ranks must share before they compile: program, config, device libraries, data.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compiler/codegen/target.h"
#include "core/mesh/fingerprint.h"
#include "distributed/world.h"
#include "launcher/config/config.h"
#include "launcher/data/samples.h"
#include "launcher/supervise/worker/contract.h"

namespace lockstep::launcher {

// Keys of the config that may differ between ranks, and why.
struct PerRankKey {
  const char* path;
  const char* reason;
};
std::span<const PerRankKey> per_rank_keys();

// Key by key, in the order of the struct, without per_rank_keys(): "optim.lr", "0.0003".
FingerprintPart config_part(const RunConfig& config);
// Version and compiler of this program, the communication library, and environment variables that affect
// compilation or checks.
FingerprintPart program_part();
// The device libraries of `target` that affect bits or messages.
FingerprintPart libraries_part(const compiler::Target& target);
// Every file of the data in its order: name, tokens, hash of its ends.
FingerprintPart data_part(const data::Samples& data);

// Builds the mesh of a config over the world after agreement of all ranks: they compare program and config,
// resolve the mesh, and compare the result (DeviceMesh) before groups are created. Collective; the same
// UserError on every rank.
LiveMesh open_mesh(const std::shared_ptr<distributed::World>& world, const RunConfig& config,
                   const WorkerPlace& at);

}  // namespace lockstep::launcher
