// Runs that train a part: adapters, frozen weights and groups of parameters, on ranks and resumed.
#include "checkpoint/checkpoint.h"
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class Tuning : public RealRun {
 protected:
  using Words = std::vector<std::string>;
  void SetUp() override {
    RealRun::SetUp();
    write_tiny();
  }
  static Words words(const std::string& name, const Words& more, int steps = 6) {
    Words out = {"c.json", "--name=" + name, str("--train.steps=", steps), "--checkpoint.every=3",
                 "--train.eval_every=3"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  // On one rank, on two, three that split weights, and two and then three.
  void expect_same_bits(const std::string& name, const Words& more) {
    auto on = [&](const std::string& of, Words launch, int steps = 6) {
      const Words rest = words(name + of, more, steps);
      launch.insert(launch.end(), rest.begin(), rest.end());
      train(launch);
    };
    on("", {"--nproc", "1"});
    on("-two", {"--nproc", "2"});
    on("-split", {"--nproc", "3", "--mesh.shape=[3]", R"(--mesh.dim_names=["dp_shard"])"});
    on("-resumed", {"--nproc", "2"}, 3);
    on("-resumed", {"--nproc", "3"});
    for (const char* of : {"-two", "-split", "-resumed"}) expect_same_run(name, name + of);
  }
  static std::string bytes(const std::string& step, const std::string& fqn) {
    const Array array = checkpoint::read_tensor(step, fqn);
    return {reinterpret_cast<const char*>(array.data.data()), array.local_bytes()};
  }
  // Of all tensors of the checkpoints of steps 3 and 6, by their names: whether they differ.
  static std::map<std::string, bool> moved(const std::string& name) {
    std::map<std::string, bool> out;
    const std::string at = "runs/" + name + "/ckpt/step-";
    const Json last = manifest(name, 6);
    for (const auto& tensor : last["tensors"].items())
      out[tensor.key()] = bytes(at + "3", tensor.key()) != bytes(at + "6", tensor.key());
    EXPECT_FALSE(out.empty());
    return out;
  }
};

TEST_F(Tuning, AdaptersAloneMove) {
  expect_same_bits("lora",
                   {"--train.lora.rank=2", R"(--train.lora.targets=["blocks.*.attn.qkv", "**.up.weight"])",
                    "--train.lora.dropout=0.1", R"(--train.lora.also=["norm"])"});
  int adapters = 0, moments = 0;
  for (const auto& [fqn, differs] : moved("lora")) {
    const bool adapter = fqn.find(".lora_") != std::string::npos, also = fqn.starts_with("norm.");
    EXPECT_EQ(differs, adapter || also || fqn.starts_with("optim.norm.")) << fqn;
    if (adapter && !fqn.starts_with("optim.")) ++adapters;
    if (fqn.starts_with("optim.")) {
      ++moments;
      EXPECT_TRUE(adapter || fqn.starts_with("optim.norm.")) << fqn;
    }
  }
  EXPECT_EQ(adapters, 8);  // two matrices beside two weights of two blocks
  EXPECT_EQ(moments, 2 * (8 + 2));
}

// A run that starts from a tuned one has what it learnt: as adapters where it has the same ones, else in its
// weights, with the bits that an export has.
TEST_F(Tuning, AdaptersAreNotLostWhereARunStartsFromThem) {
  const Words lora = {"--train.lora.rank=2", "--train.lora.alpha=6"};
  auto start = [&](const std::string& name, const std::string& from, const Words& more, int steps = 1,
                   Words launch = {}) {
    Words rest = words(name, more, steps);
    rest.push_back("--train.init_from=runs/" + from);
    launch.insert(launch.end(), rest.begin(), rest.end());
    const Result result = trainrun(launch);
    EXPECT_EQ(result.code, kExitOk) << result.output;
    return result.output;
  };
  auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  train(words("base", {}, 3));
  start("tuned", "base", lora, 6);
  const std::string tuned = "runs/tuned/ckpt/step-6";
  auto at = [](const std::string& name) { return "runs/" + name + "/ckpt/step-1"; };

  EXPECT_HAS(start("on", "tuned", with(lora, {"--optim.lr=0"})),
             "the adapters of " + tuned + ", rank 2 and alpha 6, go on as adapters beside 8 weights");
  for (const char* fqn : {"blocks.0.attn.qkv.weight", "blocks.0.attn.qkv.lora_A.weight",
                          "blocks.1.mlp.down.lora_B.weight", "norm.weight"})
    EXPECT_EQ(bytes(at("on"), fqn), bytes(tuned, fqn)) << fqn;

  train({"export-hf", "tuned", "merged"});
  train({"import-hf", "merged", "--name=again"});
  const std::string rest = "the adapters of " + tuned + ", rank 2 and alpha 6, are merged into 8 weights";
  EXPECT_HAS(start("plain", "tuned", {"--optim.lr=0"}), rest + "\n");
  EXPECT_HAS(start("other", "tuned", {"--optim.lr=0", "--train.lora.rank=3"}),
             rest + ", and those of this run, rank 3 and alpha 16, begin anew");
  EXPECT_HAS(start("louder", "tuned", {"--optim.lr=0", "--train.lora.rank=2"}),
             rest + ", and those of this run, rank 2 and alpha 16, begin anew");
  for (const char* fqn :
       {"blocks.0.attn.qkv.weight", "blocks.1.mlp.down.weight", "token.weight", "norm.bias"})
    for (const char* name : {"plain", "other", "louder"})
      EXPECT_EQ(bytes(at(name), fqn), bytes("runs/again/ckpt/step-0", fqn)) << name << " " << fqn;
  EXPECT_NE(bytes(at("plain"), "blocks.0.attn.qkv.weight"), bytes(tuned, "blocks.0.attn.qkv.weight"));
  start("plain-split", "tuned", {"--optim.lr=0"}, 1,
        {"--nproc", "3", "--mesh.shape=[3]", R"(--mesh.dim_names=["dp_shard"])"});
  expect_same_run("plain", "plain-split");

  // What tools make of a tuned run is started from alike.
  train({"ckpt", "average", "runs/tuned/ckpt/step-3", tuned, "runs/mean"});
  EXPECT_HAS(start("from-mean", "mean", {"--optim.lr=0"}), "are merged into 8 weights");
}

TEST_F(Tuning, AdaptersBesideRandomWeightsAreTold) {
  const Result told = trainrun(words("random", {"--train.lora.rank=3"}, 1));
  EXPECT_EQ(told.code, kExitOk) << told.output;
  EXPECT_HAS(
      told.output,
      "train.lora.rank leaves weights as they are, and these are random: name what is to be tuned, as in "
      "--train.init_from=runs/NAME");
}

TEST_F(Tuning, AdaptersInBf16) {
  expect_same_bits("narrow", {"--train.lora.rank=3", "--train.precision=bf16"});
}

TEST_F(Tuning, FrozenWeightsStay) {
  expect_same_bits("frozen", {R"(--train.freeze=["token", "blocks.0.**"])"});
  for (const auto& [fqn, differs] : moved("frozen")) {
    const bool frozen = fqn.find("token.") != std::string::npos || fqn.find("blocks.0.") != std::string::npos;
    EXPECT_EQ(differs, !frozen) << fqn;
    EXPECT_FALSE(frozen && fqn.starts_with("optim.")) << fqn;
  }
}

TEST_F(Tuning, GroupsHaveTheirOwnNumbers) {
  expect_same_bits(
      "groups",
      {R"(--optim.groups=[{"params": "**.bias", "lr": 0}, {"params": "blocks.1.**", "weight_decay": 0.5}])"});
  for (const auto& [fqn, differs] : moved("groups")) {
    if (fqn.starts_with("optim.")) continue;
    EXPECT_EQ(differs, !fqn.ends_with(".bias")) << fqn;
  }
  train(words("decayed", {}));
  const std::string fqn = "blocks.1.mlp.up.weight";
  EXPECT_NE(bytes("runs/decayed/ckpt/step-3", fqn), bytes("runs/groups/ckpt/step-3", fqn));
}

// A rank of tp has the part of an adapter that belongs to its part of the weight.
TEST_F(Tuning, AdaptersOverTensorParallelRanks) {
  const Words more = {"--train.lora.rank=2"};
  train(words("whole", more));
  Words split = words("split", more);
  split.insert(split.begin(), {"--nproc", "2", "--mesh.shape=[2]", R"(--mesh.dim_names=["tp"])"});
  train(split);
  const auto a = column(metrics("whole"), "loss"), b = column(metrics("split"), "loss");
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = std::stod(a[i].substr(a[i].find(' '))), y = std::stod(b[i].substr(b[i].find(' ')));
    EXPECT_NEAR(x, y, 1e-4) << a[i];
  }
}

TEST_F(Tuning, PlanCountsWhatIsTrained) {
  const auto whole = trainrun({"plan", "--json", "--nproc", "2", "c.json"});
  const auto tuned = trainrun({"plan", "--json", "--nproc", "2", "c.json", "--train.lora.rank=2",
                               R"(--train.lora.targets=["**.qkv"])"});
  ASSERT_EQ(whole.code, kExitOk) << whole.output;
  ASSERT_EQ(tuned.code, kExitOk) << tuned.output;
  const Json a = Json::parse(whole.output), b = Json::parse(tuned.output);
  const int64_t adapters = 2 * (2 * 32 + 96 * 2);
  EXPECT_EQ(a["model"]["trained"], a["model"]["parameters"]);
  EXPECT_EQ(b["model"]["trained"], adapters);
  EXPECT_EQ(b["model"]["parameters"].get<int64_t>(), a["model"]["parameters"].get<int64_t>() + adapters);
  EXPECT_EQ(b["model"]["state_bytes"].get<int64_t>(),
            4 * (b["model"]["parameters"].get<int64_t>() + 2 * adapters));
  auto exchanged = [](const Json& plan) {
    for (const auto& one : plan["collectives"])
      if (one["op"] == "lane_exchange") return one["bytes"].get<int64_t>();
    return int64_t{-1};
  };
  const int64_t beside = exchanged(a) - 4 * a["model"]["parameters"].get<int64_t>();  // the loss
  EXPECT_GT(beside, 0);
  EXPECT_EQ(exchanged(b), 4 * adapters + beside);
  const auto screen =
      trainrun({"plan", "c.json", "--train.lora.rank=2", R"(--train.lora.targets=["**.qkv"])"});
  EXPECT_HAS(screen.output, str(" parameters, ", adapters, " of them trained\n"));
  const auto text =
      trainrun({"plan", "--long", "c.json", "--train.lora.rank=2", R"(--train.lora.targets=["**.qkv"])"});
  EXPECT_HAS(text.output, str("  trained of them           ", adapters, "\n"));
  const auto run = trainrun(words("said", {"--train.lora.rank=2", R"(--train.lora.targets=["**.qkv"])"}, 1));
  EXPECT_HAS(run.output, str(" parameters, ", adapters, " of them trained; mesh"));
}

}  // namespace
}  // namespace lockstep::tests
