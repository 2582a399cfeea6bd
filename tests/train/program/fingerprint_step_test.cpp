// compile() where one rank of 2, 3 and 4 has another step: all ranks throw the same words within 2 s, and
// nothing is compiled before.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "compiler/codegen/target.h"
#include "compiler/compile/compile.h"
#include "compiler/compile/fingerprint.h"
#include "core/base/error.h"
#include "core/optim/sgd.h"
#include "distributed/local/local_world.h"
#include "launcher/trainer/fingerprint.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {

using namespace compiler;
using namespace launcher;

namespace {

// The kernels of another set, under another hash.
class OtherHash : public KernelSet {
 public:
  explicit OtherHash(std::shared_ptr<const KernelSet> set) : set_(std::move(set)) {}
  const Kernel& find(const std::string& name) const override { return set_->find(name); }
  const MultiTensorKernel& find_multi_tensor(const std::string& name) const override {
    return set_->find_multi_tensor(name);
  }
  const std::string& binary() const override { return set_->binary(); }
  std::string hash() const override { return "0123"; }
  bool from_cache() const override { return set_->from_cache(); }

 private:
  std::shared_ptr<const KernelSet> set_;
};

// The CPU with another library, or where the machine code arrives damaged.
class OddTarget : public Target {
 public:
  std::string library;
  bool damaged = false;
  Device& device() const override { return cpu_target().device(); }
  bool claims(OpId op) const override { return cpu_target().claims(op); }
  bool is_library_op(OpId op) const override { return cpu_target().is_library_op(op); }
  bool accepts_strides(const Node& node, size_t index) const override {
    return cpu_target().accepts_strides(node, index);
  }
  KernelSource generate(const Graph& body) const override { return cpu_target().generate(body); }
  KernelSource generate_multi_tensor(const Graph& body) const override {
    return cpu_target().generate_multi_tensor(body);
  }
  std::shared_ptr<const KernelSet> compile(std::vector<KernelSource> sources,
                                           const TargetOptions& options) const override {
    return changed(cpu_target().compile(std::move(sources), options));
  }
  std::shared_ptr<const KernelSet> load(const std::string& binary) const override {
    return changed(cpu_target().load(binary));
  }
  std::unique_ptr<LibraryCall> make_library_call(const Node& node, const std::vector<Operand>& in,
                                                 const std::vector<Operand>& out,
                                                 const TargetOptions& options) const override {
    return cpu_target().make_library_call(node, in, out, options);
  }
  std::unique_ptr<Reductions> make_reductions(const TargetOptions& options) const override {
    return cpu_target().make_reductions(options);
  }
  std::string library_version() const override {
    return library.empty() ? cpu_target().library_version() : library;
  }

 private:
  std::shared_ptr<const KernelSet> changed(std::shared_ptr<const KernelSet> set) const {
    return damaged ? std::make_shared<OtherHash>(std::move(set)) : set;
  }
};

// A step of one weight; what one rank may have different.
struct OneStep {
  uint64_t seed = 3;
  Shape shape{6, 8};
  BatchShape batch{8, 2, 0};
  double decay = 0.5;   // of the loss
  bool second = false;  // a second weight
  CompileOptions options;
  OddTarget target;
};

void compile_step(LiveMesh& mesh, OneStep& mine) {
  State state(mesh, mine.seed);
  state.root().parameter("a", mine.shape, init::normal(0.5));
  if (mine.second) state.root().parameter("b", {8}, init::normal(0.5));
  Sgd sgd(state / "optim", SgdOptions{.lr = 0.1});
  mine.options.target = &mine.target;
  compile(
      state, {{"x", DType::f32, {mine.batch.micro, 8}}}, mine.batch,
      [&](const std::vector<Tensor>& batch) {
        Tensor x = batch[0];
        if (mine.second) x = x * state.find_spec("b")(batch[0]);
        Tensor y = linear(x, state.find_spec("a")(batch[0]));
        Loss loss{sum(y * y * mine.decay, {0, 1}), sum(convert(full_like(y, 1), DType::i64), {0, 1})};
        sgd.update(grad(loss, state.parameters()));
        return loss;
      },
      mine.options);
}

// What each rank of n throws where rank n - 1 has `change`.
std::vector<std::string> errors(int n, const std::function<void(OneStep&)>& change) {
  std::vector<std::string> out(static_cast<size_t>(n));
  distributed::with_ranks(
      n,
      [&](LiveMesh& mesh) {
        OneStep mine;
        if (mesh.rank == n - 1) change(mine);
        auto begin = std::chrono::steady_clock::now();
        try {
          compile_step(mesh, mine);
        } catch (const Error& error) {
          out[static_cast<size_t>(mesh.rank)] = str(error.kind(), ": ", error.what());
        }
        EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 2.0);
      },
      {.deadline_s = 20});
  return out;
}

void all_say(const std::function<void(OneStep&)>& change, const std::vector<std::string>& words) {
  for (int n : {2, 3, 4}) {
    auto said = errors(n, change);
    for (const auto& text : said) EXPECT_EQ(text, said[0]) << n << " ranks";
    for (auto part : words) {
      if (auto at = part.find("rank N"); at != std::string::npos) part.replace(at, 6, str("rank ", n - 1));
      EXPECT_NE(said[0].find(part), std::string::npos) << "missing: " << part << "\nin: " << said[0];
    }
  }
}

TEST(StepFingerprint, EqualStepsCompile) {
  all_say([](OneStep&) {}, {});
  for (const auto& text : errors(3, [](OneStep&) {})) EXPECT_EQ(text, "");
  // Neither threads nor the folder of the cache decide anything.
  for (const auto& text : errors(2, [](OneStep& odd) { odd.options.threads = 3; })) EXPECT_EQ(text, "");
}

TEST(StepFingerprint, EachKindOfDifferenceIsNamed) {
  all_say([](OneStep& odd) { odd.batch = {16, 2, 4}; },
          {"UserError: the batch differs between ranks, before the training step is compiled",
           "rank N has micro-batches = 8, rank 0 has 4"});
  all_say([](OneStep& odd) { odd.batch = {8, 4, 0}; },
          {"the batch differs between ranks", "rank N has micro-batches = 2, rank 0 has 4"});
  all_say([](OneStep& odd) { odd.seed = 4; },
          {"UserError: the layout of the state differs between ranks", "rank N has seed = 4, rank 0 has 3"});
  all_say([](OneStep& odd) { odd.shape = {7, 8}; },
          {"UserError: the layout of the state differs between ranks",
           "rank N has a = f32[7,8] {}, rank 0 has f32[6,8] {}"});
  all_say([](OneStep& odd) { odd.second = true; },
          {"the layout of the state differs between ranks", "also different: b"});
  all_say([](OneStep& odd) { odd.options.bucket_bytes = 64; },
          {"UserError: the set of compile options differs between ranks",
           "rank N has bucket_bytes = 64, rank 0 has 4194304"});
  all_say([](OneStep& odd) { odd.options.gather = GatherWhen::layers; },
          {"the set of compile options differs between ranks",
           "rank N has gather = layers, rank 0 has micro_batch"});
  all_say(
      [](OneStep& odd) { odd.options.invariant = false; },
      {"the set of compile options differs between ranks", "rank N has invariant = false, rank 0 has true"});
  all_say([](OneStep& odd) { odd.decay = 0.25; },
          {"UserError: the traced program differs between ranks", "rank N has line ",
           "the step function "
           "must not depend on the rank"});
  all_say([](OneStep& odd) { odd.target.library = "oneDNN 9.9.9 (abacus)"; },
          {"UserError: the set of libraries differs between ranks, before step 1: rank N has oneDNN 9.9.9 "
           "(abacus), rank 0 has oneDNN ",
           "use ranks of one kind"});
  all_say([](OneStep& odd) { odd.target.damaged = true; },
          {"PeerError: the artifact differs between ranks, before step 1: rank N has machine code = 0123, "
           "rank 0 has "});
}

// What a step function or a plan refuses on one rank alone is every rank's error too.
TEST(StepFingerprint, ARankThatCannotPlanEndsAll) {
  all_say([](OneStep& odd) { odd.batch = {9, 2, 0}; },
          {"UserError: rank N: batch.global 9 is no multiple of batch.micro 2"});
}

TEST(StepFingerprint, CollectivesTellVerbTensorsAndBytes) {
  distributed::with_ranks(2, [](LiveMesh& mesh) {
    State state(mesh, 3);
    state.root().parameter("a", {6, 8}, init::normal(0.5));
    Sgd sgd(state / "optim", SgdOptions{.lr = 0.1});
    StepPlan plan =
        plan_step(state, mesh.words, {{"x", DType::f32, {2, 8}}}, {8, 2, 0},
                  [&](const std::vector<Tensor>& batch) {
                    Tensor y = linear(batch[0], state.find_spec("a")(batch[0]));
                    Loss loss{sum(y * y, {0, 1}), sum(convert(full_like(y, 1), DType::i64), {0, 1})};
                    sgd.update(grad(loss, state.parameters()));
                    return loss;
                  },
                  {});
    auto part = collectives_part(plan.phases.whole);
    std::string all;
    for (const auto& [key, value] : part.lines) all += str(key, ": ", value, "\n");
    for (const char* words :
         {"collective 1: ", "all_reduce_start", "lane_exchange_start",
          "tensor 0: f32[6,8] {dp_replicate: ", "collective 2 bytes: 196\n", "number of collectives: "})
      EXPECT_NE(all.find(words), std::string::npos) << words << "\nin:\n" << all;
  });
}

// At a checkpoint: another step, another certificate, collectives that the others have not started. Nothing
// is written.
TEST(CheckpointFingerprint, RanksThatAreElsewhereSaveNothing) {
  for (int n : {2, 3, 4})
    for (int kind = 0; kind < 3; ++kind) {
      ScratchFolder folder;
      std::vector<std::string> said(static_cast<size_t>(n));
      distributed::local_mesh(
          n, Mesh{{n, 1}, {"dp_replicate", "tp"}},
          [&](LiveMesh& mesh) {
            const bool odd = mesh.rank == n - 1;
            State state(mesh, 3);
            state.root().parameter("a", {6, 8}, init::normal(0.5));
            state.materialize();
            auto begin = std::chrono::steady_clock::now();
            try {
              checkpoint::save_checkpoint(folder.path("ckpt"),
                                          {kind == 0 && odd ? 21 : 20, Json::object(),
                                           kind == 1 && odd ? "cc" : "aa", Json::object()},
                                          std::as_const(state).arrays(), mesh, 3);
            } catch (const PeerError& error) { said[static_cast<size_t>(mesh.rank)] = error.what(); }
            EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 2.0);
          },
          {.deadline_s = 20});
      const std::string wanted =
          kind == 0
              ? str("ranks meet at different places of the program: rank ", n - 1,
                    " at the checkpoint of step 21, rank 0 at the checkpoint of step 20; every rank must do "
                    "the same things in the same order")
          : kind == 1
              ? str("the numerics certificate differs between ranks, at the checkpoint of step 20: rank ",
                    n - 1,
                    " has cc, rank 0 has aa; the run cannot go on; start it again from its last checkpoint")
              : "";
      for (const auto& text : said) EXPECT_EQ(text, wanted);
      EXPECT_EQ(std::filesystem::exists(folder.path("ckpt/step-20")), kind == 2);
    }
}

// The config's part: every key but the listed ones, which exist.
TEST(RunFingerprint, EveryKeyOfTheConfigIsCompared) {
  RunConfig config;
  auto part = config_part(config);
  const auto keys = config_keys();
  EXPECT_EQ(part.lines.size() + per_rank_keys().size(),
            static_cast<size_t>(std::count_if(
                keys.begin(), keys.end(), [&](const ConfigKey& key) { return has_meaning(config, key); })));
  for (const auto& key : per_rank_keys()) {
    EXPECT_NE(find_key(key.path), nullptr) << key.path;
    EXPECT_GT(std::string(key.reason).size(), 20u);
    for (const auto& line : part.lines) EXPECT_NE(line.first, key.path);
  }
  distributed::with_ranks(2, [&](Group& world) {
    RunConfig mine = config;
    mine.optim.lr = world.rank() ? 0.0003 : 0.0006;
    mine.compile.threads = world.rank() + 1;  // free to differ
    std::string text;
    try {
      compare(world, "before the ranks are grouped", {program_part(), config_part(mine)});
    } catch (const UserError& error) { text = error.what(); }
    EXPECT_EQ(text,
              "the config differs between ranks, before the ranks are grouped: rank 1 has optim.lr = 0.0003, "
              "rank 0 has 0.0006; start every "
              "rank with the same config");
  });
}

}  // namespace
}  // namespace lockstep
