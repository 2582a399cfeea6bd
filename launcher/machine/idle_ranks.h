// Describes idle ranks, for which a step has no micro-batch.
#pragma once

#include <string>

#include "compiler/reduce/lanes.h"
#include "core/mesh/mesh.h"

namespace lockstep::launcher {

// How many ranks of the mesh have no micro-batch in a step of `plan`, why, and the remedy; "" if all have
// one. Idle ranks still own rows of gradients and of the state, and update them. `invariant`: the step's
// numerics; if true, as many ranks as micro-batches also work, one each, for any number of lanes.
std::string idle_ranks(const compiler::LanePlan& plan, const Mesh& mesh, bool invariant);

// Logs the text on rank 0, once per process, because both a program's step and its run report it.
void tell_idle_ranks(const std::string& words);

}  // namespace lockstep::launcher
