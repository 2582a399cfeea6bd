// What a config and a mesh must agree on before anything is planned: every reason why they cannot work, and
// the nearest mesh that does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/config/config.h"

namespace lockstep::launcher {

// Every reason why this config cannot run on this mesh, one line each; empty where nothing speaks against it.
// Sizes along tp (heads, heads of keys and values, the MLP's features, tokens of a sequence), dims that this
// version gives no meaning to (pp, cp), keys that have a meaning on other dims only (mesh.zero and
// mesh.reshard_after_forward without dp_shard). Pure: reads its arguments alone. What does not divide over
// the data dims works: ranks without micro-batches are idle, and a plan prints how many.
std::vector<std::string> mesh_errors(const RunConfig& config, const Mesh& mesh);

// Of all meshes with the same number of ranks and the same dims (dp_replicate is added in front where there
// is no data dim), the one that mesh_errors has nothing against and that is nearest: the smallest sum over
// dims of |log2 of new size / old size|; of equals the one with the larger sizes on the later dims. nullopt:
// there is none, the config itself must change.
std::optional<Mesh> nearest_working(const RunConfig& config, const Mesh& mesh);

}  // namespace lockstep::launcher
