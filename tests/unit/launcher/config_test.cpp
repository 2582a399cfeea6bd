// RunConfig: defaults, overrides, the round trip of the resolved config, lanes, and the table of keys.
#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <sstream>

#include "core/base/error.h"
#include "core/models/family.h"
#include "core/tasks/task.h"
#include "launcher/config/config.h"

namespace lockstep {

using namespace launcher;

namespace {

const char* kSmall = R"({"data": {"paths": ["a.txt"]}})";

RunConfig parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_config(text, "test.json", parse_overrides(overrides));
}

TEST(Config, DefaultsAreTheStructs) {
  RunConfig config = parse(kSmall);
  EXPECT_EQ(config.model.kind, "gpt");
  EXPECT_EQ(config.batch.global, 32);
  EXPECT_EQ(config.optim.betas, (std::vector<double>{0.9, 0.95}));
  EXPECT_EQ(config.mesh.shape, (std::vector<int64_t>{-1}));
  EXPECT_EQ(config.data.paths, std::vector<std::string>{"a.txt"});
}

TEST(Config, EveryKeyOfAConfigIsRead) {
  RunConfig config = parse(R"({
    "name": "quickstart",
    "placements": [{"dim": "tp", "params": "blocks.*.mlp.**", "place": "replicate"}],
    "model": {"kind": "llama", "vocab": 300, "context": 64, "width": 96, "depth": 2, "heads": 6, "kv_heads": 3, "hidden": 200,
              "rope_theta": 5e5, "eps": 1e-6, "dropout": 0.1, "head_dim": 8, "rope_factor": 8, "rope_original": 32, "rope_low": 2,
              "rope_high": 3, "tied": true},
    "task": {"kind": "causal_lm", "label_smoothing": 0.1, "z_loss": 1e-4},
    "mesh": {"shape": [2, -1], "dim_names": ["dp_replicate", "dp_shard"], "zero": 2, "gather": "step", "ranks_per_node": 4, "reshard_after_forward": false},
    "data": {"kind": "tokens", "paths": ["x.bin", "y.bin"], "tokenizer": "t.json", "eos": "none", "dtype": "uint32", "order": "sequential",
             "validation": 0.05, "raw": true, "fingerprint": "1GiB"},
    "batch": {"global": 24, "micro": 2, "lanes": 6},
    "train": {"steps": 600, "seed": 7, "precision": "bf16", "numerics": "invariant", "device": "cpu", "eval_every": 5, "eval_batches": 2,
              "monitor": "val_perplexity", "monitor_mode": "max", "patience": 3, "min_delta": 0.1,
              "init_from": "w.safetensors", "on_nonfinite": "skip", "nonfinite_limit": 3, "on_spike": "rewind", "spike_factor": 5, "spike_window": 20,
              "lora": {"rank": 4, "alpha": 8, "dropout": 0.1, "targets": ["**.q"], "also": ["norm"]}},
    "optim": {"kind": "sgd", "lr": 1, "weight_decay": 0, "momentum": 0.9,
              "nesterov": true, "clip": 0.5, "offload": true,
              "groups": [{"params": "**.bias", "weight_decay": 0}],
              "schedule": {"kind": "cosine", "warmup": 20, "min_ratio": 0.1}},
    "compile": {"backend": "eager", "threads": 2, "bucket_bytes": 1,
                "fusion": false, "together": 4, "tp_pieces": 4, "capture": false, "skip_passes": ["simplify"],
                "load_ops": ["./mine.so"], "extra_passes": ["mine::fold"], "memory_budget": "2GiB", "offload_activations": true},
    "checkpoint": {"dir": "s3://bucket/prefix", "every": 100, "async": false, "memory_every": 10, "keep": 5, "best": true, "retries": 1, "on_failure": "continue"},
    "resume": {"allow": ["model"]}, "load": {"partial": true},
    "log": {"every": 1, "hash_every": 50, "norms_every": 25, "tensorboard": true, "profile": 3},
    "watch": {"deadline": 30, "start_deadline": 300},
    "verify": {"collectives": "on", "replicas_every": 7, "recompute_every": 50, "on_corruption": "warn"},
    "launch": {"network": "eth0", "ports": "30000-30999"}})");
  EXPECT_EQ(config.name, "quickstart");
  EXPECT_EQ(get_key(config, *find_key("model.rope_theta")), 5e5);
  EXPECT_EQ(config.optim.lr, 1.0);  // an integer is a number
  EXPECT_EQ(config.optim.schedule.warmup, 20);
  EXPECT_EQ(config.compile.skip_passes, std::vector<std::string>{"simplify"});
  EXPECT_EQ(config.compile.extra_passes, std::vector<std::string>{"mine::fold"});
  EXPECT_FALSE(config.compile.fusion);
  EXPECT_EQ(config.train.init_from, "w.safetensors");
  // Nothing was left at its default by mistake: the printed config differs from the defaults in every key but
  // those that cannot.
  RunConfig fallback;
  std::vector<std::string> same;
  for (const auto& key : config_keys())
    if (has_meaning(config, key) && get_key(config, key) == get_key(fallback, key)) same.push_back(key.path);
  EXPECT_EQ(same, (std::vector<std::string>{"data.sources",
                                            "data.text",
                                            "data.prompt",
                                            "data.completion",
                                            "data.messages",
                                            "data.label",
                                            "data.text_pair",
                                            "data.classes",
                                            "data.template",
                                            "data.pack",
                                            "data.image.crop",
                                            "data.image.crop_share",
                                            "data.image.flip",
                                            "data.image.mean",
                                            "data.image.std",
                                            "train.numerics",
                                            "train.freeze",
                                            "train.float8.gradients",
                                            "train.float8.recipe",
                                            "train.float8.history",
                                            "train.float8.skip",
                                            "train.float8.head",
                                            "optim.betas",
                                            "optim.eps",
                                            "optim.moments",
                                            "optim.alpha",
                                            "optim.muon.lr",
                                            "optim.muon.momentum",
                                            "optim.muon.nesterov",
                                            "optim.muon.iterations",
                                            "optim.muon.rate",
                                            "optim.muon.adamw",
                                            "optim.adafactor.beta2_decay",
                                            "optim.adafactor.eps2",
                                            "optim.adafactor.d",
                                            "optim.schedule.decay",
                                            "optim.schedule.period",
                                            "optim.schedule.growth",
                                            "optim.schedule.metric",
                                            "optim.schedule.mode",
                                            "optim.schedule.every",
                                            "optim.schedule.factor",
                                            "optim.schedule.patience",
                                            "optim.schedule.threshold",
                                            "optim.schedule.threshold_mode",
                                            "optim.schedule.cooldown"}));
}

TEST(Config, ResolvedConfigRerunsTheRun) {
  RunConfig config =
      parse(kSmall, {"--optim.lr=3e-4", "--optim.betas=[0.85,0.999]", "--name=other", "--mesh.shape=[2,4]",
                     "--mesh.dim_names=[dp_shard,tp]", "--model.dropout=0.1"});
  std::string text = config_text(config);
  RunConfig again = parse(text);
  EXPECT_EQ(config_text(again), text);
  EXPECT_EQ(config_json(again), config_json(config));
  EXPECT_EQ(again.optim.lr, 3e-4);
  EXPECT_NE(text.find("\n  \"name\": \"other\",\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n    \"dim_names\": [\"dp_shard\",\"tp\"],\n"), std::string::npos) << text;
}

TEST(Config, KeysThatWentAreReadOfStoredConfigsAlone) {
  Json stored = config_json(parse(kSmall));
  stored["compile"]["mode"] = "default", stored["compile"]["fullgraph"] = true;
  EXPECT_EQ(config_json(parse(stored.dump())), config_json(parse(kSmall)));
  Json own = Json::parse(kSmall);
  own["compile"]["dynamic"] = "auto";
  try {
    parse(own.dump());
    ADD_FAILURE() << "was read";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "test.json: unknown key compile.dynamic; a step is always one graph of the config's "
                 "sizes, optimized in one way; leave it out");
  }
}

TEST(Config, OverridesTakeJsonOrBareText) {
  auto with = [](const std::string& word) { return parse(kSmall, {word}); };
  EXPECT_EQ(with("--name=123").name, "123");
  EXPECT_EQ(with("--name=\"quoted\"").name, "quoted");
  EXPECT_EQ(with("--init_from=null").train.init_from, "null");
  EXPECT_EQ(with("--init_from=a=b.safetensors").train.init_from, "a=b.safetensors");
  EXPECT_EQ(with("--train.init_from=").train.init_from, "");
  EXPECT_EQ(with("--batch.global=1e3").batch.global, 1000);
  EXPECT_EQ(with("--compile.fusion=false").compile.fusion, false);
  EXPECT_EQ(with("--data.paths=one.txt").data.paths, (std::vector<std::string>{"one.txt"}));
  EXPECT_EQ(with("--data.paths=one.txt,two.txt").data.paths,
            (std::vector<std::string>{"one.txt", "two.txt"}));
  EXPECT_EQ(with("--data.paths=[one.txt, two.txt]").data.paths,
            (std::vector<std::string>{"one.txt", "two.txt"}));
  EXPECT_EQ(with("--data.paths=[\"a,b\"]").data.paths, (std::vector<std::string>{"a,b"}));
  EXPECT_EQ(with("--data.paths=[7]").data.paths, (std::vector<std::string>{"7"}));
  EXPECT_EQ(with("--mesh.shape=1").mesh.shape, (std::vector<int64_t>{1}));
  EXPECT_EQ(with("--compile.skip_passes=[]").compile.skip_passes.size(), 0u);
}

TEST(Config, LaterOverrideWins) {
  EXPECT_EQ(parse(kSmall, {"--train.steps=5", "--train.steps=7"}).train.steps, 7);
}

TEST(Config, TableHasEachKeyOnceWithHelp) {
  std::set<std::string> paths;
  std::set<size_t> offsets;
  for (const auto& key : config_keys()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
    if (key.kinds.empty()) {  // options lie in a section's map
      EXPECT_TRUE(offsets.insert(key.offset).second) << key.path << " shares a field with another key";
    }
    EXPECT_FALSE(key.help.empty()) << key.path;
  }
  EXPECT_EQ(find_key("optim.schedule.kind")->rule.choices.size(), 6u);
  EXPECT_EQ(find_key("optim"), nullptr);
}

TEST(Config, HelpOfAKeyHasAtMostThirtyWords) {
  auto check = [](std::span<const ConfigKey> keys) {
    for (const auto& key : keys) {
      std::istringstream words(key.help);
      const auto count = std::distance(std::istream_iterator<std::string>(words), {});
      EXPECT_LE(count, 30) << key.path << ": " << key.help;
    }
  };
  std::vector<ConfigKey> own;  // a key of several kinds has the help of each
  for (const auto& key : config_keys())
    if (key.kinds.empty()) own.push_back(key);
  EXPECT_GT(own.size(), 80u);
  check(own);
  for (const models::Family* family : models::families()) check(family->keys());
  for (const tasks::Task* task : tasks::tasks()) check(task->keys());
}

TEST(Config, DefaultsObeyTheirOwnRules) {
  RunConfig config;
  config.data.paths = {"a"};
  EXPECT_EQ(config_errors(config), std::vector<std::string>{});
}

TEST(Config, ReferenceNamesEveryKey) {
  std::string reference = config_reference();
  for (const auto& key : config_keys()) {
    EXPECT_NE(reference.find("| `" + key.path + "` |"), std::string::npos) << key.path;
    EXPECT_NE(reference.find(key.help), std::string::npos) << key.path;
  }
  EXPECT_NE(reference.find("## optim\n"), std::string::npos);
  EXPECT_NE(reference.find("| `data.validation` | number | `0.0` | [0, 1) |"), std::string::npos)
      << reference;
}

TEST(Config, DeviceWordsAreTakenApart) {
  auto of = [](const char* word) {
    DeviceChoice choice = device_choice(parse(kSmall, {str("--train.device=", word)}).train.device);
    return str(choice.kind, " ", choice.ordinal, " ", choice.path);
  };
  EXPECT_EQ(of("auto"), "auto -1 ");
  EXPECT_EQ(of("cpu"), "cpu -1 ");
  EXPECT_EQ(of("cuda"), "cuda -1 ");
  EXPECT_EQ(of("cuda:3"), "cuda 3 ");
  EXPECT_EQ(of("plugin:libfoo.so"), "plugin -1 libfoo.so");
  EXPECT_EQ(of("plugin:a:b.so"), "plugin -1 a:b.so");
}

TEST(Config, MeshIsResolvedForAWorld) {
  RunConfig config = parse(kSmall);
  for (int64_t world : {1, 2, 3, 4, 7}) EXPECT_EQ(validate(config, world).shape, Shape{world});
  config = parse(kSmall, {"--mesh.shape=[2,-1]", "--mesh.dim_names=[dp_replicate,tp]"});
  EXPECT_EQ(validate(config, 8).shape, (Shape{2, 4}));
}

}  // namespace
}  // namespace lockstep
