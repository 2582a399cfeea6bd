// The memory budget of a step: how much the backward pass recomputes so that the planned arena fits.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/runtime/step.h"

namespace lockstep::compiler {

// Parses the value of CompileOptions::memory_budget: "none", "full", or bytes as in parse_bytes
// (core/base/bytes.h). UserError for another word.
int64_t parse_memory_budget(const std::string& word);

// The plan of a training step from its joint graph (after simplify). `plan_with` plans the step with these
// values recomputed, on several threads at once; with none recomputed, on the caller's thread. Arenas are
// those of complete plans, exact to the byte:
//   - kRecomputeNothing, or a graph without a backward pass: nothing is recomputed;
//   - bytes: the cheapest choice whose arena fits. With CompileOptions::offload_activations some values wait
//     in host memory instead, if copying them takes less time than computing them again (by
//     CompileOptions::travel), or if nothing else fits. UserError naming the smallest possible arena if none
//     fits;
//   - kRecomputeFull: the choice with the smallest arena (backends other than native: with the smallest
//     estimate).
StepPlan plan_within_budget(const Graph& joint, const CompileOptions& options,
                            const std::function<StepPlan(const std::vector<ValueId>& recomputed)>& plan_with);

// "31 values, 12.00 MiB to the host and back in each micro-batch, arena 10.00 MiB instead of 31.00 MiB";
// "nothing".
std::string away_text(const ProgramBlock& body, const Recompute& recompute);
// "43 values, +24.1 % of the step's flops, arena 10.00 MiB instead of 31.00 MiB"; "nothing".
std::string text(const Recompute& recompute);

}  // namespace lockstep::compiler
