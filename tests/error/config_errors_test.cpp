// Every refusal of a config, on its words.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "core/base/error.h"
#include "launcher/config/config.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/slowness.h"

namespace lockstep {

using namespace launcher;

namespace {

template <class Act>
std::string refusal(Act act) {
  try {
    act();
  } catch (const UserError& error) { return error.what(); }
  return "accepted";
}
// The message for a config with these overrides on top of a sound one.
std::string with(const std::vector<std::string>& overrides) {
  return refusal(
      [&] { parse_config(R"({"data": {"paths": ["a.txt"]}})", "c.json", parse_overrides(overrides)); });
}
std::string of(const std::string& text) {
  return refusal([&] { parse_config(text, "c.json"); });
}

TEST(ConfigErrors, UnknownKeyNamesTheNearest) {
  EXPECT_EQ(of(R"({"data": {"paths": ["a"]}, "optim": {"lrr": 1}})"),
            "c.json: unknown key optim.lrr; did you mean optim.lr?");
  EXPECT_EQ(of(R"({"data": {"paths": ["a"]}, "steps": 5})"),
            "c.json: unknown key steps; did you mean train.steps?");
  EXPECT_EQ(of(R"({"data": {"paths": ["a"]}, "modle": {}})"),
            "c.json: unknown key modle; did you mean model?");
  EXPECT_EQ(of(R"({"data": {"paths": ["a"]}, "checkpoint": {"folder": "here"}})"),
            "c.json: unknown key checkpoint.folder; the keys of checkpoint are dir, every, async, "
            "memory_every, keep, best, retries, on_failure");
  EXPECT_EQ(with({"--optim.lrr=1"}),
            "command line: unknown key optim.lrr in --optim.lrr=1; did you mean optim.lr?");
  EXPECT_EQ(refusal([] { parse_config("{\"data\": {\"paths\": [\"a\"]}}", "c.json", {{"optim.lrr", "1"}}); }),
            "c.json: unknown key optim.lrr; did you mean optim.lr?");
}

TEST(ConfigErrors, WrongType) {
  EXPECT_EQ(of(R"({"data": {"paths": ["a"]}, "optim": {"lr": "fast"}})"),
            "c.json: optim.lr is \"fast\", a string; it must be a number, like its default 0.0003");
  EXPECT_EQ(of(R"({"data": {"paths": ["a"]}, "batch": {"global": 1.5}})"),
            "c.json: batch.global is 1.5, a number; it must be an integer, like its default 32");
  EXPECT_EQ(of(R"({"data": {"paths": ["a"]}, "batch": {"global": 18446744073709551615}})"),
            "c.json: batch.global is 18446744073709551615, beyond what an integer holds; it must be an "
            "integer, like its default 32");
  EXPECT_EQ(of(R"({"data": {"paths": "a"}})"),
            "c.json: data.paths is \"a\", a string; it must be a list of strings, like its default []");
  EXPECT_EQ(of(R"({"data": {"paths": ["a"]}, "compile": {"fusion": 1}})"),
            "c.json: compile.fusion is 1, an integer; it must be a boolean, like its default true");
  EXPECT_EQ(of(R"({"data": {"paths": ["a"]}, "name": null})"),
            "c.json: name is null, null; it must be a string, like its default \"run\"");
  EXPECT_EQ(of(R"({"data": {"paths": ["a"]}, "log": 3})"),
            "c.json: log is 3, an integer; it must be a section with the keys every, hash_every, "
            "norms_every, tensorboard, profile");
  EXPECT_EQ(of(R"({"data": {"paths": ["a"]}, "mesh": {"shape": [2, "x"]}})"),
            "c.json: mesh.shape is [2,\"x\"], a list; it must be a list of integers, like its default [-1]");
}

TEST(ConfigErrors, DeviceWords) {
  const std::string choices = "; choose auto | cpu | cuda | cuda:N | plugin:PATH";
  for (const char* good :
       {"auto", "cpu", "cuda", "cuda:0", "cuda:13", "plugin:libfoo.so", "plugin:/opt/a b:c.so"})
    EXPECT_EQ(with({str("--train.device=", good)}), "accepted") << good;
  EXPECT_EQ(with({"--train.device=tpu"}),
            "c.json: train.device is \"tpu\"" + choices + "; did you mean cpu?");
  for (const char* bad : {"cuda:", "cuda:x", "cuda:-1", "cuda:99999", "cuda:N"})
    EXPECT_EQ(with({str("--train.device=", bad)}).find(str("c.json: train.device is \"", bad, "\"", choices)),
              0u)
        << bad;
  for (const char* bad : {"plugin:", "plugin", "cuda1", ""})
    EXPECT_NE(with({str("--train.device=", bad)}), "accepted") << bad;
}

TEST(ConfigErrors, AllAtOnce) {
  EXPECT_EQ(
      of(R"({"data": {"paths": ["a"]}, "modle": 1, "batch": {"global": "x", "micro": 5}, "optim": {"lr": -1}})"),
      "c.json: 3 errors\n"
      "  unknown key modle; did you mean model?\n"
      "  batch.global is \"x\", a string; it must be an integer, like its default 32\n"
      "  optim.lr is -1.0; it must be at least 0");
}

TEST(ConfigErrors, Syntax) {
  EXPECT_EQ(of("{\n  \"name\": \"x\",\n  \"model\": {,}\n}"),
            "c.json: line 3, column 13: this is not JSON: unexpected ','; expected string literal\n"
            "      \"model\": {,}\n"
            "                ^");
  EXPECT_EQ(of(""),
            "c.json: line 1, column 1: this is not JSON: unexpected end of input; expected '[', '{', or a "
            "literal\n    \n    ^");
  EXPECT_EQ(of("[1]"),
            "c.json: the file holds a list; a config is an object: {\"name\": ..., \"model\": {...}}");
  EXPECT_EQ(of(R"({"data": {"paths": ["a"]}, "train": {"steps": 1, "steps": 2}})"),
            "c.json: key \"steps\" is given twice in one section; keep one");
}

TEST(ConfigErrors, MemoryBudgets) {
  for (const char* good : {"none", "full", "2GiB", "1.5GB", "123456"})
    EXPECT_EQ(with({str("--compile.memory_budget=", good)}), "accepted") << good;
  for (const char* bad : {"half", "0", "-1GB", "2 apples"})
    EXPECT_EQ(with({str("--compile.memory_budget=", bad)}),
              str("c.json: compile.memory_budget is \"", bad,
                  "\"; give none, full, or bytes, as in 2GiB or 1.5GB"));
  const std::string away = "--compile.offload_activations=true";
  EXPECT_EQ(with({away, "--compile.memory_budget=2GiB"}), "accepted");
  for (const char* word : {"none", "full"})
    EXPECT_EQ(with({away, str("--compile.memory_budget=", word)}),
              str("c.json: compile.offload_activations is true, and compile.memory_budget is ", word,
                  "; give the bytes that the arena is to keep within, as in 20GiB (trainrun plan --budgets "
                  "--compile.offload_activations=false prints some), or leave compile.offload_activations "
                  "out"));
}

// What torch, transformers, nanoGPT and others call it.
TEST(ConfigErrors, WordsOfTheNeighbours) {
  for (const auto& [word, advice] : std::vector<std::pair<std::string, std::string>>{
           {"batch_size",
            "batch.global is samples per step on all ranks together, batch.micro those of a micro-batch"},
           {"bs", "batch.global is samples per step"},
           {"batch.size", "batch.global is samples per step"},
           {"mesh.sizes", "did you mean mesh.shape?"},
           {"learning_rate", "did you mean optim.lr?"},
           {"n_layer", "did you mean model.depth?"},
           {"chat_template", "did you mean data.template (chatml, llama3)?"},
           {"packing", "did you mean data.pack (documents, none, stream)?"},
           {"text_column", "did you mean data.text?"},
           {"conversations", "did you mean data.messages?"},
           {"label_column", "did you mean data.label?"},
           {"id2label", "did you mean data.classes, as in [\"negative\",\"positive\"]?"},
           {"num_labels", "did you mean model.classes?"},
           {"tokenizer_path", "did you mean data.tokenizer, a tokenizer.json or the folder that has one?"},
           {"data_mix", "did you mean data.sources, as in [{\"paths\": [\"a.jsonl\"], \"weight\": 2}]?"},
           {"completion_only_loss", "only completions, and what the assistant says, are learnt"},
           {"horizontal_flip", "did you mean data.image.flip?"},
           {"n_head", "did you mean model.heads?"},
           {"n_embd", "did you mean model.width?"},
           {"block_size", "did you mean model.context?"},
           {"epochs", "a run is counted in steps: train.steps"},
           {"gradient_accumulation", "micro-batches are summed by themselves"},
           {"lr_scheduler",
            "did you mean optim.schedule.kind (constant, linear, cosine, wsd, restarts, plateau)?"},
           {"warmup_steps", "did you mean optim.schedule.warmup, in steps?"},
           {"max_grad_norm", "did you mean optim.clip?"},
           {"fsdp", "dp_shard is the mesh dim that does it"},
           {"zero_stage", "did you mean mesh.zero (1, 2, 3), with mesh.dim_names"},
           {"fp8", "did you mean train.precision float8?"},
           {"fp8_format", "did you mean train.float8.gradients (e5m2, e4m3)?"},
           {"fp8_recipe", "did you mean train.float8.recipe (tensorwise, rowwise, delayed)?"},
           {"fp8_amax_history_len", "did you mean train.float8.history, with train.float8.recipe delayed?"},
           {"fp8_amax_compute_algo", "a delayed scale follows from the largest of its history"},
           {"vocab_size", "did you mean model.vocab?"}}) {
    const std::string in_file = of(str("{\"data\": {\"paths\": [\"a\"]}, \"", word, "\": 1}"));
    EXPECT_EQ(in_file.find(str("c.json: unknown key ", word, "; ", advice)), 0u) << in_file;
    const std::string in_section =
        of(str("{\"data\": {\"paths\": [\"a\"]}, \"train\": {\"", word, "\": 1}}"));
    EXPECT_EQ(in_section.find(str("c.json: unknown key train.", word, "; ", advice)), 0u) << in_section;
    std::string dashed = word;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    const std::string as_flag =
        refusal([&] { parse_overrides({str("--", dashed, "=1")}, {"nproc", "grace"}); });
    EXPECT_NE(as_flag.find(advice), std::string::npos) << as_flag;
  }
  EXPECT_EQ(
      with({"--train.device=gpu"}),
      "c.json: train.device is \"gpu\"; choose auto | cpu | cuda | cuda:N | plugin:PATH; did you mean cuda?");
  EXPECT_EQ(with({"--optim.kind=adam"}),
            "c.json: optim.kind is \"adam\"; choose adamw | sgd | lion | rmsprop | adagrad | "
            "sparse_adam | rowwise_adagrad | muon | adafactor; did you mean adamw?");
  EXPECT_EQ(with({"--mesh.dim_names=[ddp]"}),
            "c.json: mesh.dim_names: unknown dim \"ddp\"; nearest: dp_replicate; known: dp_replicate, "
            "dp_shard, tp");
  EXPECT_EQ(with({"--mesh.dim_names=[fsdp]"}),
            "c.json: mesh.dim_names: unknown dim \"fsdp\"; nearest: dp_shard; known: dp_replicate, "
            "dp_shard, tp");
  EXPECT_EQ(with({"--mesh.dim_names=[pipeline]"}),
            "c.json: mesh.dim_names: \"pipeline\": this version splits no layers over ranks; known: "
            "dp_replicate, dp_shard, tp");
  EXPECT_EQ(with({"--mesh.dim_names=[quux]"}),
            "c.json: mesh.dim_names: unknown dim \"quux\"; known: dp_replicate, dp_shard, tp");
}

TEST(ConfigErrors, CommentsAndWhatEditorsWrite) {
  EXPECT_EQ(of("// a run\n{\"$schema\": \"x.json\", /* the data */ \"data\": {\"paths\": [\"a//b\",],},}\n"),
            "accepted");
  EXPECT_EQ(of("{/* no end"),
            "c.json: line 1, column 2: this comment has no end; write */ after it\n    {/* no end\n     ^");
  EXPECT_EQ(
      of("{\"data\": {\"paths\": [,]}}").find("c.json: line 1, column 21: this is not JSON: unexpected ','"),
      0u);
  EXPECT_EQ(with({"--name=a//b"}).find("c.json: name is \"a//b\""), 0u);  // no comment on the command line
}

// Beyond a bound: what is wrong, both values, and soon.
TEST(ConfigErrors, Bounds) {
  const auto start = std::chrono::steady_clock::now();
  auto starts = [](const std::string& text, const std::string& words) {
    EXPECT_EQ(text.find(words), 0u) << text;
  };
  const std::string deep(100000, '['), sound = "{\"data\": {\"paths\": [\"a\"]}, ";
  for (const char* path : {"model", "placements", "name"})
    starts(of(str("{\"", path, "\": ", deep)), "c.json: line 1, column " +
                                                   str(std::string(path).size() + 5 + 64) +
                                                   ": nested deeper than 64 lists and sections\n");
  starts(with({"--mesh.shape=" + deep}),
         "c.json: --mesh.shape: line 1, column 65: nested deeper than 64 lists and sections\n");
  for (const std::string said : {"1e400 is beyond the largest number, 1.8", "1e-400 is below the smallest"}) {
    const std::string number = said.substr(0, said.find(' '));
    starts(of(sound + "\"optim\": {\"lr\": " + number + "}}"), "c.json: line 1, column 44: " + said);
    starts(with({"--optim.lr=" + number}), "c.json: --optim.lr: line 1, column 1: " + said);
  }
  EXPECT_EQ(with({"--model.depth=1099511627776"}),
            "c.json: model.depth is 1099511627776; it must be at least 1 and at most 1024");
  EXPECT_EQ(with({"--batch.global=1099511627776"}),
            "c.json: batch.global is 1099511627776; it must be at least 1 and at most 16777216");
  EXPECT_EQ(with({"--model.width=4611686018427387904"}),
            "c.json: model.width is 4611686018427387904; it must be at least 1 and at most 1048576");
  EXPECT_EQ(with({"--model.width=9223372036854775808"}),
            "c.json: model.width is 9223372036854775808, beyond what an integer holds; it must be an "
            "integer, like its default 128");
  EXPECT_EQ(with({"--compile.threads=100000"}),
            "c.json: compile.threads is 100000; it must be at least 0 and at most 1024");
  EXPECT_EQ(with({"--mesh.shape=[6000,6000]", "--mesh.dim_names=[dp_replicate,tp]"}),
            "c.json: mesh.shape [6000,6000] multiplies out to more than 16384 ranks");
  starts(with({"--model.width=1048576", "--model.depth=1024", "--model.vocab=2147483647", "--batch.lanes=1",
               "--model.context=16777216"}),
         "c.json: a step of this model and batch would hold about ");
  starts(with({"--train.steps=1000000000000", "--batch.global=16777216", "--model.context=131072"}),
         "c.json: train.steps 1000000000000 x batch.global 16777216 x model.context 131072 is 2.20e+24 "
         "tokens, and at most 4.61e+18 are counted");
  starts(of(sound + "\"placements\": [{\"dim\": \"tp\", \"params\": \"" + std::string(2000, '*') +
            "\", \"place\": \"replicate\"}]}"),
         "c.json: placements: the pattern ****************************************... (1960 more) has 2000 "
         "characters; at most 256 are read");
  std::string keys = "{\"name\": \"x\"";
  for (int i = 0; i < 1000000; ++i) keys += str(",\"key", i, "\":1");
  const std::string many = of(keys + "}");
  starts(many, "c.json: 1000001 errors\n  unknown key key0; ");
  EXPECT_NE(many.find("\n  and 999981 more"), std::string::npos) << many.substr(0, 4000);
  EXPECT_LT(many.size(), 8000u);
  std::string numbers = sound + "\"mesh\": {\"shape\": [";
  for (int i = 0; i < 1000000; ++i) numbers += "1,";
  EXPECT_NE(of(numbers + "1]}}").find("mesh.shape has 1000001 values; at most 1000 are read"),
            std::string::npos);
  starts(of(std::string((16 << 20) + 1, ' ')), "c.json: a text of 16.00 MiB; at most 16.00 MiB are read");
  EXPECT_NE(refusal([] { parse_overrides({"--name=\xff"}); }).find("is not UTF-8"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            kSlowness * std::chrono::seconds(20));  // of which a quiet machine takes one
}

TEST(ConfigErrors, AShortRunIsWarnedNotRefused) {
  const std::vector<std::string> shorter = {"--optim.schedule.kind=cosine", "--optim.schedule.warmup=9",
                                            "--train.steps=8"};
  EXPECT_EQ(with(shorter), "accepted");
  RunConfig config = parse_config(R"({"data": {"paths": ["a.txt"]}})", "c.json", parse_overrides(shorter));
  EXPECT_EQ(config_warnings(config),
            (std::vector<std::string>{"optim.schedule.warmup is 9, and the run has 8 steps (train.steps): "
                                      "the rate never reaches optim.lr"}));
  config.train.steps = 9;
  EXPECT_TRUE(config_warnings(config).empty());
}

TEST(ConfigErrors, WhatReadsNoDataNeedsNoPaths) {
  EXPECT_EQ(refusal([] { parse_config("{}", "c.json", {}, DataPaths::may_be_empty); }), "accepted");
  EXPECT_EQ(
      of("{}"),
      "c.json: data.paths is empty; name files, directories or globs, as in \"paths\": [\"corpus/*.txt\"]");
}

TEST(ConfigErrors, Choices) {
  EXPECT_EQ(with({"--model.kind=gtp"}),
            "c.json: model.kind is \"gtp\"; choose gpt | llama | qwen | gemma | "
            "mistral | bert | bert_classifier | t5 | lstm | vit | resnet | convnext | unet | mixer | dlrm | "
            "vae | dcgan; did "
            "you mean gpt?");
  EXPECT_EQ(with({"--compile.backend=fast"}),
            "c.json: compile.backend is \"fast\"; choose native | eager | reference");
}

TEST(ConfigErrors, Ranges) {
  EXPECT_EQ(with({"--train.steps=0"}),
            "c.json: train.steps is 0; it must be at least 1 and at most 1000000000000");
  EXPECT_EQ(with({"--model.dropout=1"}),
            "c.json: model.dropout is 1.0; it must be at least 0 and less than 1");
  EXPECT_EQ(with({"--optim.betas=[0.9,1.5]"}),
            "c.json: optim.betas is 1.5; it must be at least 0 and less than 1");
  EXPECT_EQ(with({"--model.eps=0"}), "c.json: model.eps is 0.0; it must be more than 0");
  EXPECT_EQ(with({"--optim.schedule.min_ratio=2"}),
            "c.json: optim.schedule.min_ratio is 2.0; it must be at least 0 and at most 1");
}

TEST(ConfigErrors, BetweenKeys) {
  EXPECT_EQ(with({"--model.width=130"}),
            "c.json: model.width is 130, not a multiple of model.heads, 4; 128 and 132 are");
  EXPECT_EQ(with({"--model.width=3"}), "c.json: model.width is 3, not a multiple of model.heads, 4; 4 is");
  EXPECT_EQ(with({"--batch.global=30"}),
            "c.json: batch.global is 30, not a multiple of batch.micro, 4; 28 and 32 are");
  EXPECT_EQ(with({"--batch.lanes=3"}),
            "c.json: batch.lanes is 3, which does not divide the 8 micro-batches of a step (batch.global / "
            "batch.micro); choose one of "
            "[1,2,4,8]");
  // 2^61 - 1 micro-batches, a prime: not every number is tried.
  EXPECT_EQ(with({"--batch.global=4611686018427387902", "--batch.micro=2", "--batch.lanes=3"}),
            "c.json: batch.global is 4611686018427387902; it must be at least 1 and at most 16777216");
  EXPECT_EQ(with({"--model.kind=llama", "--model.kv_heads=3"}),
            "c.json: model.heads is 4, not a multiple of model.kv_heads, 3; 3 and 6 are");
  EXPECT_EQ(with({"--model.kind=llama", "--model.width=132"}),
            "c.json: model.width / model.heads is 33, odd; rotary embedding turns pairs, so a head has an "
            "even width");
  EXPECT_EQ(with({"--model.kv_heads=2"}),
            "c.json: model.kv_heads is 2, but it belongs to model.kind llama or qwen or gemma or mistral and "
            "model.kind is gpt; leave it out, or choose llama or qwen or gemma or mistral");
  EXPECT_EQ(with({"--optim.momentum=0.9"}),
            "c.json: optim.momentum is 0.9, but it belongs to optim.kind sgd or rmsprop and optim.kind is "
            "adamw; leave it out, or choose sgd or rmsprop");
  EXPECT_EQ(
      with({"--optim.muon.momentum=0.9"}),
      "c.json: optim.muon.momentum is 0.9, but it belongs to optim.kind muon and optim.kind is adamw; leave "
      "it out, or choose muon");
  EXPECT_EQ(with({"--data.dtype=uint32"}),
            "c.json: data.dtype is \"uint32\", but it belongs to data.kind tokens and data.kind is text; "
            "leave it out, or choose tokens");
  EXPECT_EQ(with({"--optim.betas=[0.9]"}), "c.json: optim.betas has 1 values; adamw has two: [0.9, 0.95]");
  EXPECT_EQ(with({"--model.vocab=100"}),
            "c.json: model.vocab is 100, but text as bytes has 256 tokens; use 256 or more");
  EXPECT_EQ(
      with({"--data.paths=[]"}),
      "c.json: data.paths is empty; name files, directories or globs, as in \"paths\": [\"corpus/*.txt\"]");
  EXPECT_EQ(with({"--data.paths=[\"\"]"}),
            "c.json: data.paths holds an empty path; name a file, a directory or a glob");
  EXPECT_EQ(with({"--name=a/b"}),
            "c.json: name is \"a/b\"; it names a folder below runs/, so it has no slash, no space and no "
            "control character, and at most 200 bytes");
}

TEST(ConfigErrors, Mesh) {
  EXPECT_EQ(with({"--mesh.dim_names=[dp_replicat]"}).substr(0, 75),
            "c.json: mesh.dim_names: unknown dim \"dp_replicat\"; nearest: dp_replicate; k");
  EXPECT_NE(with({"--mesh.shape=[-1,-1]", "--mesh.dim_names=[dp_replicate,tp]"}).find("has 2 sizes of -1"),
            std::string::npos);
  EXPECT_EQ(refusal([] { resolve_mesh({int64_t{1} << 40, int64_t{1} << 40}, {"dp_replicate", "tp"}, 2); }),
            "mesh.shape [1099511627776,1099511627776] multiplies out to more than 2^63 ranks");
  RunConfig config;
  config.mesh.shape = {3};
  std::string text = refusal([&] { validate(config, 4); });
  EXPECT_NE(text.find("mesh.shape [3] multiplies out to 3, but there are 4 ranks"), std::string::npos)
      << text;
  config.mesh.shape = {3}, config.mesh.dim_names = {"tp"};
  EXPECT_EQ(refusal([&] { validate(config, 3); }),
            "on the mesh [tp=3]: 3 reasons\n"
            "  model.heads is 4, not a multiple of the mesh's tp size, 3; 3 and 6 are\n"
            "  the MLP's features (4 x model.width) is 512, not a multiple of the mesh's tp size, 3; 510 and "
            "513 are\n"
            "  model.context is 128, not a multiple of the mesh's tp size, 3; 126 and 129 are\n"
            "  the nearest mesh that works is [dp_replicate=3, tp=1]: --mesh.shape=[3,1] "
            "--mesh.dim_names=[dp_replicate,tp]");
}

TEST(ConfigErrors, CommandLine) {
  EXPECT_EQ(refusal([] { parse_overrides({"--optim.lr"}); }),
            "command line: --optim.lr has no value; write --optim.lr=VALUE");
  EXPECT_EQ(refusal([] { parse_overrides({"stray"}); }),
            "command line: \"stray\" is neither a flag nor an override --KEY=VALUE; leave it out");
  EXPECT_EQ(refusal([] { parse_overrides({"train.steps=5"}); }),
            "command line: \"train.steps=5\" is neither a flag nor an override --KEY=VALUE; did you mean "
            "--train.steps=5?");
  EXPECT_EQ(refusal([] { parse_overrides({"--optim=1"}); }),
            "command line: --optim is a section; name one of its keys: --optim.kind=VALUE");
  EXPECT_EQ(refusal([] { parse_overrides({"--nprc=4"}, {"nproc", "grace"}); }),
            "command line: unknown flag --nprc; did you mean --nproc?");
  EXPECT_EQ(refusal([] { parse_overrides({"--weight_decay=0"}, {"restart_delay"}); }),
            "command line: unknown key weight_decay in --weight_decay=0; did you mean optim.weight_decay?");
  EXPECT_EQ(refusal([] { parse_overrides({"a", "--b.c=1"}); }).substr(0, 23), "command line: 2 errors\n");
}

TEST(ConfigErrors, MissingFile) {
  EXPECT_EQ(refusal([] { load_config("/no/such.json"); }),
            "cannot read the config /no/such.json: it is not there; name a JSON file, as in: trainrun "
            "--nproc 2 configs/quickstart.json");
  EXPECT_EQ(refusal([] { load_config("/tmp"); }),
            "cannot read the config /tmp: it is a folder; name a JSON file, as in: trainrun --nproc 2 "
            "configs/quickstart.json");
  ScratchFolder folder;
  std::string path = folder.write("c.json", R"({"optim": {"lr": 1}})");
  EXPECT_EQ(refusal([&] { load_config(path); }).substr(0, path.size() + 2), path + ": ");
}

}  // namespace
}  // namespace lockstep
