// What all ranks of a run must have in common before they compile: program, config, libraries of the device,
// data.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compiler/codegen/target.h"
#include "core/mesh/fingerprint.h"
#include "distributed/world.h"
#include "launcher/config/config.h"
#include "launcher/data/samples.h"
#include "launcher/supervise/contract.h"

namespace lockstep::launcher {

// Keys of the config that may differ between ranks, and why.
struct PerRankKey {
  const char* path;
  const char* reason;
};
std::span<const PerRankKey> per_rank_keys();

// Key by key, in the order of the struct, without per_rank_keys(): "optim.lr", "0.0003".
FingerprintPart config_part(const RunConfig& config);
// Version and compiler of this program, the library that carries the ranks' messages, and variables of the
// environment that decide what is compiled or checked.
FingerprintPart program_part();
// The libraries of the device of `target`, as far as they decide bits or messages.
FingerprintPart libraries_part(const compiler::Target& target);
// Every file of the data in its order: name, tokens, hash of its ends.
FingerprintPart data_part(const data::Samples& data);

// The mesh of a config over the world, agreed upon before any rank is grouped: program and config are
// compared first, then each rank resolves the mesh, then the words of the mesh are compared (DeviceMesh).
// Collective; UserError on every rank, in the same words.
LiveMesh open_mesh(const std::shared_ptr<distributed::World>& world, const RunConfig& config,
                   const WorkerPlace& at);

}  // namespace lockstep::launcher
