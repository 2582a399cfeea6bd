// compile.offload_activations: the bits of a step that keeps all, on any number of ranks; an arena within the
// budget to the byte; what waits, what is recomputed instead, and the words of refusals.
#include <gtest/gtest.h>

#include "compiler/compile/memory_budget.h"
#include "compiler/program/show/folds.h"
#include "compiler/program/show/print.h"
#include "core/base/error.h"
#include "tests/support/tiny_program.h"

namespace lockstep::tests {

using namespace compiler;

namespace {

// A device whose memory is slow beside its link to the host, and the reverse.
constexpr TravelRates kFastLink{.flops = 1e6, .memory = 1e6, .launch = 0, .host = 1e12, .host_latency = 0};
constexpr TravelRates kSlowLink{.flops = 1e15, .memory = 1e15, .launch = 1e-9, .host = 1e3};

TinyRun by(TinyRun run, const TravelRates& rates = kFastLink) {
  run.options.travel = rates;
  return run;
}
TinyRun within(TinyRun run, int64_t budget) {
  run.options.memory_budget = budget;
  run.options.offload_activations = true;
  return run;
}

// Arenas of one step that keeps all, and that recomputes all that makes it smaller.
struct Arenas {
  int64_t most = 0, least = 0;
  int64_t tight() const {
    return least + (most - least) / 10;
  }  // what is cheap to recompute does not suffice
};
Arenas arenas_of(TinyRun run) {
  run.steps = 1;
  TinyRun full = run;
  full.options.memory_budget = kRecomputeFull;
  return {train_tiny(run).arena, train_tiny(full).arena};
}

struct Trained {
  TinyResult result;
  StepProgram program;  // rank 0's
  const ProgramBlock& body() const { return program.blocks[kBodyBlock]; }
};
Trained trained(TinyRun run) {
  Trained out;
  run.observe = [&](const LiveMesh& mesh, const Step& step) {
    if (mesh.rank == 0) out.program = step.program();
  };
  out.result = train_tiny(run);
  verify(out.program);
  EXPECT_EQ(listing(parse_program(listing(out.program))), listing(out.program));
  return out;
}

// What copies of both directions carry, and how many there are.
struct Copied {
  int64_t to_host = 0, to_device = 0;
  size_t count = 0;
};
Copied copied(const StepProgram& program) {
  Copied out;
  for (const Instr& instr : program.instrs)
    if (const auto* start = std::get_if<StartCopies>(&instr.what); start && instr.micro_batch >= 0)
      (start->to_host ? out.to_host : out.to_device) += start->bytes(), ++out.count;
  return out;
}

void expect_kept(const TinyResult& kept, const TinyRun& run, int64_t budget, int64_t slots,
                 const std::string& what) {
  const Trained away = trained(within(run, budget));
  expect_same(kept, away.result, what);
  EXPECT_LE(away.result.arena, budget) << what;
  EXPECT_EQ(away.result.arena, away.result.recompute.arena) << what;
  ASSERT_FALSE(away.body().away.empty()) << what;
  const Copied both = copied(away.program);
  EXPECT_EQ(both.to_host, slots * away.body().away_bytes()) << what << ": in each micro-batch";
  EXPECT_EQ(both.to_device, both.to_host) << what;
  EXPECT_EQ(held_bytes(away.program).host, away.body().host_bytes) << what;
}

// Micro-batches one behind another share what waits on the host: 6 of them on one rank, 3 and 2 on more.
TEST(OffloadActivations, GivesTheBitsOfAStepThatKeepsAll) {
  const TinyRun run = by({.dropout = 0.1, .mask_every = 7, .depth = 4});
  const TinyResult kept = train_tiny(run);
  EXPECT_NE(kept.losses.front(), kept.losses.back()) << "training changes nothing";
  const int64_t budget = kept.arena * 3 / 4;
  expect_kept(kept, run, budget, 6, "1 rank");
  expect_kept(kept, on(run, {{2}, {"dp_replicate"}}), budget, 3, "ddp");
  expect_kept(kept, on(run, {{3}, {"dp_shard"}}, 2), budget, 2, "zero 2");
  expect_kept(kept, on(run, {{2}, {"dp_shard"}}, 3), budget, 3, "zero 3");
}

// Weights are gathered in each micro-batch, in one bucket or in many, whose gathers begin where values leave;
// layer by layer over all of them nothing waits.
TEST(OffloadActivations, GivesThemInBf16WithWeightsGatheredByTheWay) {
  TinyRun run = by({.model = "llama", .compute = DType::bf16, .depth = 4});
  run.options.precision = "bf16";
  const TinyResult kept = train_tiny(run);
  for (const auto& [when, bucket] : {std::pair{GatherWhen::micro_batch, int64_t{4} << 20},
                                     {GatherWhen::micro_batch, 2000},
                                     {GatherWhen::layers, 2000}}) {
    SCOPED_TRACE(str("buckets of ", bucket));
    run.options.gather = when, run.options.gather_bytes = bucket;
    const TinyRun split = on(run, {{2}, {"dp_shard"}});
    const int64_t budget = arenas_of(split).tight();
    const Trained away = trained(within(split, budget));
    expect_same(kept, away.result, "gathered");
    EXPECT_LE(away.result.arena, budget);
    EXPECT_EQ(away.body().away.empty(), when == GatherWhen::layers);
  }
}

TEST(OffloadActivations, GivesThemOnTpAndByTheReferenceEvaluator) {
  const TinyRun tp = on(by({.depth = 4}), {{2, 2}, {"dp_replicate", "tp"}});
  const TinyResult kept = train_tiny(tp);
  expect_kept(kept, tp, kept.arena * 4 / 5, 3, "tp");
  TinyRun slow = by({.global = 8, .steps = 2});
  slow.options.backend = Backend::reference;
  const TinyResult judged = train_tiny(slow);
  expect_kept(judged, slow, judged.arena * 9 / 10, 2, "reference");
}

// By the rates: a fast link copies, a slow one leaves it to recomputing, and what recomputing alone cannot do
// copies do.
TEST(OffloadActivations, ChoosesByTime) {
  const TinyRun run = by({.steps = 1, .depth = 4});
  const auto arenas = arenas_of(run);
  const Trained fast = trained(within(run, arenas.tight())),
                slow = trained(by(within(run, arenas.tight()), kSlowLink));
  EXPECT_GT(fast.body().away.size(), 0u);
  EXPECT_EQ(slow.body().away.size(), 0u);
  EXPECT_GT(slow.result.recompute.extra_flops, fast.result.recompute.extra_flops);
  expect_same(fast.result, slow.result, "one way or the other");
  EXPECT_EQ(away_text(slow.body(), slow.result.recompute), "nothing");
  EXPECT_EQ(
      away_text(fast.body(), fast.result.recompute),
      str(fast.body().away.size(), " values, ", bytes_text(static_cast<double>(fast.body().away_bytes())),
          " to the host and back in each micro-batch, arena ",
          bytes_text(static_cast<double>(fast.result.arena)), " instead of ",
          bytes_text(static_cast<double>(arenas.most))));
  const int64_t below = arenas.least * 15 / 16;
  const Trained both = trained(by(within(run, below), kSlowLink));
  EXPECT_LE(both.result.arena, below);
  EXPECT_GT(both.result.recompute.values, 0);
  EXPECT_GT(both.body().away.size(), 0u);
  expect_same(fast.result, both.result, "both ways");
}

// A value leaves right behind its last reader, and comes before its next; its place is another's meanwhile.
TEST(OffloadActivations, CopiesTravelBesideCalls) {
  const TinyRun run = by({.steps = 1, .depth = 4});
  const Trained away = trained(within(run, arenas_of(run).tight()));
  size_t beside = 0;
  for (const AwayValue& value : away.body().away) {
    EXPECT_LE(value.leaves, value.gone);
    EXPECT_LT(value.gone, value.comes);
    EXPECT_LE(value.comes, value.back);
    beside += value.leaves < value.gone && value.comes < value.back;
  }
  EXPECT_GT(beside, 0u) << "calls run while a value is under way";
  const std::string text = print(away.program);
  EXPECT_NE(text.find(" of blocks.0.attn.qkv\" to the host: "), std::string::npos) << text;
  EXPECT_NE(text.find(" back of blocks.0.attn.qkv\" to the device: "), std::string::npos) << text;
  EXPECT_NE(text.find("wait \"activation 0 back"), std::string::npos);
}

std::string refusal(const TinyRun& run) {
  try {
    train_tiny(run);
  } catch (const UserError& error) { return error.what(); }
  return "accepted";
}

TEST(OffloadActivations, IsRefusedWithoutBytesAndBelowTheLeastThereIs) {
  for (const auto& [budget, word] : {std::pair{kRecomputeNothing, "none"}, {kRecomputeFull, "full"}})
    EXPECT_EQ(refusal(within({}, budget)),
              str("compile.offload_activations is true, and compile.memory_budget is ", word,
                  "; give the bytes that the arena is to keep within, as in 20GiB (trainrun plan --budgets "
                  "--compile.offload_activations=false prints some), or leave compile.offload_activations "
                  "out"));
  const int64_t most = train_tiny({.steps = 1}).arena;
  const std::string said = refusal(within(by({.steps = 1}), 1024));
  const std::string head =
      "compile.memory_budget 1024 bytes (1.00 KiB): the arena of the step needs at least ";
  ASSERT_TRUE(said.starts_with(head)) << said;
  const int64_t least = std::stoll(said.substr(head.size()));
  EXPECT_EQ(said.substr(said.find(" even")),
            str(" even with everything recomputed or copied to the host that makes it smaller (", most,
                " bytes (", bytes_text(static_cast<double>(most)),
                ") without); give that, or a smaller batch.micro or model.context"));
  EXPECT_LT(least, most);
  const Trained kept = trained(within(by({.steps = 1}), least));
  EXPECT_LE(kept.result.arena, least) << "what the refusal names is kept";
}

}  // namespace
}  // namespace lockstep::tests
