// Idle ranks: those for which a step has no micro-batch, in words.
#pragma once

#include <string>

#include "compiler/reduce/lanes.h"
#include "core/mesh/mesh.h"

namespace lockstep::launcher {

// How many ranks of the mesh have no micro-batch of a step of `plan`, why, and what gives them work; "" where
// all have some. They still own rows of gradients and of the state, and make their updates. `invariant`: the
// step's numerics, in which as many ranks as micro-batches have one each, whatever the lanes.
std::string idle_ranks(const compiler::LanePlan& plan, const Mesh& mesh, bool invariant);

// A line of the log, once in this process where the same words come again: a program's step and its run both
// say it. On rank 0.
void tell_idle_ranks(const std::string& words);

}  // namespace lockstep::launcher
