// Clocks on programs made by hand: what travels beside what is computed, and what is waited for.
#include <gtest/gtest.h>

#include "launcher/plan/timeline.h"

namespace lockstep {

using namespace compiler;

namespace {

// Calls take whole seconds: 10 bytes each. A link takes a second, and one for 8 bytes.
const launcher::Roofline kSimple{.name = "simple",
                                 .contraction = {{"fp32", 1}},
                                 .memory = 10,
                                 .inside = {8, 1},
                                 .across = {2, 3},
                                 .ranks_per_node = 4};
const Mesh kTwo{{2}, {"dp_shard"}};

struct Sketch {
  StepProgram program;
  explicit Sketch(int calls = 100) {
    ProgramBlock block;
    block.calls.resize(static_cast<size_t>(calls));
    for (BlockCall& call : block.calls) call.bytes = 10;
    program.blocks.push_back(std::move(block));
    program.block_names = {"body"};
    program.regions = {{Region::Kind::value, "v", 1000}};
  }
  Sketch& run(int first, int last, int micro_batch = 0) {
    program.instrs.push_back(
        {.what = RunBlock{0, first, last, {}, {}, {}}, .micro_batch = micro_batch, .at = {}});
    return *this;
  }
  // Sends so many bytes to the other rank.
  Sketch& start(const std::string& label, int64_t bytes, int micro_batch = 0) {
    program.instrs.push_back({StartCollective{.verb = StartCollective::Verb::all_to_all,
                                              .along = "dp_shard",
                                              .dtype = DType::u8,
                                              .send = {0, bytes},
                                              .receive = {0, bytes},
                                              .flight = program.flights++,
                                              .label = label},
                              micro_batch});
    return *this;
  }
  Sketch& wait(int flight) {
    program.instrs.push_back({Wait{flight}});
    return *this;
  }
  launcher::Timeline timeline(const Mesh& mesh = kTwo) const {
    return launcher::timeline_of(program, {mesh, 0, kSimple, "fp32"});
  }
};

double exposed(const launcher::Timeline& timeline) {
  double sum = 0;
  for (const auto& flight : timeline.flights) sum += flight.exposed;
  return sum;
}

TEST(Timeline, WhatLeavesDuringTheBackward) {
  // Nothing hides what starts at the end.
  auto last = Sketch().run(0, 10).start("exchange 0", 16).wait(0).timeline();
  EXPECT_EQ(last.end, 13);
  EXPECT_EQ(exposed(last), 3);
  ASSERT_EQ(last.stalls.size(), 1u);
  EXPECT_EQ(last.stalls[0].begin, 10);
  EXPECT_EQ(last.stalls[0].end, 13);
  // There before the end.
  auto hidden = Sketch().run(0, 4).start("exchange 0", 16).run(4, 10).wait(0).timeline();
  EXPECT_EQ(hidden.end, 10);
  EXPECT_EQ(exposed(hidden), 0);
  EXPECT_TRUE(hidden.stalls.empty());
  // One link: the second leaves when the first has arrived.
  auto queue = Sketch()
                   .run(0, 2)
                   .start("exchange 0", 32)
                   .run(2, 4)
                   .start("exchange 1", 32)
                   .run(4, 10)
                   .wait(0)
                   .wait(1)
                   .timeline();
  EXPECT_EQ(queue.flights[1].begin, 7);
  EXPECT_EQ(queue.end, 12);
  EXPECT_EQ(queue.flights[0].exposed, 0);
  EXPECT_EQ(queue.flights[1].exposed, 2);
  EXPECT_EQ(queue.work.size(), 3u);
}

TEST(Timeline, WhatIsReadDuringTheForward) {
  // The first has nothing before it; then one travels while the one before is used.
  auto weights = Sketch()
                     .start("weights 0", 16)
                     .wait(0)
                     .start("weights 1", 16)
                     .run(0, 4)
                     .wait(1)
                     .start("weights 2", 40)
                     .run(4, 8)
                     .wait(2)
                     .run(8, 12)
                     .timeline();
  EXPECT_EQ(weights.flights[0].exposed, 3);
  EXPECT_EQ(weights.flights[1].exposed, 0);
  EXPECT_EQ(weights.flights[2].exposed, 2);
  EXPECT_EQ(weights.end, 12 + 5);
  EXPECT_EQ(weights.routes[0].op, "weight_gather");
}

TEST(Timeline, PartsOfOneCollectivePayOnce) {
  auto parts = Sketch()
                   .start("exchange 0 part 0", 16)
                   .start("exchange 0 part 1", 16)
                   .start("exchange 1", 16)
                   .run(0, 1)
                   .wait(0)
                   .wait(1)
                   .wait(2)
                   .timeline();
  EXPECT_FALSE(parts.flights[0].goes_on);
  EXPECT_TRUE(parts.flights[1].goes_on);
  EXPECT_FALSE(parts.flights[2].goes_on);
  EXPECT_EQ(parts.flights[1].end, 1 + 2 + 2);
  EXPECT_EQ(parts.end, 5 + 1 + 2);
  // The same weights for the next micro-batch are another collective.
  auto again = Sketch().start("weights 0", 8).wait(0).start("weights 0", 8, 1).wait(1).timeline();
  EXPECT_FALSE(again.flights[1].goes_on);
  EXPECT_EQ(again.end, 4);
  EXPECT_EQ(again.routes.size(), 1u);
}

TEST(Timeline, OneRankSendsNothingAndAcrossNodesIsSlower) {
  const Mesh alone{{1}, {"dp_shard"}}, far{{8}, {"dp_shard"}};
  Sketch sketch;
  sketch.start("exchange 0", 14).wait(0);
  EXPECT_EQ(sketch.timeline(alone).end, 0);
  EXPECT_EQ(sketch.timeline(far).end, 3 + 14 * (4.0 / 7) / 2);
}

// What is not a block's call reads and writes at the memory's rate.
TEST(Timeline, SumsTakeTheirBytes) {
  Sketch sketch;
  sketch.program.instrs.push_back({ZeroSpan{{0, 0, 20}}});
  sketch.program.instrs.push_back({CopySpans{{{{0, 0, 30}, {0, 40, 30}}}}});
  sketch.program.instrs.push_back({CopySpans{}});
  const auto timeline = sketch.timeline();
  EXPECT_EQ(timeline.end, 2 + 6);
  EXPECT_EQ(timeline.work.size(), 2u);
}

// Two ways between device and host, each with a second of latency and one for 5 bytes, beside what is
// computed and beside each other.
TEST(Timeline, CopiesGoBothWaysAtOnce) {
  Sketch sketch;
  sketch.program.regions.push_back({Region::Kind::state, "m", 100, true});
  const auto copy = [&](bool to_host, int64_t at) {
    const Span here{0, at, 10}, host{1, at, 10};
    StartCopies start{
        to_host, {{to_host ? host : here, to_host ? here : host}}, sketch.program.flights++, "m"};
    sketch.program.instrs.push_back({std::move(start)});
  };
  copy(false, 0), copy(false, 10);
  sketch.run(0, 4).wait(0);
  copy(true, 0);
  sketch.wait(1);
  copy(true, 10);
  sketch.wait(2).wait(3);
  launcher::Roofline device = kSimple;
  device.host = {5, 1};
  const auto timeline = launcher::timeline_of(sketch.program, {kTwo, 0, device, "fp32"});
  ASSERT_EQ(timeline.flights.size(), 4u);
  EXPECT_EQ(timeline.flights[0].end, 3);
  EXPECT_EQ(timeline.flights[1].end, 6) << "behind the first on its way";
  EXPECT_EQ(timeline.flights[0].exposed, 0) << "beside what is computed";
  EXPECT_EQ(timeline.flights[2].begin, 4);
  EXPECT_EQ(timeline.flights[2].end, 7) << "beside the second that comes";
  EXPECT_EQ(timeline.flights[3].end, 10);
  EXPECT_EQ(timeline.end, 10);
  EXPECT_EQ(exposed(timeline), 2 + 1 + 3);
  EXPECT_EQ(timeline.routes[timeline.flights[0].route].along, "the way to the device");
  EXPECT_EQ(timeline.routes[timeline.flights[3].route].along, "the way to the host");
  // Where both are one memory, 10 bytes are read and written, and what is computed stands still.
  const auto one = sketch.timeline();
  EXPECT_EQ(one.end, 4 + 4 * 2);
  EXPECT_TRUE(one.flights.empty());
}

}  // namespace
}  // namespace lockstep
