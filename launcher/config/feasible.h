// Checks that a config and a mesh fit before anything is planned: lists all conflicts, and finds the nearest
// mesh that works.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/config/config.h"

namespace lockstep::launcher {

// Every reason why this config cannot run on this mesh, one line each; empty if it can. Checks sizes along tp
// (heads, key and value heads, the MLP's features, tokens of a sequence), unsupported dims (pp, cp), and keys
// that need other dims (mesh.zero and mesh.reshard_after_forward without dp_shard). A pure function of its
// arguments. Uneven division over the data dims is allowed: ranks without micro-batches are idle, and a plan
// prints their number.
std::vector<std::string> mesh_errors(const RunConfig& config, const Mesh& mesh);

// Of all meshes with the same number of ranks and the same dims (dp_replicate is added in front where there
// is no data dim), the nearest one without mesh_errors: the smallest sum over dims of |log2(new size / old
// size)|; ties go to larger sizes on later dims. nullopt: there is none, so the config itself must change.
std::optional<Mesh> nearest_working(const RunConfig& config, const Mesh& mesh);

}  // namespace lockstep::launcher
