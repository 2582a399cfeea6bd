// Rooflines and links in closed form; the printers on a report made by hand.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/json.h"
#include "launcher/machine/idle_ranks.h"
#include "launcher/plan/report.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {

using namespace launcher;

namespace {

Roofline simple() {
  return {.name = "simple",
          .contraction = {{"fp32", 100}, {"bf16", 400}},
          .attention = {{"fp32", 50}},
          .memory = 10,
          .launch = 0.5,
          .inside = {8, 1},
          .across = {2, 3},
          .ranks_per_node = 4,
          .measured_on = "paper"};
}
std::string refusal(const std::string& text) {
  try {
    parse_roofline(text, "r.json");
  } catch (const UserError& error) { return error.what(); }
  return "accepted";
}

TEST(Roofline, ACallTakesWhatIsSlowerAndItsLaunch) {
  std::vector<compiler::BlockCall> calls(5);
  calls[0].family = "contraction", calls[0].flops = 800, calls[0].bytes = 10;
  calls[1].family = "contraction", calls[1].flops = 800, calls[1].bytes = 100;
  calls[2].family = "attention", calls[2].flops = 800, calls[2].bytes = 10;
  calls[3].family = "kernel", calls[3].bytes = 25;
  calls[4].family = "collective", calls[4].bytes = 25, calls[4].kind = compiler::BlockCall::Kind::start;
  EXPECT_EQ(call_seconds(calls, "fp32", simple()), (std::vector<double>{8.5, 10.5, 16.5, 3.0, 0}));
  EXPECT_EQ(call_seconds(calls, "bf16", simple()),
            (std::vector<double>{2.5, 10.5, 16.5, 3.0, 0}));  // attention has no rate of bf16
  Roofline plain = simple();
  plain.attention.clear();
  EXPECT_EQ(call_seconds(calls, "tf32", plain), (std::vector<double>{8.5, 10.5, 8.5, 3.0, 0}));
}

TEST(Roofline, CoresAreShared) {
  Roofline cores = simple();
  cores.cores = 4;
  auto rate = [&](int64_t ranks, int64_t threads) {
    return cores.for_rank(ranks, threads).contraction["fp32"];
  };
  EXPECT_EQ(rate(1, 4), 100);
  EXPECT_EQ(rate(1, 2), 50);
  EXPECT_EQ(rate(2, 2), 50);
  EXPECT_EQ(rate(4, 4), 25);   // four ranks on one node, each with threads for all of it
  EXPECT_EQ(rate(64, 4), 25);  // 16 nodes of four
  EXPECT_EQ(cores.for_rank(4, 1).memory, 2.5);
  EXPECT_EQ(simple().for_rank(64, 1), simple());
}

TEST(Roofline, Words) {
  EXPECT_EQ(roofline_named("h200").name, "h200");
  EXPECT_EQ(roofline_named("cpu").name, "cpu");
  EXPECT_EQ(roofline_of(cpu_device()), "cpu");
  ScratchFolder scratch;
  scratch.write(
      "r.json",
      R"({"name": "mine", "contraction": {"fp32": 1e12, "bf16": 2e12}, "memory": 1e11, "launch": 0, "cores": 8,
    "inside": {"bandwidth": 1e10, "latency": 1e-5}, "ranks_per_node": 2, "measured_on": "a desk"})");
  Roofline mine = roofline_named(scratch.path("r.json"));
  EXPECT_EQ(mine, (Roofline{.name = "mine",
                            .contraction = {{"fp32", 1e12}, {"bf16", 2e12}},
                            .attention = {},
                            .memory = 1e11,
                            .launch = 0,
                            .inside = {1e10, 1e-5},
                            .across = {1e10, 1e-5},
                            .ranks_per_node = 2,
                            .cores = 8,
                            .measured_on = "a desk"}));
  try {
    roofline_named("h20");
    ADD_FAILURE();
  } catch (const UserError& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "--roofline is \"h20\", which is none of h200, b200, h100, a100, cpu and no file that can be read; "
        "did you mean h200?");
  }
  try {
    roofline_named("no/such/file.json");
    ADD_FAILURE();
  } catch (const UserError& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "--roofline is \"no/such/file.json\", which is none of h200, b200, h100, a100, cpu and no file that "
        "can be read; a file "
        "holds name, contraction, memory, inside and ranks_per_node");
  }
}

TEST(Roofline, FilesAreRefusedWithAllThatIsWrong) {
  const std::string rest =
      R"("name": "x", "contraction": {"fp32": 1}, "inside": {"bandwidth": 1}, "ranks_per_node": 1)";
  EXPECT_EQ(refusal("{" + rest + R"(, "memory": 1})"), "accepted");
  EXPECT_EQ(refusal("{" + rest + R"(, "memory": 1, "host": {"latency": 1}})"),
            "r.json: host.bandwidth is missing");
  EXPECT_EQ(refusal("{" + rest + "}"), "r.json: memory is missing");
  EXPECT_EQ(refusal("{").find("r.json: line 1, column 2: this is not JSON: unexpected end of input"), 0u);
  EXPECT_EQ(refusal("[1]"), "r.json: no section; a roofline is {\"name\": ..., \"contraction\": {...}, ...}");
  EXPECT_EQ(refusal("{" + rest + R"(, "memory": 1, "memroy": 2})"),
            "r.json: unknown key memroy; did you mean memory?");
  EXPECT_EQ(refusal("{" + rest + R"(, "memory": 1, "zzzzzzzzzz": 2})"),
            "r.json: unknown key zzzzzzzzzz; the keys are name, contraction, attention, kernels, memory, "
            "capacity, launch, inside, across, host, ranks_per_node, "
            "cores, measured_on");
  EXPECT_EQ(
      refusal(
          R"({"name": 3, "contraction": {"fp23": 1, "bf16": 0}, "attention": 5, "memory": "fast", "launch": -1, "inside": {"bandwith": 1},
                       "across": 7, "ranks_per_node": 0, "cores": 1.5, "measured_on": []})"),
      "r.json: 12 errors\n"
      "  name is 3; it must be text\n"
      "  unknown key contraction.fp23; did you mean contraction.fp32?\n"
      "  contraction.bf16 is 0; it must be a number above 0\n"
      "  attention is 5; it must be a section with rates for some of fp32, tf32, bf16, float8\n"
      "  memory is \"fast\"; it must be a number above 0\n"
      "  launch is -1; it must be a number of at least 0\n"
      "  unknown key inside.bandwith; did you mean inside.bandwidth?\n"
      "  inside.bandwidth is missing\n"
      "  across is 7; it must be a section with the keys bandwidth, latency\n"
      "  ranks_per_node is 0; it must be a whole number of at least 1\n"
      "  cores is 1.5; it must be a whole number of at least 0\n"
      "  measured_on is []; it must be text");
}

TEST(Roofline, TheWayToTheHostIsThatOfADeviceUnlessItIsSaid) {
  const std::string rest =
      R"({"name": "x", "contraction": {"fp32": 1}, "inside": {"bandwidth": 1}, "ranks_per_node": 1, "memory": 1)";
  EXPECT_EQ(parse_roofline(rest + "}", "r.json").host, (LinkSpeed{2.5e10, 1e-5}));
  EXPECT_EQ(parse_roofline(rest + R"(, "cores": 4})", "r.json").host, LinkSpeed{});
  EXPECT_EQ(parse_roofline(rest + R"(, "host": {"bandwidth": 7, "latency": 2}})", "r.json").host,
            (LinkSpeed{7, 2}));
}

TEST(Links, GroupsOnNodes) {
  const Mesh mesh{{2, 4, 8}, {"dp_replicate", "dp_shard", "tp"}};
  EXPECT_EQ(group_shape(mesh, {2}, 8), (GroupShape{8, 8}));
  EXPECT_EQ(group_shape(mesh, {1}, 8), (GroupShape{4, 1}));
  EXPECT_EQ(group_shape(mesh, {1}, 16), (GroupShape{4, 2}));
  EXPECT_EQ(group_shape(mesh, {0, 1}, 16), (GroupShape{8, 2}));
  EXPECT_EQ(group_shape(mesh, {0, 1, 2}, 8), (GroupShape{64, 8}));
  EXPECT_EQ(dims_text(mesh, {0, 1}), "dp_replicate x dp_shard");
  EXPECT_EQ(dims_along("data", mesh), (std::vector<int>{0, 1}));
  EXPECT_EQ(dims_along("across_hosts", mesh), (std::vector<int>{0, 1}));
  EXPECT_EQ(dims_along("dp_shard", mesh), (std::vector<int>{1}));
  EXPECT_EQ(link_shape("data", mesh, 0, 16), (GroupShape{8, 2}));
  EXPECT_EQ(link_shape("inside_hosts", mesh, 2, 16), (GroupShape{2, 2}));
  EXPECT_EQ(link_shape("across_hosts", mesh, 2, 16), (GroupShape{4, 1}));
}

TEST(Links, InsideAndAcrossSideBySide) {
  EXPECT_EQ(travel_seconds(80, {1, 1}, simple()), 0);
  EXPECT_EQ(travel_seconds(80, {4, 4}, simple()), 1 + 10);
  EXPECT_EQ(travel_seconds(80, {5, 4}, simple()),
            3 + 10.0);  // a quarter leaves the node: 20 / 2, and 60 / 8 beside it
  EXPECT_EQ(travel_seconds(80, {5, 1}, simple()), 3 + 40.0);
  EXPECT_EQ(travel_seconds(0, {5, 1}, simple()), 3);
}

TEST(PlanWords, Seconds) {
  EXPECT_EQ(seconds_text(0), "0 us");
  EXPECT_EQ(seconds_text(35e-6), "35.0 us");
  EXPECT_EQ(seconds_text(0.1174), "117 ms");
  EXPECT_EQ(seconds_text(0.00999), "9.99 ms");
  EXPECT_EQ(seconds_text(0.9996), "1.00 s");
  EXPECT_EQ(seconds_text(1234), "1234 s");
  Prediction p;
  p.roofline = "cpu", p.step_s = 0.117;
  EXPECT_EQ(predicted_and_measured(p, 0.121), "predicted 117 ms, measured 121 ms a step (roofline cpu)");
  p.beyond_node = true;
  EXPECT_EQ(predicted_and_measured(p, 0.121),
            "predicted 117 ms, measured 121 ms a step (roofline cpu, measured on one node only)");
}

TEST(PlanWords, UsesOfNeighbouringRankCounts) {
  std::vector<std::string> rows;
  for (const auto& use : uses_of(48, 16, 12))
    rows.push_back(str(use.ranks, ": ", use.most, ", ", number_text(static_cast<float>(use.used))));
  EXPECT_EQ(rows, (std::vector<std::string>{"1: 48, 1", "3: 18, 0.8888889", "6: 9, 0.8888889",
                                            "11: 6, 0.72727275", "12: 6, 0.6666667", "13: 6, 0.61538464",
                                            "24: 3, 0.6666667", "48: 1, 1"}));
  // A micro-batch for each rank is one round, whatever the lanes; where the library adds, ranks are idle.
  EXPECT_EQ(uses_of(48, 16, 20).back().ranks, 48);
  EXPECT_EQ(uses_of(48, 16, 20).back().most, 1);
  EXPECT_EQ(uses_of(48, 16, 48, false, false).back().most, 3);
}

// A report with something in every section.
PlanReport by_hand() {
  PlanReport r;
  r.name = "toy", r.ranks = 16, r.mesh = {{2, 8}, {"dp_shard", "tp"}};
  r.parameters = 5000, r.state_bytes_once = 60000, r.flops = 2.5e9, r.units = 4096;
  r.tensors = {{"token.weight", "weights", "f32[64,32]", "dp_shard: Shard(0)", 1, 4096},
               {"blocks.*.attn.qkv.weight", "weights", "f32[96,32]",
                "tp: Shard(0,groups=3), dp_shard: Shard(0)", 80, 768},
               {"optim.token.weight.{exp_avg,exp_avg_sq}", "moments", "f32[64,32]", "", 2, 8192}};
  r.state = 1024, r.arena = 2048, r.reduction = 512;
  r.regions = {{"forward and backward", 2048}, {"partial sums of gradients", 512}};
  r.needs.parts = {{"weights", 1024}, {"driver and libraries", 4096, true}};
  r.available = 4096, r.on_device = true, r.missing = "no driver";
  r.nearest = Fit{1, 32, 4000, "[dp_shard=4, tp=8]"};
  r.micro_batches = 8, r.micro = 2, r.lanes = 8, r.data_ranks = 2;
  r.buckets = 3, r.bucket_bytes = 1 << 20, r.gathers = "once", r.hosts = "inside";
  r.uses = {{1, 8, 1}, {2, 4, 1}, {3, 3, 8.0 / 9}};
  r.advised_micro = 1;
  r.prediction = {.roofline = "simple",
                  .measured_on = "paper",
                  .beyond_node = true,
                  .micro_batches = 4,
                  .body_s = 0.025,
                  .once_s = 0.002,
                  .traffic = {{"dp_shard", "lane_exchange", 3, 3072, 0.004, 0.001},
                              {"tp", "all_reduce", 8, 1024, 0.002, 0.002}},
                  .exposed_s = 0.003,
                  .step_s = 0.105,
                  .units_per_s = 39009.5,
                  .flops_per_s = 1.5e9,
                  .peak_flops_per_s = 3e9,
                  .shares = {0.04, 0.06, 0.002, 0.003}};
  r.predicted = true;
  r.certificate = "abc";
  return r;
}

TEST(PlanWords, IdleRanks) {
  const auto words = [](int64_t micro_batches, int64_t lanes, const Mesh& mesh, compiler::LaneOrder order) {
    return idle_ranks({micro_batches, lanes, static_cast<int>(mesh.data_size()), 0, order}, mesh, true);
  };
  const auto whole = compiler::LaneOrder::contiguous, rounds = compiler::LaneOrder::interleaved;
  const Mesh five{{5}, {"dp_replicate"}}, wide{{3, 2}, {"dp_shard", "tp"}};
  EXPECT_EQ(words(5, 5, five, whole), "");
  EXPECT_EQ(words(20, 5, five, whole), "");
  EXPECT_EQ(words(6, 6, five, rounds), "") << "the second round leaves four slots idle, and no rank";
  EXPECT_EQ(
      words(8, 4, five, whole),
      "1 of 5 ranks is idle in forward and backward: a step has 8 micro-batches in 4 lanes, for 4 ranks at "
      "most, or for 8 with one each; start 4 or 8, or raise batch.lanes (another order of sums)");
  EXPECT_EQ(
      idle_ranks({8, 4, 5, 0, whole}, five, false),
      "1 of 5 ranks is idle in forward and backward: a step has 8 micro-batches in 4 lanes, for 4 ranks at "
      "most; start 4, or raise batch.lanes (another order of sums)");
  EXPECT_EQ(words(1, 1, wide, rounds),
            "4 of 6 ranks are idle in forward and backward: a step has 1 micro-batch, for 2 ranks at most; "
            "start 2, "
            "or make more of them: a smaller batch.micro, or a larger batch.global");
}

TEST(PlanWords, TextOfAReport) {
  EXPECT_EQ(plan_text(by_hand()),
            R"(toy on 16 ranks, mesh [dp_shard=2, tp=8]; 5,000 parameters
  fits      no: the device has 4.00 KiB; nearest that does: batch.micro 1 on 32 ranks, mesh [dp_shard=4, tp=8] (3.91 KiB)
  memory    at most 5.00 KiB a rank: driver and libraries at most 4.00 KiB, weights 1.00 KiB
  step      105 ms predicted by the roofline simple; links across nodes are assumed, not measured
  speed     39.0k tokens/s, 1.50 GFLOP/s per rank: 50 % of its peak
  time      4 x 25.0 ms for micro-batches, 2.00 ms once a step, 3.00 ms of exposed communication
  limits    memory traffic 57 %, arithmetic 38 %, exposed communication 3 %, launches 2 %
  more      --long: tensors, memory by region, collectives; --json; --program; show --graph: a picture

model
  parameters                5000
  state, once               58.59 KiB
weights, per tensor on the fullest rank
  token.weight                             f32[64,32]  4.00 KiB          dp_shard: Shard(0)
  blocks.*.attn.qkv.weight                 f32[96,32]  80 x 768 B        tp: Shard(0,groups=3), dp_shard: Shard(0)
moments, per tensor on the fullest rank
  optim.token.weight.{exp_avg,exp_avg_sq}  f32[64,32]  2 x 8.00 KiB      whole on every rank
memory of the fullest rank
  state                     1024 bytes (1.00 KiB)
  arena                     2048 bytes (2.00 KiB)
  reduction                 512 bytes (512 B)
  together                  3584 bytes (3.50 KiB)
arena and reduction by region
  forward and backward      2048 bytes (2.00 KiB)
  partial sums of gradients 512 bytes (512 B)
memory of the fullest rank's device
  driver and libraries      at most 4096 bytes (4.00 KiB)
  weights                   1024 bytes (1.00 KiB)
  together                  at most 5120 bytes (5.00 KiB)
  the device has            4096 bytes (4.00 KiB), 125.0 % of it is needed
  it does not fit; nearest that does: batch.micro 1 on 32 ranks, mesh [dp_shard=4, tp=8] (3.91 KiB)
  planned without the device (no driver):
  kernels and workspaces of attention and convolutions are counted as the CPU's
step
  micro-batches             8 of 2 sequences, in 8 lanes
  tokens                    4096
  contractions              2.5 Gflop, all ranks together
  buckets                   3 of about 1.00 MiB
  exchange                  inside
  weights gathered          once
collectives per step (bytes that the fullest rank sends)
  on dp_shard
    lane_exchange           3 x, 3.00 KiB         4.00 ms under way, 1.00 ms exposed
  on tp
    all_reduce              8 x, 1.00 KiB         2.00 ms under way, 2.00 ms exposed
micro-batches per rank, by number of data ranks
  1                         8 on the fullest, 100 % of the slots are used
  2                         4 on the fullest, 100 % of the slots are used  <- this plan
  3                         3 on the fullest, 89 % of the slots are used
  advice: at least 4 micro-batches per rank keep ranks busy on other cluster sizes; batch.micro 1 gives that,
          with DDP and ZeRO 1 nearly as fast as this one with compile.together 2
predicted step time, by the roofline simple (paper)
  micro-batches             4 x 25.0 ms
  once a step               2.00 ms
  exposed communication     3.00 ms
  together                  105 ms, 3.901e+04 tokens/s, 0.0015 TFLOP/s per rank
  measured on one node only: how these ranks cross nodes is assumed, not measured
numerics certificate of the CPU, since the device is not here (equal certificates promise equal bits, on any number of data ranks)
                            abc
)");
  PlanReport fits = by_hand();
  fits.available = 8192, fits.nearest.reset();
  EXPECT_NE(plan_text(fits).find("62.5 % of it is needed\n  it fits\n"), std::string::npos);
  fits.predicted = false, fits.no_prediction = "no words";
  EXPECT_NE(plan_text(fits).find("predicted step time: none (no words)\n"), std::string::npos);
  EXPECT_NE(plan_text(fits).find("    all_reduce              8 x, 1.00 KiB\n"), std::string::npos);
  PlanReport joined = by_hand();
  joined.together = 4;
  EXPECT_NE(plan_text(joined).find("  together                  4 micro-batches of a rank at a time\n"),
            std::string::npos);
  joined.together = 1;
  EXPECT_NE(plan_text(joined).find("  together                  one at a time: see compile.together"),
            std::string::npos);
  PlanReport none = by_hand();
  none.nearest.reset();
  EXPECT_NE(plan_text(none).find("  it does not fit, and neither does any mesh of up to 8 times the ranks\n"),
            std::string::npos);
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> out;
  for (const auto& [key, value] : object.items()) out.push_back(key);
  return out;
}

TEST(PlanWords, JsonOfAReport) {
  Json j = Json::parse(plan_json(by_hand()));
  using Keys = std::vector<std::string>;
  EXPECT_EQ(keys_of(j), (Keys{"name", "data", "ranks", "mesh", "model", "tensors", "memory", "step",
                              "collectives", "utilisation", "advised_micro", "prediction", "no_prediction",
                              "budgets", "certificate", "same_bits_on"}));
  EXPECT_EQ(j["mesh"].dump(), R"({"shape":[2,8],"dim_names":["dp_shard","tp"]})");
  EXPECT_EQ(j["model"].dump(), R"({"parameters":5000,"trained":5000,"state_bytes":60000})");
  EXPECT_EQ(j["tensors"][1].dump(),
            R"({"name":"blocks.*.attn.qkv.weight","role":"weights","type":"f32[96,32]",)"
            R"j("placements":"tp: Shard(0,groups=3), dp_shard: Shard(0)","count":80,"bytes":768})j");
  EXPECT_EQ(keys_of(j["memory"]),
            (Keys{"state", "arena", "reduction", "total", "regions", "device", "host"}));
  EXPECT_EQ(j["memory"]["total"], 3584);
  EXPECT_EQ(j["memory"]["regions"][1].dump(), R"({"name":"partial sums of gradients","bytes":512})");
  EXPECT_EQ(
      j["memory"]["device"].dump(),
      R"({"parts":[{"name":"weights","bytes":1024,"bound":false},{"name":"driver and libraries","bytes":4096,)"
      R"("bound":true}],"total":5120,"exact":1024,"on_host":0,"activations_on_host":0,"evaluation_within":0,)"
      R"("available":4096,)"
      R"("fits":false,"nearest":{"micro":1,"ranks":32,"mesh":"[dp_shard=4, tp=8]","memory_budget":"","bytes":4000},"planned_without":"no driver"})");
  EXPECT_EQ(
      j["step"].dump(),
      R"({"micro_batches":8,"micro":2,"lanes":8,"data_ranks":2,"tokens":4096,"flops":2500000000.0,)"
      R"("buckets":3,"bucket_bytes":1048576,"exchange":"inside","weights_gathered":"once","tp_pieces":1,)"
      R"("whole_updates":null,"computed_again":null})");
  EXPECT_EQ(
      j["collectives"][0].dump(),
      R"({"dims":"dp_shard","op":"lane_exchange","count":3,"bytes":3072,"seconds":0.004,"exposed":0.001})");
  EXPECT_EQ(j["utilisation"][1].dump(), R"({"ranks":2,"micro_batches":4,"used":1.0})");
  EXPECT_EQ(j["advised_micro"], 1);
  EXPECT_EQ(
      j["prediction"].dump(),
      R"({"roofline":"simple","measured_on":"paper","beyond_node":true,"micro_batches":4,"body":0.025,"once":0.002,)"
      R"("exposed":0.003,"step":0.105,"tokens_per_s":39009.5,"flops_per_s":1500000000.0,"peak_flops_per_s":3000000000.0,"shares":{"arithmetic":0.04,"memory":0.06,)"
      R"("launches":0.002,"exposed":0.003}})");
  EXPECT_TRUE(j["no_prediction"].is_null());
  EXPECT_EQ(j["budgets"], Json::array()) << "they were not asked for";
  EXPECT_EQ(j["same_bits_on"], "any");

  PlanReport bare;
  bare.no_prediction = "no words";
  bare.invariant = false;
  j = Json::parse(plan_json(bare));
  EXPECT_TRUE(j["memory"]["device"].is_null());
  EXPECT_TRUE(j["prediction"].is_null());
  EXPECT_TRUE(j["advised_micro"].is_null());
  EXPECT_EQ(j["no_prediction"], "no words");
  EXPECT_EQ(j["same_bits_on"], "this");
}

}  // namespace
}  // namespace lockstep
