// A traced step beside its program: every instruction and every call once, in order, one within the other;
// every collective with its bytes; and the bits of a step that nobody traces.
#include <gtest/gtest.h>

#include "compiler/program/show/folds.h"
#include "compiler/program/show/print.h"
#include "core/base/text.h"
#include "tests/support/tiny_run.h"

namespace lockstep::tests {

using namespace compiler;

namespace {

// Spans in the order of the program: an instruction, then the calls of its run.
std::vector<std::string> expected(const StepProgram& program) {
  std::vector<std::string> out;
  for (size_t i = 0; i < program.instrs.size(); ++i) {
    const Instr& instr = program.instrs[i];
    out.push_back(str(i, " ", kind_of(instr), " ", instr.micro_batch));
    if (const auto* run = std::get_if<RunBlock>(&instr.what))
      for (int c = run->first; c < run->last; ++c)
        out.push_back(str(i, " ", c, " ", program.blocks[run->block].calls[c].what));
  }
  return out;
}
std::vector<std::string> told(const TracedStep& traced) {
  std::vector<std::string> out;
  for (const auto& span : traced.spans)
    out.push_back(span.call < 0 ? str(span.instr, " ", span.kind, " ", span.micro_batch)
                                : str(span.instr, " ", span.call, " ", span.name));
  return out;
}
int64_t starts(const StepProgram& program) {
  int64_t out = 0;
  for (const Instr& instr : program.instrs) {
    out += std::holds_alternative<StartCollective>(instr.what);
    if (const auto* run = std::get_if<RunBlock>(&instr.what))
      for (int c = run->first; c < run->last; ++c)
        out += program.blocks[run->block].calls[c].kind == BlockCall::Kind::start;
  }
  return out;
}

void expect_nested(const TracedStep& traced, const std::string& what) {
  double at = 0, sum = 0;
  const TracedStep::Span* outer = nullptr;
  for (const auto& span : traced.spans) {
    ASSERT_LE(span.begin, span.end) << what << ": " << span.name;
    if (span.call < 0) {
      EXPECT_GE(span.begin, at) << what << ": " << span.name << " begins before the one before it has ended";
      at = span.end, sum += span.end - span.begin, outer = &span;
    } else {
      ASSERT_TRUE(outer);
      EXPECT_GE(span.begin, outer->begin) << what << ": " << span.name;
      EXPECT_LE(span.end, outer->end) << what << ": " << span.name;
    }
  }
  EXPECT_LE(sum, traced.seconds + 1e-9) << what;
  EXPECT_GT(sum, 0.2 * traced.seconds) << what << ": marks take the most of the step";
}

TEST(Trace, HasEveryInstructionCallAndCollective) {
  const Mesh hsdp{{2, 2}, {"dp_replicate", "dp_shard"}};
  struct Case {
    const char* name;
    Mesh mesh;
    GatherWhen gather = GatherWhen::micro_batch;
    Backend backend = Backend::native;
  };
  for (const Case& on :
       {Case{"one rank", {{1}, {"dp_replicate"}}}, Case{"ddp", {{2}, {"dp_replicate"}}},
        Case{"zero 3", {{2}, {"dp_shard"}}},
        Case{"zero 3, layer by layer", {{2}, {"dp_shard"}}, GatherWhen::layers}, Case{"hsdp", hsdp},
        Case{"tp", {{2}, {"tp"}}},
        Case{"reference", {{2}, {"dp_replicate"}}, GatherWhen::micro_batch, Backend::reference}}) {
    TinyRun run{.ranks = static_cast<int>(on.mesh.size()), .mesh = on.mesh, .steps = 2};
    run.options.backend = on.backend;
    run.options.gather = on.gather;
    run.options.bucket_bytes = 4096;
    const TinyResult plain = train_tiny(run);
    int64_t ranks = 0, lines = 0;
    run.traced = [&](const Step& step, const TracedStep& traced) {
      ++ranks;
      EXPECT_EQ(traced.step, 2);
      EXPECT_EQ(told(traced), expected(step.program())) << on.name;
      EXPECT_EQ(static_cast<int64_t>(traced.flights.size()), starts(step.program())) << on.name;
      for (const auto& flight : traced.flights) {
        EXPECT_FALSE(flight.label.empty() || flight.along.empty() || flight.verb.empty()) << on.name;
        EXPECT_GE(flight.begin, 0);
        EXPECT_LE(flight.begin, traced.seconds);
      }
      expect_nested(traced, on.name);
      for (const auto& span : traced.spans)
        lines += span.call >= 0 && span.at.file.ends_with("gpt.cpp") && span.at.scope == "blocks.1.attn.qkv";
      EXPECT_EQ(traced.host.front().name, "inputs");
      for (const auto& phase : traced.host) EXPECT_LE(phase.begin, phase.end);
    };
    expect_same(train_tiny(run), plain, str(on.name, ": a trace changes no bit"));
    EXPECT_EQ(ranks, on.mesh.size());
    EXPECT_GT(lines, 0) << on.name << ": calls know their layer and line";
  }
}

// Runs of several micro-batches do what each does alone.
TEST(Trace, CountsTheWorkOfMicroBatchesThatRunTogether) {
  double flops[2] = {};
  size_t spans[2] = {};
  for (int together : {0, 1}) {
    TinyRun run{.global = 24, .micro = 4, .steps = 2};  // 6 micro-batches
    run.options.together = together ? 3 : 1;
    run.traced = [&](const Step&, const TracedStep& traced) {
      for (const auto& span : traced.spans) flops[together] += span.call >= 0 ? span.flops : 0;
      spans[together] = traced.spans.size();
    };
    train_tiny(run);
  }
  EXPECT_GT(flops[0], 0);
  EXPECT_EQ(flops[0], flops[1]);
  EXPECT_LT(spans[1], spans[0] / 2);
}

}  // namespace
}  // namespace lockstep::tests
