// A report of a small config, against what can be counted by hand; and the shipped workloads' predicted times
// beside the measured ones.
#include <gtest/gtest.h>

#include "compiler/program/sums/make_bucket_sum.h"
#include "compiler/program/words/writer.h"
#include "core/base/error.h"
#include "launcher/plan/foretold.h"
#include "launcher/plan/report.h"

namespace lockstep {

using namespace compiler;
using namespace launcher;

namespace {

RunConfig small() {
  return parse_config(
      R"({"name": "small", "model": {"kind": "gpt", "vocab": 32, "context": 8, "width": 16, "depth": 3, "heads": 2},
    "data": {"paths": ["a.txt"], "kind": "tokens"}, "batch": {"global": 24, "micro": 2}, "train": {"device": "cpu"},
    "compile": {"bucket_bytes": 4096}})",
      "small.json");
}

TEST(PlanReport, TensorsAreGroupedByWhatTheyShare) {
  PaperRun run(small(), 4, cpu_target());
  std::vector<std::string> rows;
  int64_t sum = 0, count = 0;
  for (const auto& t : tensor_rows(run.state)) {
    rows.push_back(str(t.role, " ", t.name, " ", t.type, " ", t.count, " x ", t.bytes, " ", t.placements));
    sum += t.count * t.bytes;
    count += t.count;
  }
  EXPECT_EQ(count, static_cast<int64_t>(run.state.specs().size()));
  EXPECT_EQ(sum, run.state.bytes_per_rank());
  ASSERT_EQ(rows.size(), 32u);  // 16 rows of weights, however many layers, and their moments
  EXPECT_EQ(rows[0], "weights token.weight f32[32,16] 1 x 2048 ");
  EXPECT_EQ(rows[4], "weights blocks.*.attn.qkv.weight f32[48,16] 3 x 3072 ");
  EXPECT_EQ(rows[16],
            "moments optim.token.weight.{exp_avg,exp_avg_sq} f32[32,16] 2 x 512 dp_replicate: Shard(0)");
  EXPECT_EQ(rows[20],
            "moments optim.blocks.*.attn.qkv.weight.{exp_avg,exp_avg_sq} f32[48,16] 6 x 768 dp_replicate: "
            "Shard(0)");
}

// 3 micro-batches on each of 4 ranks, and one more every 100 steps.
TEST(PlanReport, WhatIsComputedAgainIsTold) {
  RunConfig config = small();
  EXPECT_EQ(make_report(config, PaperRun(config, 4, cpu_target()), nullptr).recomputations, "");
  config.verify.recompute_every = 100;
  const PlanReport four = make_report(config, PaperRun(config, 4, cpu_target()), nullptr);
  EXPECT_EQ(
      four.recomputations,
      "one micro-batch on every rank, every 100 steps and before each save: 0.333 % more than the 300 of "
      "these steps");
  EXPECT_NE(plan_text(four).find("  computed again            one micro-batch on every rank, "),
            std::string::npos);
  EXPECT_EQ(make_report(config, PaperRun(config, 1, cpu_target()), nullptr).recomputations,
            "nothing: one data rank has no other to compare with (verify.recompute_every)");
}

// Muon reads the matrices of the blocks whole: 12 of 12 x 16 x 16 numbers a block.
TEST(PlanReport, WhatUpdatesReadWholeIsTold) {
  RunConfig config = small();
  EXPECT_EQ(make_report(config, PaperRun(config, 4, cpu_target()), nullptr).whole_updates, "");
  config.optim.kind = "muon";
  EXPECT_EQ(make_report(config, PaperRun(config, 1, cpu_target()), nullptr).whole_updates, "");
  const PlanReport four = make_report(config, PaperRun(config, 4, cpu_target()), nullptr);
  EXPECT_EQ(
      four.whole_updates,
      "12 tensors, 36.00 KiB, gathered over dp_replicate once a step; every rank computes these updates");
  EXPECT_NE(plan_text(four).find("  whole updates             12 tensors, 36.00 KiB"), std::string::npos);
}

// 3 micro-batches on each of 4 ranks, of 12 in 12 lanes.
TEST(PlanReport, CollectivesAreCountedByHand) {
  RunConfig config = small();
  Roofline slow{.name = "slow",
                .contraction = {{"fp32", 1e9}},
                .memory = 1e9,
                .inside = {1e6, 1e-3},
                .across = {1e6, 1e-3},
                .ranks_per_node = 4};
  PaperRun run(config, 4, cpu_target());
  PlanReport report = make_report(config, run, &slow);
  EXPECT_EQ(report.parameters, 32 * 16 + 8 * 16 + 3 * (12 * 16 * 16 + 13 * 16) + 2 * 16);
  ASSERT_EQ(report.prediction.traffic.size(), 3u);
  std::map<std::string, TrafficRow> rows;
  for (const auto& row : report.prediction.traffic) {
    EXPECT_EQ(row.dims, "dp_replicate");
    rows[row.op] = row;
  }
  // Three of four ranks' rows of each gradient leave, in as many partial sums as the rank with most of them
  // holds: lanes [3,6) are the subtrees 3 and 4-5. The loss is exchanged too, one f32, whose owner is the
  // first rank; a rank that owns none of it sends it all.
  const auto buckets = static_cast<int64_t>(run.step.plan.phases.buckets.size());
  EXPECT_EQ(rows["lane_exchange"].count, buckets);
  EXPECT_GE(rows["lane_exchange"].bytes, 2 * 3 * (report.parameters * 4 / 4));
  EXPECT_LE(rows["lane_exchange"].bytes, 2 * 3 * (report.parameters * 4 / 4) + 8);
  // New weights, and the loss, which one rank has.
  EXPECT_EQ(rows["all_gather"].bytes, 3 * (report.parameters * 4 / 4 + 4));
  EXPECT_EQ(rows["all_reduce"].count, 2);  // token counts with two votes, and the exact norm
  EXPECT_EQ(rows["all_reduce"].bytes, 2 * (24 + 64) * 3 / 4);
  // Links in closed form: a millisecond and a microsecond per byte.
  for (const auto& [op, row] : rows)
    EXPECT_NEAR(row.seconds, 1e-3 * static_cast<double>(row.count) + 1e-6 * static_cast<double>(row.bytes),
                2e-5)  // the loss: this rank has it, the others send it
        << op;
  EXPECT_LT(rows["all_gather"].exposed_s, rows["all_gather"].seconds);  // updates hide the first
  EXPECT_EQ(rows["all_reduce"].exposed_s, rows["all_reduce"].seconds);
  EXPECT_LT(rows["lane_exchange"].exposed_s, rows["lane_exchange"].seconds);
  // The last bucket has nothing behind it.
  EXPECT_GT(rows["lane_exchange"].exposed_s, 1e-3);
  EXPECT_EQ(report.prediction.micro_batches, 3);
  EXPECT_NEAR(report.prediction.step_s,
              3 * report.prediction.body_s + report.prediction.once_s + report.prediction.exposed_s, 1e-12);
  EXPECT_FALSE(report.prediction.beyond_node);
  const TimeShares& shares = report.prediction.shares;
  EXPECT_NEAR(shares.arithmetic + shares.memory + shares.launches + shares.exposed, report.prediction.step_s,
              1e-9);
  EXPECT_NEAR(shares.exposed, report.prediction.exposed_s, 1e-12);
  EXPECT_GT(shares.arithmetic, 0);
  EXPECT_EQ(report.prediction.peak_flops_per_s, 1e9);
  EXPECT_TRUE(report.predicted);
  EXPECT_EQ(report.uses.size(), 8u);  // 12 ranks with one micro-batch each, too
  PaperRun eight(config, 8, cpu_target());
  EXPECT_TRUE(make_report(config, eight, &slow).prediction.beyond_node);
}

TEST(PlanReport, BucketsReachNineTenthsOfTheLink) {
  for (const std::string& name : roofline_names())
    for (const LinkSpeed& link : {roofline_named(name).inside, roofline_named(name).across}) {
      const auto bytes = static_cast<double>(bucket_bytes_for(link, int64_t{1} << 40));
      const double share = bytes / link.bandwidth / (link.latency + bytes / link.bandwidth);
      EXPECT_NEAR(share, 0.9, 0.01) << name << ", " << bytes;
      // Few gradients: quarters, down to what takes the latency alone.
      EXPECT_LE(bucket_bytes_for(link, static_cast<int64_t>(bytes)),
                std::max<int64_t>(1 << 20, static_cast<int64_t>(bytes) / 4));
      EXPECT_GE(bucket_bytes_for(link, 1), int64_t{1} << 20);
      EXPECT_GE(static_cast<double>(bucket_bytes_for(link, 1)) + (1 << 20), link.latency * link.bandwidth);
    }
  EXPECT_EQ(gather_bytes_for(100, 10000), 400);
  EXPECT_EQ(gather_bytes_for(100, 1600), 200) << "an eighth of the weights";
  EXPECT_EQ(gather_bytes_for(100, 80), 100) << "not less than gradients";
  RunConfig config = small();
  config.compile.bucket_bytes = 0;
  PaperRun run(config, 4, cpu_target());
  const Roofline cpu = roofline_named("cpu");
  PlanReport report = make_report(config, run, &cpu);
  EXPECT_EQ(report.bucket_bytes, bucket_bytes_for(cpu.inside, 4 * report.parameters));
  EXPECT_EQ(report.buckets, 1);
  EXPECT_NE(plan_text(report).find("buckets                   1 of about 1.00 MiB\n"), std::string::npos)
      << plan_text(report);
}

// The planner's choice, and the words that say it.
TEST(PlanReport, WhenWeightsAreGathered) {
  RunConfig config = small();
  config.mesh.shape = {4}, config.mesh.dim_names = {"dp_shard"};
  auto gathers = [&] {
    PaperRun run(config, 4, cpu_target());
    PlanReport report = make_report(config, run, nullptr, "nobody asked");
    EXPECT_TRUE(report.gathers.empty() || plan_text(report).find(report.gathers) != std::string::npos);
    return report.gathers;
  };
  EXPECT_EQ(gathers(), "once per step, kept over its micro-batches");
  config.mesh.gather = "micro_batch";
  EXPECT_EQ(gathers(),
            "in each micro-batch, a bucket ahead of use; freed after forward, and again for backward");
  config.mesh.reshard_after_forward = false;
  EXPECT_EQ(gathers(), "in each micro-batch, a bucket ahead of use; kept from forward to backward");
  config.mesh.gather = "layers";
  EXPECT_EQ(gathers(),
            "layer by layer over the micro-batches, a bucket ahead of use; kept from forward to backward");
  config.mesh.gather = "auto", config.mesh.reshard_after_forward = true, config.mesh.zero = 2;
  EXPECT_EQ(gathers(), "");
  // 2.4 GiB of weights: on the CPU they are gathered in pieces, on a GPU once, where that saves anything.
  config.mesh.zero = 3;
  config.model.options = {{"vocab", 300000}, {"width", 2048}, {"heads", 16}, {"depth", 1}};
  EXPECT_EQ(gathers().substr(0, 7), "in each");
  config.train.device = "cuda";
  EXPECT_EQ(gathers().substr(0, 4), "once");
  // A device that has not the room for it.
  Roofline small_device = roofline_named("h200");
  small_device.capacity = int64_t{18} << 30;
  PaperRun tight(config, 4, cpu_target(), &small_device);
  EXPECT_EQ(make_report(config, tight, &small_device).gathers.substr(0, 7), "in each");
  config.batch.global = 8;
  EXPECT_EQ(gathers().substr(0, 7), "in each");
}

// Layer by layer a weight travels once where each micro-batch would fetch it, and activations of all
// micro-batches lie side by side; `auto` takes the first way that the device has the room for.
TEST(PlanReport, LayerByLayerTradesActivationsForGathers) {
  RunConfig config = small();
  config.mesh.shape = {4}, config.mesh.dim_names = {"dp_shard"};
  config.model.options = {{"vocab", 300000}, {"width", 2048}, {"heads", 16}, {"depth", 1}};
  config.train.device = "cuda";
  struct Way {
    int64_t gathers = 0, bytes = 0, arena = 0, needs = 0;
  };
  auto planned = [&](const std::string& gather) {
    config.mesh.gather = gather;
    const Roofline h200 = roofline_named("h200");
    PaperRun run(config, 4, cpu_target(), &h200);
    const PlanReport report = make_report(config, run, &h200);
    Way out{0, 0, run.step.held.arena,
            device_needs(config, run.state, run.trainer, run.step, 0, library_bounds(config, cpu_target()))
                .total()};
    for (const auto& row : report.prediction.traffic)
      if (row.op == "weight_gather") out.gathers = row.count, out.bytes = row.bytes;
    return out;
  };
  const Way once = planned("step"), layers = planned("layers"), each = planned("micro_batch");
  const int64_t slots = config.batch.global / config.batch.micro / 4;
  ASSERT_GE(slots, 2);
  EXPECT_EQ(each.gathers, slots * layers.gathers);
  EXPECT_EQ(each.bytes, slots * layers.bytes);
  EXPECT_EQ(once.gathers, 0);
  EXPECT_GT(layers.arena, each.arena);
  EXPECT_LT(layers.arena, slots * each.arena) << "weights, and what no micro-batch keeps, are there once";
  ASSERT_LT(layers.needs, once.needs);
  config.mesh.gather = "auto";
  for (auto [capacity, words] : {std::pair{once.needs, "once"},
                                 {once.needs - 1, "laye"},
                                 {layers.needs, "laye"},
                                 {layers.needs - 1, "in e"}}) {
    Roofline device = roofline_named("h200");
    device.capacity = capacity;
    PaperRun run(config, 4, cpu_target(), &device);
    EXPECT_EQ(make_report(config, run, &device).gathers.substr(0, 4), words) << capacity;
  }
}

TEST(PlanReport, OneRankSendsNothing) {
  RunConfig config = small();
  PaperRun run(config, 1, cpu_target());
  PlanReport report = make_report(config, run, nullptr, "nobody asked");
  EXPECT_TRUE(report.prediction.traffic.empty());
  EXPECT_FALSE(report.predicted);
  EXPECT_EQ(report.no_prediction, "nobody asked");
  EXPECT_NE(plan_text(report).find("collectives: none, it is one rank\n"), std::string::npos);
  EXPECT_EQ(report.state + report.arena + report.reduction,
            run.state.bytes_per_rank() + run.step.held.arena + run.step.held.reduction());
  int64_t regions = 0;
  for (const auto& region : report.regions) regions += region.bytes;
  EXPECT_EQ(regions, report.arena + report.reduction);
  config.compile.backend = "reference";
  PaperRun reference(config, 1, cpu_target());
  Roofline cpu = roofline_named("cpu");
  EXPECT_EQ(make_report(config, reference, &cpu).no_prediction,
            "the reference backend has no calls whose time could be foretold");
}

// Eight lines, the verdict second, whatever the device; then what limits.
TEST(PlanReport, TheFirstScreen) {
  RunConfig config = small();
  PaperRun run(config, 2, cpu_target());
  Roofline slow{.name = "slow",
                .contraction = {{"fp32", 1e9}},
                .memory = 1e9,
                .inside = {1e6, 1e-3},
                .across = {1e6, 1e-3},
                .ranks_per_node = 4};
  PlanReport report = make_report(config, run, &slow);
  report.needs.parts = {
      {"weights", 3 << 20, false}, {"activations", 5 << 20, false}, {"libraries", 1 << 20, true}};
  auto lines = [&] { return split(plan_screen(report), '\n'); };
  EXPECT_EQ(lines().size(), 9u) << plan_screen(report);  // the last one is empty
  EXPECT_EQ(lines()[0], "small on 2 ranks, mesh [dp_replicate=2]; 10,512 parameters");
  EXPECT_EQ(lines()[1], "  fits      not known: --memory BYTES says what a rank's device has");
  EXPECT_EQ(lines()[2],
            "  memory    at most 9.00 MiB a rank: activations 5.00 MiB, weights 3.00 MiB, "
            "libraries at most 1.00 MiB");
  EXPECT_EQ(lines()[3].substr(0, 12), "  step      ");
  EXPECT_EQ(lines()[6].substr(0, 35), "  limits    exposed communication 9") << plan_screen(report);
  EXPECT_EQ(lines()[7],
            "  more      --long: tensors, memory by region, collectives; --json; --program; show --graph: a "
            "picture");
  EXPECT_EQ(plan_text(report).find(plan_screen(report)), 0u) << "--long begins with it";
  report.capacity = 8 << 20;
  EXPECT_EQ(lines()[1],
            "  fits      no, on a device of 8.00 MiB (roofline slow); --memory says another size");
  report.capacity = 18 << 20;
  EXPECT_EQ(lines()[1].substr(0, 36), "  fits      yes, on a device of 18.0");
  report.available = 18 << 20;
  EXPECT_EQ(lines()[1], "  fits      yes: the device has 18.00 MiB, 50 % of it is needed");
  report.available = 8 << 20;
  EXPECT_EQ(lines()[1],
            "  fits      no: the device has 8.00 MiB; nor does a smaller batch.micro, on up to 8 times the "
            "ranks");
  report.nearest = Fit{1, 4, 7 << 20, "[dp_shard=4]"};
  EXPECT_EQ(lines()[1],
            "  fits      no: the device has 8.00 MiB; nearest that does: batch.micro 1 on 4 ranks, mesh "
            "[dp_shard=4] (7.00 MiB)");
  report.available = 0, report.host = {32 << 20, "MemAvailable"}, report.host_ranks = 2;
  EXPECT_EQ(lines()[1], "  fits      yes, on this host: 2 ranks take at most 18.00 MiB of its 32.00 MiB");
  report.host.bytes = 15 << 20;
  EXPECT_EQ(
      lines()[1],
      "  fits      not on this host: 2 ranks take 16.00 MiB of its 15.00 MiB; trainrun run would refuse "
      "it here");
  report.ranks = 8, report.host_by = "mesh.ranks_per_node", report.host.bytes = 32 << 20;
  EXPECT_EQ(
      lines()[1],
      "  fits      yes, on this host: 2 of the 8 ranks take at most 18.00 MiB of its 32.00 MiB (2 a host, "
      "by mesh.ranks_per_node)");
  PlanReport none = make_report(config, run, nullptr, "nobody asked");
  EXPECT_NE(plan_screen(none).find("\n  step      not predicted: nobody asked\n"), std::string::npos);
}

// What a rank's sums hold, as its program says it.
int64_t held_by_sums(const LanePlan& lanes, int seats) {
  StepProgram program;
  ProgramWriter writer(program);
  SumTurns turns;
  const SumPlan plan{.lanes = lanes,
                     .owners = RowOwners::alone(lanes.ranks),
                     .seats = exchanges_by_host(lanes, true, seats) ? seats : 0,
                     .limits = {}};
  const std::vector<Shape> shapes{{5, 3}, {17}, {64, 2}};
  const std::vector<Span> gradients{writer.region(Region::Kind::arena, "a", 60),
                                    writer.region(Region::Kind::arena, "b", 68),
                                    writer.region(Region::Kind::arena, "c", 512)};
  auto sum = make_bucket_sum(writer, plan, turns, 0, shapes, DType::f32);
  for (int64_t slot = 0; slot < lanes.slots(lanes.rank); ++slot)
    sum->add(slot, lanes.micro_batch(lanes.rank, slot) < 0 ? std::vector<Span>{} : gradients);
  sum->end();
  sum->wait();
  return held_bytes(program).reduction();
}

// A few ranks stand for all: no other rank holds more of any bucket.
TEST(PlanReport, TheFullestRanksAreAmongTheFew) {
  for (LaneOrder order : {LaneOrder::contiguous, LaneOrder::interleaved})
    for (int ranks : {1, 2, 3, 4, 5, 7, 12, 16, 30, 36})
      for (int64_t lanes : {1, 6, 12, 24})
        for (int seats : {0, 2, 3, 4, 6}) {
          if (seats && (ranks % seats || ranks == seats)) continue;
          LanePlan plan{24, lanes, ranks, 0, order};
          const int used = exchanges_by_host(plan, true, seats) ? seats : 0;
          const auto few = fullest_ranks(plan, used);
          auto held = [&](int r) {
            plan.rank = r;
            return held_by_sums(plan, used);
          };
          int64_t of_few = 0, of_all = 0;
          for (int r : few) of_few = std::max(of_few, held(r));
          for (int r = 0; r < ranks; ++r) of_all = std::max(of_all, held(r));
          EXPECT_EQ(of_few, of_all) << ranks << " ranks, " << lanes << " lanes, hosts of " << used
                                    << (order == LaneOrder::contiguous ? "" : ", in rounds");
          EXPECT_EQ(few[0], 0);
          EXPECT_LE(few.size(), 12u) << ranks << " ranks, " << lanes << " lanes, hosts of " << used;
        }
}

// Step times measured on one H200 (bench/results/before-2026-11-22.md), within what a roofline can say.
TEST(PlanReport, PredictsWhatWasMeasured) {
  const std::pair<const char*, double> measured[] = {
      {"gpt2_124m", 0.1139}, {"gpt2_1558m", 0.3271}, {"llama_1b5", 0.2733}};
  Roofline h200 = roofline_named("h200");
  for (auto [name, seconds] : measured) {
    RunConfig config = load_config(str(LOCKSTEP_CONFIGS "/", name, ".json"));
    PaperRun run(config, 1, cpu_target());
    const double predicted = predict(config, run.words, run.step, h200).step_s;
    EXPECT_NEAR(predicted / seconds, 1, 0.1) << name << ": predicted " << predicted;
  }
}

TEST(PlanReport, BesideTheMeasuredTimeAfterTenSteps) {
  RunConfig config = small();
  PaperRun run(config, 1, cpu_target());
  Foretold foretold(config, units_of_step(config), run.state.mesh(), run.step.plan, cpu_device());
  for (int step = 1; step < 10; ++step)
    EXPECT_FALSE(foretold.measured(step < 3 ? 5.0 : 0.1 * step).has_value());
  auto line = foretold.measured(1.0);
  ASSERT_TRUE(line.has_value());
  EXPECT_DOUBLE_EQ(foretold.median_s(), 0.65);  // of 0.3 to 1.0: the first two do not count
  EXPECT_EQ(*line, str("predicted ", seconds_text(foretold.predicted_s()),
                       ", measured 650 ms a step (roofline cpu)"));
  EXPECT_FALSE(foretold.measured(1.0).has_value());
  config.compile.backend = "reference";
  PaperRun reference(config, 1, cpu_target());
  Foretold none(config, units_of_step(config), reference.state.mesh(), reference.step.plan, cpu_device());
  for (int step = 1; step < 10; ++step) none.measured(0.25);
  EXPECT_EQ(none.measured(0.25).value(),
            "measured 250 ms a step; not predicted (the reference backend has no calls whose time could be "
            "foretold)");
}

}  // namespace
}  // namespace lockstep
