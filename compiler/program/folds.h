// Folds: what is added up over a program: bytes that a rank holds, bytes that an instruction touches, and
// what its collectives send.
#pragma once

#include <string>

#include "compiler/program/program.h"
#include "compiler/program/step_plan.h"
#include "core/mesh/mesh.h"

namespace lockstep::compiler {

// Bytes of a rank's regions, without its state and its inputs.
struct HeldBytes {
  int64_t arena = 0;  // of all blocks
  int64_t body = 0;   // of it: of the body, of all micro-batches that run at once, and what is copied for it
  int64_t together = 1;  // micro-batches that run as one
  int64_t sums = 0;      // partial sums of gradients, and what is packed and received of them
  int64_t update = 0;    // sums over ranks, norms, weights in other dtypes, and gathers of new weights
  int64_t host = 0;      // of the arena, in the host's memory, beside it: values that wait there
  int64_t reduction() const { return sums + update; }
  int64_t total() const { return arena + reduction(); }
};
HeldBytes held_bytes(const StepProgram& program);

// The first call of the body that reads what the token counts decide: with it the backward pass begins. The
// number of calls where none does.
int first_backward_call(const StepPlan& plan, const ProgramBlock& body);

// Bytes that an instruction reads and writes, each as often as it says so.
int64_t touched_bytes(const StepProgram& program, const Instr& instr);

// The ranks that a collective joins, as one of them sees it.
struct Members {
  int64_t count = 1, self = 0;
};
// Of `rank` of a mesh; `along` as in StartCollective, `seats` as in ProgramRank.
Members members_of(const std::string& along, const Mesh& mesh, int64_t rank, int seats);

// A collective in the words of reports.
struct Transfer {
  std::string along;  // as in StartCollective
  std::string op;     // "lane_exchange": gradients; "weight_gather": weights, for a body; else the verb
  std::string name;   // its label without its part: parts of one name, started in a row, are one collective
  int64_t sent = 0, received = 0;  // bytes, to and from other ranks
};
Transfer transfer_of(const StartCollective& start, const Members& members);
// Of a start inside of a block; `members` along its mesh dim.
Transfer transfer_of(const ProgramBlock& block, const BlockCall& start, const Members& members);
const std::string& mesh_dim_of(const ProgramBlock& block, const BlockCall& start);

}  // namespace lockstep::compiler
