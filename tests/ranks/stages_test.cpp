// Programs in which ranks hand values to one another, as the stages of a pipeline do: checked, and run on
// threads.
#include "compiler/program/verify.h"
#include "tests/ranks/bucket_sum_case.h"
#include "tests/ranks/expect_error.h"

namespace lockstep {
namespace {

constexpr int64_t kCount = 5;

// Rank r adds what rank r - 1 sends to what it has, for each micro-batch, and sends it on; the last one keeps
// it.
StepProgram stage_of(int rank, int ranks, int64_t micro_batches) {
  StepProgram program;
  program.rank = rank, program.micro_batches = micro_batches;
  program.mesh = "[dp_replicate]";
  ProgramWriter writer(program);
  const int64_t bytes = kCount * static_cast<int64_t>(sizeof(int64_t));
  for (int64_t m = 0; m < micro_batches; ++m) {
    writer.set_micro_batch(m);
    const Span own = writer.region(Region::Kind::input, str("own ", m), bytes);
    const Span sum = writer.region(Region::Kind::value, str("sum ", m), bytes);
    writer.put(ZeroSpan{sum});
    writer.put(AddCounts{sum, own});
    const std::string label = str("activations ", m);
    if (rank > 0) {
      const Span from = writer.region(Region::Kind::staging, str("from ", m), bytes);
      writer.wait(writer.start({.verb = StartCollective::Verb::recv,
                                .along = "dp_replicate",
                                .dtype = DType::i64,
                                .receive = {kCount},
                                .peer = rank - 1,
                                .to = from,
                                .label = label}));
      writer.put(AddCounts{sum, from});
    }
    if (rank + 1 < ranks)
      writer.wait(writer.start({.verb = StartCollective::Verb::send,
                                .along = "dp_replicate",
                                .dtype = DType::i64,
                                .send = {kCount},
                                .peer = rank + 1,
                                .from = sum,
                                .label = label}));
    else
      program.metrics.push_back({str("sum ", m), sum, DType::i64});
  }
  for (Instr& instr : program.instrs) instr.stage = rank;
  return program;
}
std::vector<StepProgram> stages(int ranks, int64_t micro_batches) {
  std::vector<StepProgram> out;
  for (int r = 0; r < ranks; ++r) out.push_back(stage_of(r, ranks, micro_batches));
  return out;
}
Mesh mesh_of(int ranks) { return {{ranks}, {"dp_replicate"}}; }

TEST(Stages, HandTheirValuesOn) {
  for (int ranks : {2, 3, 5}) {
    const auto programs = stages(ranks, 4);
    for (const StepProgram& program : programs) verify(program);
    verify_together(programs, mesh_of(ranks), 0);
    with_world(ranks, [&](std::shared_ptr<World> world) {
      const StepProgram& program = programs[static_cast<size_t>(world->rank())];
      const LiveMesh mesh = data_mesh(*world, 0);
      const Graph none;
      const CompileOptions options;
      auto reductions = cpu_target().make_reductions({});
      Executor executor({program, none, options, nullptr, mesh, cpu_device(), *reductions, {}});
      for (int64_t m = 0; m < program.micro_batches; ++m) {
        const Span at = program.find(Region::Kind::input, str("own ", m));
        auto* own = reinterpret_cast<int64_t*>(executor.at(at));
        for (int64_t i = 0; i < kCount; ++i) own[i] = (world->rank() + 1) * 100 + i;
      }
      auto stream = inline_stream();
      for (int step = 0; step < 2; ++step) executor.run(*stream);
      for (const StepOutput& output : program.metrics) {
        const auto* sum = reinterpret_cast<const int64_t*>(executor.at(output.at));
        for (int64_t i = 0; i < kCount; ++i)
          EXPECT_EQ(sum[i], ranks * (ranks + 1) / 2 * 100 + ranks * i) << output.name;
      }
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
