// The memory budget of a step: how much the backward pass recomputes, so that the planned arena keeps
// within it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/runtime/step.h"

namespace lockstep::compiler {

// "none", "full", or bytes as parse_bytes (core/base/bytes.h) reads them: the value of
// CompileOptions::memory_budget. UserError for another word.
int64_t parse_memory_budget(const std::string& word);

// The plan of a training step from its joint graph (after simplify). `plan_with` plans the step with these
// values given up, on several threads at once; where none is given up, on the caller's. Arenas are those of
// whole plans, to the byte:
// - kRecomputeNothing, and a graph without a backward pass: nothing is given up;
// - bytes: the cheapest choice whose arena keeps within them; with CompileOptions::offload_activations some
// values wait in the host's memory instead, where copies take less time than computing them again (by
// CompileOptions::travel), or where nothing else keeps within; UserError naming the smallest arena there is
// when none does;
// - kRecomputeFull: the choice with the smallest arena (backends other than native: with the smallest
// estimate).
StepPlan plan_within_budget(const Graph& joint, const CompileOptions& options,
                            const std::function<StepPlan(const std::vector<ValueId>& recomputed)>& plan_with);

// "31 values, 12.00 MiB to the host and back in each micro-batch, arena 10.00 MiB instead of 31.00 MiB";
// "nothing".
std::string away_text(const ProgramBlock& body, const Recompute& recompute);
// "43 values, +24.1 % of the step's flops, arena 10.00 MiB instead of 31.00 MiB"; "nothing".
std::string text(const Recompute& recompute);

}  // namespace lockstep::compiler
