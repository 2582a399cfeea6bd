// The program of a step beside the step that runs: the same waits in the same order on every rank of every
// kind of mesh; and what is wrong with a program is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "compiler/program/build/build.h"
#include "compiler/program/build/sum_forms.h"
#include "compiler/program/check/verify.h"
#include "compiler/program/show/folds.h"
#include "compiler/program/show/listing.h"
#include "compiler/program/show/print.h"
#include "core/base/error.h"
#include "tests/support/tiny_run.h"
#include "tests/train/program/step_arrangements.h"

namespace lockstep::tests {

using namespace compiler;

namespace {

// The labels of a program's waits in order, those inside of blocks among them.
std::vector<std::string> waits_of(const StepProgram& program) {
  std::map<int, std::string> labels;
  std::vector<std::string> out;
  for (const Instr& instr : program.instrs) {
    if (const auto* start = std::get_if<StartCollective>(&instr.what)) labels[start->flight] = start->label;
    if (const auto* wait = std::get_if<Wait>(&instr.what)) out.push_back(labels.at(wait->flight));
    if (const auto* run = std::get_if<RunBlock>(&instr.what)) {
      const ProgramBlock& block = program.blocks[run->block];
      for (int c = run->first; c < run->last; ++c) {
        if (block.calls[c].kind != BlockCall::Kind::wait) continue;
        for (const BlockCall& call : block.calls)
          if (call.kind == BlockCall::Kind::start && call.flight == block.calls[c].flight)
            out.push_back(start_of(block, call, 1).label);
      }
    }
  }
  return out;
}

TinyRun run_of(const Arrangement& arrangement) {
  TinyRun run{
      .compute = arrangement.compute, .global = arrangement.global, .lanes = arrangement.lanes, .steps = 2};
  run.mesh = arrangement.mesh, run.zero = arrangement.zero, run.ranks_per_node = arrangement.ranks_per_node;
  run.options.gather = arrangement.gather, run.options.invariant = arrangement.invariant;
  run.options.bucket_bytes = 5000, run.options.together = arrangement.together;
  if (arrangement.compute == DType::bf16) run.options.precision = "bf16";
  if (arrangement.float8) run.float8 = true, run.width = 32, run.context = 16;  // multiples of 16
  run.float8_options.recipe = arrangement.recipe;
  return run;
}

void expect_refused(const std::string& text, const std::string& words) {
  try {
    parse_program(text);
    ADD_FAILURE() << "is read: " << text.substr(0, 200);
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
  }
}

std::vector<StepProgram> programs_of(const Arrangement& arrangement, bool beside_the_run) {
  std::vector<StepProgram> programs(static_cast<size_t>(arrangement.mesh.size()));
  TinyRun run = run_of(arrangement);
  run.observe = [&](const LiveMesh& mesh, const Step& step) {
    StepProgram program = step.program();
    EXPECT_NO_THROW(verify(program)) << arrangement.name;
    EXPECT_EQ(foretold_sum_forms(step.plan(), {mesh.words, mesh.rank, mesh.seats}), sum_forms(program))
        << arrangement.name;
    if (beside_the_run) {
      std::vector<std::string> waited;
      for (const auto& [label, seconds] : step.waits()) waited.push_back(label);
      EXPECT_EQ(waits_of(program), waited) << arrangement.name << ", rank " << mesh.rank;
    }
    programs[static_cast<size_t>(mesh.rank)] = std::move(program);
  };
  train_tiny(run);
  const int seats = data_ranks_per_node(arrangement.mesh, arrangement.ranks_per_node);
  EXPECT_NO_THROW(verify_together(programs, arrangement.mesh, seats)) << arrangement.name;
  return programs;
}

void expect_to_parse_back(const std::vector<StepProgram>& programs, const Arrangement& arrangement) {
  std::vector<StepProgram> read;
  for (const StepProgram& program : programs) {
    const std::string text = listing(program);
    read.push_back(parse_program(text));
    EXPECT_EQ(listing(read.back()), text);
    EXPECT_EQ(print(read.back()), print(program));
    EXPECT_NO_THROW(verify(read.back()));
    const HeldBytes held = held_bytes(program), again = held_bytes(read.back());
    EXPECT_EQ(std::tuple(again.arena, again.reduction()), std::tuple(held.arena, held.reduction()));
  }
  const int seats = data_ranks_per_node(arrangement.mesh, arrangement.ranks_per_node);
  EXPECT_NO_THROW(verify_together(read, arrangement.mesh, seats));
}

TEST(StepProgram, TheRunWaitsForWhatTheProgramSaysAndItsListingParsesBack) {
  for (const auto& arrangement : arrangements()) {
    SCOPED_TRACE(arrangement.name);
    expect_to_parse_back(programs_of(arrangement, true), arrangement);
  }
}

// Where each rank of DDP has one micro-batch, weights travel while its forward runs; else before all of them.
TEST(StepProgram, DdpOfOneMicroBatchEachGathersInTheBody) {
  for (const auto& arrangement : arrangements()) {
    if (!arrangement.name.starts_with("ddp 2 bf16")) continue;
    for (const StepProgram& program : programs_of(arrangement, false)) {
      int64_t in_body = 0;
      for (const Instr& instr : program.instrs)
        if (const auto* start = std::get_if<StartCollective>(&instr.what))
          in_body += start->label.starts_with("weights ");
      EXPECT_EQ(in_body > 0, arrangement.name.starts_with("ddp 2 bf16, a micro-batch each"));
    }
  }
}

// Rows that a block of the model has, by weight of width 32: qkv, out, up and down.
constexpr std::pair<int64_t, int64_t> kFloat8Weights[] = {{96, 32}, {32, 32}, {128, 32}, {32, 128}};
// What travels of them along dp_shard: a byte an element where the rows lie evenly, else bf16.
int64_t float8_gathers(const Mesh& mesh) {
  int64_t bytes = 0;
  for (auto [rows, columns] : kFloat8Weights)
    bytes += 2 * rows * columns * (rows % mesh.size("dp_shard") == 0 ? 1 : 2);
  return bytes;
}

// Of weights that multiply in float8 the 8-bit copies stay, and of whole ones in bf16, where these travel, a
// bucket and the next.
TEST(StepProgram, Float8KeepsNoWholeWeightsInBf16) {
  for (const auto& arrangement : arrangements()) {
    if (!arrangement.float8) continue;
    SCOPED_TRACE(arrangement.name);
    for (const StepProgram& program : programs_of(arrangement, false)) {
      int64_t gathered = 0, largest = 0;
      for (const Instr& instr : program.instrs)
        if (const auto* start = std::get_if<StartCollective>(&instr.what);
            start && start->label.starts_with("weights of the seed "))
          gathered += start->to.bytes, largest = std::max(largest, start->to.bytes);
      EXPECT_EQ(gathered, float8_gathers(arrangement.mesh));
      // Both layouts take as many bytes as the weights do in bf16.
      const ProgramBlock& seed = program.blocks[kSeedBlock];
      const int64_t block = 2 * (3 + 1 + 4 + 4) * 32 * 32;
      EXPECT_GE(seed.gathers.buckets.size(), 4u);
      // Of delayed scales there are a few numbers for each operand, each with a place of its own.
      const int64_t numbers = arrangement.recipe == Float8Recipe::delayed ? 32 << 10 : 8 << 10;
      EXPECT_LT(seed.arena_bytes(), 2 * block + 2 * (5000 + largest) + numbers);
      for (const Region& region : program.regions)
        if (region.name.starts_with("gathered "))  // over dp_replicate first, where rows lie split over both
          EXPECT_LT(region.bytes, arrangement.mesh.ndim() == 2 ? 2 * 4 * 32 * 32 : 2 * 32 * 32)
              << region.name;
    }
    TinyRun alone = run_of(arrangement);
    const TinyResult together = train_tiny(alone);
    alone.mesh = {{1}, {"dp_replicate"}};
    expect_same(train_tiny(alone), together, arrangement.name);
  }
}

// One micro-batch after another, the seed's weights arrive while the first of them computes; layer by layer,
// and where a rank has none, before.
TEST(StepProgram, TheSeedGathersBesideTheFirstMicroBatch) {
  for (auto arrangement : arrangements()) {
    if (!arrangement.float8) continue;
    for (int64_t global : {arrangement.global, int64_t{4}}) {  // of 4 samples a micro-batch: 6, and 1
      if (global == 4 && arrangement.gather == GatherWhen::layers) continue;
      arrangement.global = global;
      SCOPED_TRACE(str(arrangement.name, " ", global));
      const bool beside = global == 24 && arrangement.gather != GatherWhen::layers;
      for (const StepProgram& program : programs_of(arrangement, false)) {
        size_t first_run = 0, last_gather = 0;
        for (size_t i = 0; i < program.instrs.size(); ++i) {
          const auto* run = std::get_if<RunBlock>(&program.instrs[i].what);
          if (run && run->block == kBodyBlock && !first_run) first_run = i;
          const auto* start = std::get_if<StartCollective>(&program.instrs[i].what);
          if (start && start->label.starts_with("weights of the seed ")) last_gather = i;
        }
        ASSERT_GT(last_gather, 0u);
        if (first_run) EXPECT_EQ(last_gather > first_run, beside);
      }
    }
  }
}

TEST(StepProgram, AListingThatWasChangedIsRefused) {
  const std::string text = listing(programs_of(arrangements()[2], false)[0]);
  auto without = [&](const std::string& line) {
    const size_t at = text.find("\n" + line);
    EXPECT_NE(at, std::string::npos) << line;
    return text.substr(0, at) + text.substr(text.find('\n', at + 1));
  };
  EXPECT_THROW(verify(parse_program(without("wait flight"))), InternalError);
  EXPECT_THROW(verify(parse_program(without("accumulate"))), InternalError);
  expect_refused(without("step"), "no instruction is named");
  expect_refused(without("end"), "no instruction is named \"\"");
  expect_refused("program rank one",
                 "the listing of a program, line 1: \"one\" is not a number of this kind");
  expect_refused("region", "\"region\" is where \"program\" is expected");
  expect_refused(text + "more", "text after the program's end");
  for (size_t end = 0; end < text.size(); end += 97)  // cut anywhere
    EXPECT_THROW(parse_program(text.substr(0, end)), UserError) << end;
}

std::string refusal(const StepProgram& program) {
  try {
    verify(program);
  } catch (const InternalError& error) { return error.what(); }
  return "";
}

// Whether an instruction behind the wait at `i` reads or writes what its collective brings or sends. On some
// ranks none does: what they receive is empty, or read by the host.
bool touched_later(const StepProgram& program, size_t i) {
  const int flight = std::get<Wait>(program.instrs[i].what).flight;
  std::vector<Span> moved;
  for (const Instr& instr : program.instrs)
    if (const auto* start = std::get_if<StartCollective>(&instr.what); start && start->flight == flight)
      moved = {start->to, start->from};
  for (size_t later = i + 1; later < program.instrs.size(); ++later) {
    const Access access = access_of(program, program.instrs[later]);
    auto meets = [&](const std::vector<Span>& spans, const Span& other) {
      return std::any_of(spans.begin(), spans.end(), [&](const Span& span) {
        return span.region == other.region && span.offset < other.offset + other.bytes &&
               other.offset < span.offset + span.bytes;
      });
    };
    if (meets(access.reads, moved[0]) || meets(access.writes, moved[0]) || meets(access.writes, moved[1]))
      return true;
  }
  return false;
}

// Each start and each wait taken out, doubled, and each wait moved behind the next instruction that reads
// what it waits for.
TEST(StepProgram, AProgramWithoutAWaitOrAStartIsRefused) {
  for (const auto& arrangement : arrangements()) {
    if (arrangement.name != "ddp 2" && arrangement.name != "zero 3" && arrangement.name != "hsdp" &&
        arrangement.name != "dp x tp" && arrangement.name != "zero 3 on 2 hosts")
      continue;
    const StepProgram whole = programs_of(arrangement, false)[1];
    int tried = 0;
    for (size_t i = 0; i < whole.instrs.size(); ++i) {
      const auto* wait = std::get_if<Wait>(&whole.instrs[i].what);
      if (!wait && !std::holds_alternative<StartCollective>(whole.instrs[i].what)) continue;
      StepProgram broken = whole;
      broken.instrs.erase(broken.instrs.begin() + static_cast<int64_t>(i));
      EXPECT_NE(refusal(broken), "") << arrangement.name << ": without " << text(whole, whole.instrs[i]);
      broken = whole;
      broken.instrs.insert(broken.instrs.begin() + static_cast<int64_t>(i), whole.instrs[i]);
      EXPECT_NE(refusal(broken), "") << arrangement.name << ": twice " << text(whole, whole.instrs[i]);
      ++tried;
      if (!wait) continue;
      if (!touched_later(whole, i)) continue;
      broken = whole;  // to the end
      broken.instrs.erase(broken.instrs.begin() + static_cast<int64_t>(i));
      broken.instrs.push_back(whole.instrs[i]);
      EXPECT_NE(refusal(broken), "") << arrangement.name << ": late " << text(whole, whole.instrs[i]);
    }
    EXPECT_GT(tried, 6) << arrangement.name;
  }
}

TEST(StepProgram, RefusalsNameTheInstruction) {
  const StepProgram whole = programs_of({.name = "ddp 2", .mesh = {{2}, {"dp_replicate"}}}, false)[0];
  StepProgram broken = whole;
  std::erase_if(broken.instrs, [](const Instr& instr) { return std::holds_alternative<Wait>(instr.what); });
  EXPECT_NE(refusal(broken).find("reads counts and votes while \"count\" is still writing it: run seed"),
            std::string::npos)
      << refusal(broken);
  EXPECT_NE(refusal(broken).find("step program of rank 0: "), std::string::npos) << refusal(broken);
  broken = whole;
  std::erase_if(broken.instrs,
                [](const Instr& instr) { return std::holds_alternative<Accumulate>(instr.what); });
  EXPECT_NE(refusal(broken).find("of which nothing read what it held: run body"), std::string::npos)
      << refusal(broken);
  broken = whole;
  for (Instr& instr : broken.instrs)
    if (auto* add = std::get_if<Accumulate>(&instr.what)) add->to.offset += 64;
  EXPECT_NE(refusal(broken).find("are outside region exchange 0 sum 0"), std::string::npos)
      << refusal(broken);
}

// The gathers of a bucket of weights are one launch: all but the last say that the next one follows.
TEST(StepProgram, GathersOfABucketAreOneLaunch) {
  const auto whole = programs_of({.name = "zero 3", .mesh = {{2}, {"dp_shard"}}}, false);
  std::map<std::string, std::pair<int, int>> of;  // by label: gathers, launches
  for (const Instr& instr : whole[0].instrs)
    if (const auto* start = std::get_if<StartCollective>(&instr.what);
        start && start->label.starts_with("weights "))
      ++of[start->label].first, of[start->label].second += !start->more;
  ASSERT_GT(of.size(), 2u);
  int most = 0;
  for (const auto& [label, counts] : of) {
    EXPECT_EQ(counts.first % counts.second, 0) << label << " once in each micro-batch";
    most = std::max(most, counts.first / counts.second);
  }
  EXPECT_GT(most, 4) << "a layer's weights";
  auto broken = whole[0];
  for (Instr& instr : broken.instrs)
    if (auto* start = std::get_if<StartCollective>(&instr.what);
        start && start->label.starts_with("weights ") && !start->more) {
      start->more = true;
      break;
    }
  try {
    verify(broken);
    FAIL() << "a launch that waits for a gather which does not come";
  } catch (const InternalError& error) {
    EXPECT_NE(
        std::string(error.what()).find("is launched with a gather along dp_shard, which does not follow"),
        std::string::npos)
        << error.what();
  }
}

TEST(StepProgram, RanksThatDisagreeAreRefused) {
  const Mesh mesh{{2}, {"dp_shard"}};
  const auto whole = programs_of({.name = "zero 3", .mesh = mesh}, false);
  auto said = [&](const std::vector<StepProgram>& programs) -> std::string {
    try {
      verify_together(programs, mesh, 0);
    } catch (const InternalError& error) { return error.what(); }
    return "";
  };
  auto first = [](StepProgram& program, StartCollective::Verb verb) -> StartCollective& {
    for (Instr& instr : program.instrs)
      if (auto* start = std::get_if<StartCollective>(&instr.what); start && start->verb == verb)
        return *start;
    throw InternalError("no such collective");
  };
  auto broken = whole;
  std::erase_if(broken[1].instrs, [](const Instr& instr) {
    const auto* start = std::get_if<StartCollective>(&instr.what);
    return start && start->label == "norm";
  });
  EXPECT_NE(said(broken).find("along dp_shard rank 0 starts "), std::string::npos) << said(broken);
  broken = whole;
  StartCollective& gather = first(broken[1], StartCollective::Verb::all_gather);
  const std::string before = gather.more ? " with the next" : "";
  gather.label = "weights 77";
  EXPECT_NE(said(broken).find(str("differ: all_gather f32 \"weights 0\"", before,
                                  " and all_gather f32 \"weights 77\"", before)),
            std::string::npos)
      << said(broken);
  broken = whole;
  bool& more = first(broken[1], StartCollective::Verb::all_gather).more;
  more = !more;
  EXPECT_NE(said(broken).find("differ: all_gather f32 \"weights 0\""), std::string::npos) << said(broken);
  broken = whole;
  ++first(broken[0], StartCollective::Verb::all_to_all).send[1];
  EXPECT_NE(said(broken).find("elements, and rank 1 receives "), std::string::npos) << said(broken);
}

// A step of many micro-batches is written once.
TEST(StepProgram, WhatRepeatsIsPrintedOnce) {
  Arrangement many{.name = "ddp 2", .mesh = {{2}, {"dp_replicate"}}, .global = 256};
  const std::string text = print(programs_of(many, false)[0]);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 320) << text;
  for (const char* words :
       {"program of rank 0, mesh ", "phase body: ", "each step, in order", "micro-batch 0", "run body",
        "add gradients of exchange 0, ", "sum 0 = sum 0 + (sum 1 + gradients)",
        "micro-batch 1, sum 0 = sum 0 + gradients, else as micro-batch 0",
        "start all_to_all \"exchange 0\" along dp_replicate: ", "wait \"exchange 0\"", "update "})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
}

}  // namespace
}  // namespace lockstep::tests
