// Programs in which ranks hand values to one another, as the stages of a pipeline do; and how a rank runs its
// own.
#pragma once

#include "tests/ranks/bucket_sum_case.h"

namespace lockstep {

inline constexpr int64_t kCount = 5;

// Rank r adds what rank r - 1 sends to what it has, for each micro-batch, and sends it on; the last one keeps
// it.
inline compiler::StepProgram stage_of(int rank, int ranks, int64_t micro_batches) {
  compiler::StepProgram program;
  program.rank = rank, program.micro_batches = micro_batches;
  program.mesh = "[dp_replicate]";
  compiler::ProgramWriter writer(program);
  const int64_t bytes = kCount * static_cast<int64_t>(sizeof(int64_t));
  for (int64_t m = 0; m < micro_batches; ++m) {
    writer.set_micro_batch(m);
    const compiler::Span own = writer.region(compiler::Region::Kind::input, str("own ", m), bytes);
    const compiler::Span sum = writer.region(compiler::Region::Kind::value, str("sum ", m), bytes);
    writer.put(compiler::ZeroSpan{sum});
    writer.put(compiler::AddCounts{sum, own});
    const std::string label = str("activations ", m);
    if (rank > 0) {
      const compiler::Span from = writer.region(compiler::Region::Kind::staging, str("from ", m), bytes);
      writer.wait(writer.start({.verb = compiler::StartCollective::Verb::recv,
                                .along = "dp_replicate",
                                .dtype = DType::i64,
                                .receive = {kCount},
                                .peer = rank - 1,
                                .to = from,
                                .label = label}));
      writer.put(compiler::AddCounts{sum, from});
    }
    if (rank + 1 < ranks)
      writer.wait(writer.start({.verb = compiler::StartCollective::Verb::send,
                                .along = "dp_replicate",
                                .dtype = DType::i64,
                                .send = {kCount},
                                .peer = rank + 1,
                                .from = sum,
                                .label = label}));
    else
      program.metrics.push_back({str("sum ", m), sum, DType::i64});
  }
  for (compiler::Instr& instr : program.instrs) instr.stage = rank;
  return program;
}
inline std::vector<compiler::StepProgram> stages(int ranks, int64_t micro_batches) {
  std::vector<compiler::StepProgram> out;
  for (int r = 0; r < ranks; ++r) out.push_back(stage_of(r, ranks, micro_batches));
  return out;
}

// Runs this rank's stage for two steps and gives what the last rank kept, a value per micro-batch and
// element.
inline std::vector<int64_t> run_stage(distributed::World& world, const compiler::StepProgram& program) {
  const LiveMesh mesh = data_mesh(world, 0);
  const Graph none;
  const compiler::CompileOptions options;
  auto reductions = compiler::cpu_target().make_reductions({});
  compiler::Executor executor({program, none, options, nullptr, mesh, cpu_device(), *reductions, {}});
  for (int64_t m = 0; m < program.micro_batches; ++m) {
    const compiler::Span at = program.find(compiler::Region::Kind::input, str("own ", m));
    auto* own = reinterpret_cast<int64_t*>(executor.at(at));
    for (int64_t i = 0; i < kCount; ++i) own[i] = (world.rank() + 1) * 100 + i;
  }
  auto stream = inline_stream();
  for (int step = 0; step < 2; ++step) executor.run(*stream);
  std::vector<int64_t> out;
  for (const compiler::StepOutput& output : program.metrics) {
    const auto* sum = reinterpret_cast<const int64_t*>(executor.at(output.at));
    out.insert(out.end(), sum, sum + kCount);
  }
  return out;
}
// Of `ranks` ranks: the sums over them; of the others than the last one nothing.
inline std::vector<int64_t> expected_of_stage(int rank, int ranks, int64_t micro_batches) {
  std::vector<int64_t> out;
  if (rank + 1 == ranks)
    for (int64_t m = 0; m < micro_batches; ++m)
      for (int64_t i = 0; i < kCount; ++i) out.push_back(ranks * (ranks + 1) / 2 * 100 + ranks * i);
  return out;
}

}  // namespace lockstep
