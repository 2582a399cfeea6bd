// The program of a tiny run's step, verified, and its mesh.
#pragma once

#include <gtest/gtest.h>

#include "compiler/program/check/verify.h"
#include "compiler/program/show/listing.h"
#include "tests/support/tiny_run.h"

namespace lockstep::tests {

inline TinyRun on(TinyRun run, const Mesh& mesh, int zero = 3) {
  run.mesh = mesh, run.zero = zero;
  return run;
}

// Rank 0's.
inline compiler::StepProgram program_of(TinyRun run) {
  compiler::StepProgram program;
  run.steps = 1;
  run.observe = [&](const LiveMesh& mesh, const compiler::Step& step) {
    if (mesh.rank == 0) program = step.program();
  };
  train_tiny(run);
  EXPECT_NO_THROW(verify(program));
  EXPECT_EQ(listing(compiler::parse_program(listing(program))), listing(program));
  return program;
}

}  // namespace lockstep::tests
