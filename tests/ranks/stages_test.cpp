// Programs in which ranks hand values to one another: checked, and run on threads.
#include "compiler/program/check/verify.h"
#include "tests/ranks/expect_error.h"
#include "tests/ranks/stages_case.h"

namespace lockstep {

using namespace compiler;

namespace {

Mesh mesh_of(int ranks) { return {{ranks}, {"dp_replicate"}}; }

TEST(Stages, HandTheirValuesOn) {
  for (int ranks : {2, 3, 5}) {
    const auto programs = stages(ranks, 4);
    for (const StepProgram& program : programs) verify(program);
    verify_together(programs, mesh_of(ranks), 0);
    distributed::with_world(ranks, [&](std::shared_ptr<distributed::World> world) {
      const int rank = world->rank();
      EXPECT_EQ(run_stage(*world, programs[static_cast<size_t>(rank)]), expected_of_stage(rank, ranks, 4));
    });
  }
}

TEST(Stages, WhatOneSendsTheOtherReceives) {
  const auto whole = stages(3, 2);
  auto start = [](StepProgram& program, StartCollective::Verb verb) -> StartCollective& {
    for (Instr& instr : program.instrs)
      if (auto* one = std::get_if<StartCollective>(&instr.what); one && one->verb == verb) return *one;
    throw InternalError("no such message");
  };
  auto refused = [](const std::vector<StepProgram>& programs, const std::string& words) {
    expect_error<InternalError>([&] { verify_together(programs, mesh_of(3), 0); }, {words});
  };
  auto broken = whole;
  start(broken[0], StartCollective::Verb::send).peer = 2;
  refused(broken, "along dp_replicate rank 0 sends rank 1 1 messages, and it receives 2");
  broken = whole;
  start(broken[1], StartCollective::Verb::recv).receive = {4};
  refused(broken,
          "along dp_replicate rank 0 sends rank 1 \"activations 0\", 5 i64, where it receives \"activations "
          "0\", 4 i64");
  broken = whole;
  start(broken[2], StartCollective::Verb::recv).label = "activations 7";
  refused(broken, "rank 1 sends rank 2 \"activations 0\", 5 i64, where it receives \"activations 7\", 5 i64");
}

}  // namespace
}  // namespace lockstep
