// Updates that look at whole matrices (Muon) or at their rows and columns (Adafactor) where tp splits the
// parameters: one rank's numbers, the same bits on any data ranks beside tp, and no more than what they need
// travels.
#include <gtest/gtest.h>

#include "compiler/program/build/build.h"
#include "compiler/program/check/verify.h"
#include "compiler/program/show/folds.h"
#include "core/base/error.h"
#include "core/optim/adafactor.h"
#include "core/optim/muon.h"
#include "tests/support/tiny_run.h"

namespace lockstep::tests {

using namespace compiler;

namespace {

std::unique_ptr<Optimizer> make(const std::string& kind, State& state) {
  if (kind == "muon")
    return std::make_unique<Muon>(state / "optim", MuonOptions{.lr = 0.02, .weight_decay = 0.1, .clip = 1.0},
                                  AdamWOptions{.lr = 1e-2});
  return std::make_unique<Adafactor>(state / "optim",
                                     AdafactorOptions{.lr = 0.05, .weight_decay = 0.1, .clip = 1.0});
}
TinyRun small(const std::string& model, const std::string& kind) {
  TinyRun run{.model = model, .global = 8, .micro = 2, .steps = 4, .mask_every = 5};
  run.width = 32, run.context = 16, run.vocab = 40, run.heads = 4, run.kv_heads = 2;
  run.optimizer = [kind](State& state) { return make(kind, state); };
  return run;
}
TinyRun on(TinyRun run, const Shape& shape, const std::vector<std::string>& names, int zero = 3) {
  run.mesh = {shape, names}, run.zero = zero;
  run.ranks = static_cast<int>(run.mesh.size());
  return run;
}
void expect_close(const TinyResult& got, const TinyResult& wanted, double most) {
  ASSERT_EQ(got.losses.size(), wanted.losses.size());
  for (size_t i = 0; i < wanted.losses.size(); ++i) {
    EXPECT_LE(relative_difference(wanted.losses[i], got.losses[i]), most)
        << "loss " << i << ": " << wanted.losses[i] << " " << got.losses[i];
    EXPECT_LE(relative_difference(wanted.norms[i], got.norms[i]), 10 * most)
        << "norm " << i << ": " << wanted.norms[i] << " " << got.norms[i];
  }
}

class WholeUpdates : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(WholeUpdates, RanksOfTpGiveOneRanksNumbers) {
  const auto [model, kind] = GetParam();
  TinyRun run = small(model, kind);
  run.kv_heads = 4;
  const TinyResult one = train_tiny(run);
  EXPECT_GT(relative_difference(one.losses.front(), one.losses.back()), 1e-2) << "training changes nothing";
  for (int64_t ranks : {2, 4}) expect_close(train_tiny(on(run, {ranks}, {"tp"})), one, 1e-4);
  for (const Backend backend : {Backend::eager, Backend::reference}) {
    TinyRun other = on(run, {2}, {"tp"});
    other.options.backend = backend;
    expect_close(train_tiny(other), one, 1e-4);
  }
}

TEST_P(WholeUpdates, DataRanksChangeNoBit) {
  const auto [model, kind] = GetParam();
  const TinyRun run = small(model, kind);
  const TinyResult two = train_tiny(on(run, {2}, {"tp"}));
  EXPECT_EQ(train_tiny(on(run, {2}, {"tp"})), two);
  expect_same(train_tiny(on(run, {2, 2}, {"dp_replicate", "tp"})), two, "dp 2");
  expect_same(train_tiny(on(run, {2, 2}, {"tp", "dp_replicate"})), two, "dp 2, the other way round");
  for (const int zero : {1, 2, 3})
    expect_same(train_tiny(on(run, {2, 2}, {"dp_shard", "tp"}, zero)), two, str("zero ", zero));
  expect_same(train_tiny(on(run, {3, 2}, {"dp_shard", "tp"})), two, "shards of rows that 3 does not divide");
  expect_same(train_tiny(on(run, {2, 2, 2}, {"dp_replicate", "dp_shard", "tp"})), two, "hsdp");
}

// Rows of one's own: parameters split by the other dim, and whole ones beside them.
TEST_P(WholeUpdates, AnySplitGivesOneRanksNumbers) {
  const auto [model, kind] = GetParam();
  TinyRun run = small(model, kind);
  const TinyResult one = train_tiny(run);
  run.rows = {{"tp", "blocks.*.attn.**", Replicate()}};
  expect_close(train_tiny(on(run, {2}, {"tp"})), one, 1e-4);
}

TEST_P(WholeUpdates, HalvesTrainToo) {
  const auto [model, kind] = GetParam();
  TinyRun run = small(model, kind);
  run.compute = DType::bf16, run.options.precision = "bf16";
  const TinyResult two = train_tiny(on(run, {2}, {"tp"}));
  expect_close(two, train_tiny(run), 2e-2);
  expect_same_bits(train_tiny(on(run, {2, 2}, {"dp_shard", "tp"})), two, "zero 3");
}

// What a rank sends over tp outside of micro-batches, by what its program says and by what it did; the
// listing parses back, and all ranks' programs fit.
struct Sent {
  int64_t collectives = 0, bytes = 0;
  bool operator==(const Sent&) const = default;
};
Sent tail_of(const TinyRun& run) {
  TinyRun traced = run;
  std::vector<StepProgram> programs(static_cast<size_t>(run.mesh.size()));
  std::vector<Sent> tails(programs.size());
  traced.observe = [&](const LiveMesh& mesh, const Step& step) {
    const StepProgram& program = programs[mesh.rank] = step.program();
    EXPECT_NO_THROW(verify(program));
    for (const Instr& instr : program.instrs)
      if (const auto* block = std::get_if<RunBlock>(&instr.what); block && instr.micro_batch < 0)
        for (int c = block->first; c < block->last; ++c) {
          const BlockCall& call = program.blocks[block->block].calls[c];
          if (call.kind != BlockCall::Kind::start) continue;
          const auto sent =
              transfer_of(program.blocks[block->block], call, members_of("tp", mesh.words, mesh.rank, 0));
          ++tails[mesh.rank].collectives, tails[mesh.rank].bytes += sent.sent;
        }
  };
  traced.traced = [&](const Step& step, const TracedStep& did) {
    const StepProgram program = step.program();
    Sent planned, done;
    const Members members = members_of("tp", run.mesh, program.rank, 0);
    for (const Instr& instr : program.instrs) {
      if (const auto* start = std::get_if<StartCollective>(&instr.what); start && start->along == "tp")
        ++planned.collectives, planned.bytes += transfer_of(*start, members).sent;
      if (const auto* block = std::get_if<RunBlock>(&instr.what))
        for (int c = block->first; c < block->last; ++c)
          if (const BlockCall& call = program.blocks[block->block].calls[c];
              call.kind == BlockCall::Kind::start)
            ++planned.collectives,
                planned.bytes += transfer_of(program.blocks[block->block], call, members).sent;
    }
    for (const auto& flight : did.flights)
      if (flight.along == "tp") ++done.collectives, done.bytes += flight.bytes;
    EXPECT_EQ(done, planned);
  };
  train_tiny(traced);
  EXPECT_NO_THROW(verify_together(programs, run.mesh, 0));
  for (const Sent& tail : tails) EXPECT_EQ(tail, tails[0]);
  return tails[0];
}

TEST(WholeUpdatesTravel, MuonGathersEachSplitMatrixOnce) {
  const TinyRun run = on(small("gpt", "muon"), {2}, {"tp"});
  const Sent tail = tail_of(run);
  // Of each block attn.qkv [96,32], attn.out [32,32], mlp.up [128,32] and mlp.down [32,128]: half of each.
  EXPECT_EQ(tail.collectives, run.depth * 4);
  EXPECT_EQ(tail.bytes, run.depth * (96 * 32 + 32 * 32 + 128 * 32 + 32 * 128) / 2 * 4);
}

TEST(WholeUpdatesTravel, AdafactorSendsSumsAlone) {
  const TinyRun run = on(small("gpt", "adafactor"), {2}, {"tp"});
  const Sent tail = tail_of(run);
  EXPECT_GT(tail.collectives, 0);
  EXPECT_LT(tail.bytes, run.depth * 4 * 32 * 32);  // less than the smallest of the matrices takes
}

INSTANTIATE_TEST_SUITE_P(All, WholeUpdates,
                         testing::Combine(testing::Values("gpt", "llama"),
                                          testing::Values("muon", "adafactor")));

}  // namespace
}  // namespace lockstep::tests
