// Moments on the host: the bits of a step without them there, on any number of ranks and through checkpoints;
// what travels, what a device holds, and what cannot lie on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "compiler/program/build/offload.h"
#include "compiler/program/show/folds.h"
#include "compiler/program/show/print.h"
#include "core/base/error.h"
#include "core/optim/adafactor.h"
#include "core/optim/adamw.h"
#include "core/optim/lion.h"
#include "core/optim/muon.h"
#include "core/optim/sgd.h"
#include "tests/support/tiny_program.h"

namespace lockstep::tests {

using namespace compiler;

namespace {

TinyRun offloaded(TinyRun run = {}) {
  run.options.offload_moments = true;
  return run;
}

// On DDP, ZeRO and HSDP; two of the ranks of three have fewer rows than the other.
void expect_bits_on_meshes(const TinyRun& run) {
  const TinyResult home = train_tiny(run);
  EXPECT_NE(home.losses.front(), home.losses.back()) << "training changes nothing";
  const TinyRun away = offloaded(run);
  expect_same(home, train_tiny(away), "1 rank");
  for (int64_t ranks : {2, 3})
    expect_same(home, train_tiny(on(away, {{ranks}, {"dp_replicate"}})), str(ranks));
  for (int zero : {1, 2, 3})
    expect_same(home, train_tiny(on(away, {{2}, {"dp_shard"}}, zero)), str("zero ", zero));
  expect_same(home, train_tiny(on(away, {{2, 2}, {"dp_replicate", "dp_shard"}})), "hsdp");
}

TEST(Offload, GivesTheBitsOfMomentsOnTheDevice) { expect_bits_on_meshes({.mask_every = 7, .blocked = {2}}); }

TEST(Offload, GivesThemInBf16) {
  TinyRun run{.model = "llama", .compute = DType::bf16, .global = 12, .blocked = {2}};
  run.options.precision = "bf16";
  run.optimizer = [](State& state) -> std::unique_ptr<Optimizer> {
    return std::make_unique<AdamW>(
        state / "optim", AdamWOptions{.lr = warmup_cosine(1e-2, 2, 10), .clip = 1, .moments = DType::bf16});
  };
  expect_bits_on_meshes(run);
}

TEST(Offload, GivesThemOnTpWhereWhatIsHeldAlikeStays) {
  const TinyRun run = on({}, {{2, 2}, {"dp_replicate", "tp"}});
  expect_same(train_tiny(run), train_tiny(offloaded(run)), "tp");
}

TEST(Offload, GivesThemOpByOpAndByTheReferenceEvaluator) {
  for (Backend backend : {Backend::eager, Backend::reference}) {
    TinyRun run{.global = 8, .steps = 2};
    run.options.backend = backend;
    expect_same(train_tiny(run), train_tiny(offloaded(run)), "1 rank");
    run.ranks = 2;
    expect_same(train_tiny(run), train_tiny(offloaded(run)), "2 ranks");
  }
}

TEST(Offload, GivesThemUnderOtherOptimizers) {
  using Make = std::function<std::unique_ptr<Optimizer>(State&)>;
  const std::map<std::string, Make> makes = {
      {"sgd",
       [](State& state) { return std::make_unique<Sgd>(state / "optim", SgdOptions{.momentum = 0.9}); }},
      {"adafactor", [](State& state) { return std::make_unique<Adafactor>(state / "optim"); }},
      {"lion", [](State& state) { return std::make_unique<Lion>(state / "optim", LionOptions{}); }},
      {"muon", [](State& state) { return std::make_unique<Muon>(state / "optim", MuonOptions{}); }}};
  for (const auto& [name, make] : makes) {
    TinyRun run{.global = 8, .steps = 2};
    run.optimizer = make;
    const TinyResult home = train_tiny(run);
    expect_same(home, train_tiny(offloaded(run)), name);
    run.ranks = 3;
    expect_same(home, train_tiny(offloaded(run)), str(name, " on 3 ranks"));
  }
}

TEST(Offload, IsChosenAnewByARunThatGoesOn) {
  const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / str("offload-", getpid());
  TinyRun whole{.steps = 6};
  const TinyResult want = train_tiny(whole);
  int folder = 0;
  for (const bool first : {false, true}) {
    TinyRun half{.steps = 3}, rest{.steps = 6};
    half.options.offload_moments = first, rest.options.offload_moments = !first;
    half.ranks = 2, rest.ranks = 3;
    half.save = rest.load = root / str(folder++);
    EXPECT_EQ(train_tiny(half).losses.size(), 3u);
    const TinyResult end = train_tiny(rest);
    EXPECT_EQ(end.hash, want.hash);
    EXPECT_EQ(end.losses, std::vector<std::string>(want.losses.begin() + 3, want.losses.end()));
  }
  std::filesystem::remove_all(root);
}

struct Copied {
  int64_t in = 0, out = 0;
  int buckets = 0;
};
Copied copied(const StepProgram& program) {
  Copied out;
  for (const Instr& instr : program.instrs)
    if (const auto* start = std::get_if<StartCopies>(&instr.what)) {
      (start->to_host ? out.out : out.in) += start->bytes();
      out.buckets += start->to_host;
    }
  return out;
}
int64_t host_bytes(const StepProgram& program) {
  int64_t bytes = 0;
  for (const Region& region : program.regions) bytes += region.on_host ? region.bytes : 0;
  return bytes;
}

TEST(Offload, HoldsTwoBucketsOfMomentsOnTheDevice) {
  const StepProgram home = program_of({}), away = program_of(offloaded());
  EXPECT_EQ(host_bytes(home), 0);
  int64_t moments = 0, kept = 0;
  for (const Region& region : away.regions)
    if (region.name.starts_with("optim.")) (region.on_host ? moments : kept) += region.bytes;
  EXPECT_EQ(host_bytes(away), moments);
  EXPECT_GT(moments, 0);
  EXPECT_EQ(kept, 0);
  const Copied both = copied(away);
  EXPECT_EQ(both.in, moments) << "each moment comes once";
  EXPECT_EQ(both.out, moments) << "and goes back once";
  EXPECT_GT(both.buckets, 8);
  const int64_t slots = held_bytes(away).update - held_bytes(home).update;
  EXPECT_GT(slots, offload_bucket(moments));
  EXPECT_LE(slots, 2 * offload_bucket(moments) + 64 * 256) << "and what aligns their tensors";
}

TEST(Offload, BringsTheFirstBucketsBesideForwardAndBackward) {
  const StepProgram program = program_of(offloaded());
  size_t first_run = 0, first_update = 0;
  std::vector<size_t> starts, waits;
  for (size_t i = 0; i < program.instrs.size(); ++i) {
    const auto& what = program.instrs[i].what;
    if (std::holds_alternative<RunBlock>(what) && !first_run) first_run = i;
    if (std::holds_alternative<UpdateTensors>(what) && !first_update) first_update = i;
    if (const auto* start = std::get_if<StartCopies>(&what); start && !start->to_host) starts.push_back(i);
    if (std::holds_alternative<Wait>(what)) waits.push_back(i);
  }
  ASSERT_GT(starts.size(), 2u);
  EXPECT_LT(starts[1], first_run);
  EXPECT_GT(starts[2], first_update);
  EXPECT_EQ(waits.back(), program.instrs.size() - 1) << "a step ends with its moments on the host";
  const std::string text = print(program);
  EXPECT_NE(text.find("start copies \"moments 0\" to the device: "), std::string::npos);
  EXPECT_NE(text.find("start copies \"moments 0 back\" to the host: "), std::string::npos);
  EXPECT_NE(text.find("wait \"moments 1 back\""), std::string::npos);
}

// Descent whose rate falls with the mean of a moment, where it keeps one.
class Own : public Optimizer {
 public:
  Own(State& state, bool keeps) : Optimizer(state / "optim", {}), keeps_(keeps) {
    for (const Parameter& p : state.parameters())
      if (keeps) (state / "optim").moment(p, "m");
  }
  void update(const Gradients& all, Here at) override {
    const Rates rates = begin(all, 0, at);
    for (size_t i = 0; i < all.values.size(); ++i) {
      const Tensor& g = all.values[i];
      Tensor step = g * rates.lr;
      if (keeps_) {
        const Tensor m = moment(all.parameters[i], "m", g, at);
        std::vector<int64_t> dims(g.shape().size());
        for (size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<int64_t>(d);
        step = step / (1.0 + mean(m, dims, true));
        replace(all.parameters[i], "m", m * 0.9 + g * g, at);
      }
      replace(all.parameters[i], all.parameters[i](g) - step, at);
    }
  }
  std::map<std::string, double> scalars(int64_t) const override { return {{"optim.lr", 0.1}}; }

 private:
  bool keeps_;
};

std::string refusal(std::function<std::unique_ptr<Optimizer>(State&)> optimizer) {
  TinyRun run = offloaded();
  run.optimizer = std::move(optimizer);
  try {
    train_tiny(run);
  } catch (const UserError& error) { return error.what(); }
  return "accepted";
}

TEST(Offload, IsRefusedWhereNoMomentCanLieOnTheHost) {
  EXPECT_EQ(
      refusal([](State& state) { return std::make_unique<Own>(state, false); }),
      "optim.offload: the optimizer keeps no moments that could be kept on the host; leave it out, or choose "
      "one that does (adamw, lion, sgd with momentum)");
  EXPECT_EQ(
      refusal([](State& state) { return std::make_unique<Own>(state, true); }),
      "optim.offload: none of the 28 moments can be kept on the host, since not only their update reads "
      "them, several ranks have them, or they are rows of sparse tables: optim.token.weight.m, ...; leave it "
      "out, or choose adamw or lion");
}

// Tensors of many sizes, the last without a moment: none begins a bucket that no moment comes to.
TEST(Offload, MakesNoBucketOfNothing) {
  for (int64_t size = 1; size < 200'000; size += 1'993) {
    Graph whole;
    StepProgram program;
    UpdateTensors update;
    for (const auto& [count, moment] : {std::pair(size, true), {int64_t{11}, true}, {int64_t{64}, false}}) {
      std::vector<ValueId> inputs;
      UpdateTensors::Tensor tensor{.count = count};
      for (const char* name : {"p", "g", "m"}) {
        if (*name == 'm' && !moment) continue;
        inputs.push_back(whole.add_input(InputKind::value, name, DType::f32, {count}));
        program.regions.push_back({Region::Kind::state, name, 4 * count, *name == 'm'});
        tensor.inputs.push_back(program.whole(static_cast<int>(program.regions.size()) - 1));
      }
      tensor.outputs = {tensor.inputs[0]};
      std::vector<std::pair<DType, Shape>> types{{DType::f32, {count}}};
      if (moment) tensor.outputs.push_back(tensor.inputs[2]), types.push_back(types[0]);
      tensor.node = whole[whole.append(ops::sgd, inputs, {}, types)[0]].producer;
      update.tensors.push_back(std::move(tensor));
    }
    program.instrs.push_back({update});
    stage_moments(program, whole);
    int64_t brought = 0;
    for (const Instr& instr : program.instrs)
      if (const auto* start = std::get_if<StartCopies>(&instr.what)) {
        EXPECT_FALSE(start->copies.empty()) << size;
        brought += start->to_host ? 0 : start->bytes();
      }
    EXPECT_EQ(brought, 4 * (size + 11));
  }
}

TEST(Offload, CutsABucketForEachSixteenthOfTheMoments) {
  EXPECT_EQ(offload_bucket(0), 2 << 10);
  EXPECT_EQ(offload_bucket(int64_t{1} << 20), 1 << 16);
  EXPECT_EQ(offload_bucket(int64_t{64} << 30), int64_t{256} << 20);
}

}  // namespace
}  // namespace lockstep::tests
