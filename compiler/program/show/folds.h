// Folds: totals over a program: bytes that a rank stores, bytes that an instruction accesses, and bytes that
// its collectives send.
#pragma once

#include <string>

#include "compiler/program/build/step_plan.h"
#include "compiler/program/words/program.h"
#include "core/mesh/mesh.h"

namespace lockstep::compiler {

// Bytes of a rank's regions, without its state and its inputs.
struct HeldBytes {
  int64_t arena = 0;  // of all blocks
  // Part of `arena`: for the body, for all micro-batches that run at once, and copies for it.
  int64_t body = 0;
  int64_t together = 1;  // micro-batches that run as one
  int64_t sums = 0;      // partial sums of gradients, and their packed and received parts
  int64_t update = 0;    // sums over ranks, norms, weights in other dtypes, and gathers of new weights
  int64_t host = 0;      // part of the arena in host memory, in addition: values that wait there
  int64_t reduction() const { return sums + update; }
  int64_t total() const { return arena + reduction(); }
};
HeldBytes held_bytes(const StepProgram& program);

// The first call of the body that reads a result of the token counts; the backward pass begins with it. The
// number of calls if there is none.
int first_backward_call(const StepPlan& plan, const ProgramBlock& body);

// Bytes that an instruction reads and writes; each is counted as often as the instruction names it.
int64_t touched_bytes(const StepProgram& program, const Instr& instr);

// The ranks that take part in a collective, as one of them sees it.
struct Members {
  int64_t count = 1, self = 0;
};
// For `rank` of a mesh; `along` as in StartCollective, `seats` as in ProgramRank.
Members members_of(const std::string& along, const Mesh& mesh, int64_t rank, int seats);

// A collective, described for reports.
struct Transfer {
  std::string along;  // as in StartCollective
  std::string op;     // "lane_exchange": gradients; "weight_gather": weights, for a body; else the verb
  // Its label without its part: parts of one name, started consecutively, are one collective.
  std::string name;
  int64_t sent = 0, received = 0;  // bytes, to and from other ranks
};
Transfer transfer_of(const StartCollective& start, const Members& members);
// For a start inside a block; `members` along its mesh dim.
Transfer transfer_of(const ProgramBlock& block, const BlockCall& start, const Members& members);
const std::string& mesh_dim_of(const ProgramBlock& block, const BlockCall& start);

}  // namespace lockstep::compiler
