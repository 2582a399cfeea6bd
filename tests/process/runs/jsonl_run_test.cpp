// Chats as JSON lines, from a tokenizer.json to the last loss: the same on any number of ranks, and on going
// on.
#include <signal.h>

#include <chrono>
#include <regex>

#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class JsonlRun : public RealRun {
 protected:
  void SetUp() override {
    RealRun::SetUp();
    std::string lines;
    for (int i = 0; i < 90; ++i) {
      lines += R"({"messages": [)";
      if (i % 3 == 0) lines += R"({"role": "system", "content": "Be brief."}, )";
      for (int turn = 0; turn <= i % 2; ++turn)
        lines += str(turn ? ", " : "", R"({"role": "user", "content": "How much is )", i, " and ", turn,
                     R"(?"}, {"role": "assistant", "content": "It is )", i + turn,
                     std::string(static_cast<size_t>(i % 7) * 9, 'x'), R"(."})");
      lines += "]}\n";
    }
    scratch_.write("chat.jsonl", lines);
    scratch_.write("c.json",
                   str(R"({"model": {"kind": "llama", "vocab": 1024, "context": 64, "width": 32, "depth": 2},
      "data": {"kind": "jsonl", "paths": ["chat.jsonl"], "tokenizer": ")",
                       TOKENIZER, R"(", "validation": 0.1},
      "batch": {"global": 12, "micro": 2}, "train": {"steps": 8, "eval_every": 4}, "log": {"every": 1}})"));
  }
  std::vector<std::string> losses(const std::string& name, const char* which = "loss") {
    return column(metrics_lines("runs/" + name + "/metrics.jsonl"), which);
  }
};

TEST_F(JsonlRun, HasTheSameLossesOnAnyNumberOfRanks) {
  for (const char* ranks : {"1", "2", "3"}) {
    auto result = trainrun({"--nproc", ranks, "c.json", str("--name=r", ranks)});
    ASSERT_EQ(result.code, kExitOk) << result.output;
    EXPECT_HAS(result.output, "training rows of 64");
  }
  ASSERT_EQ(losses("r1").size(), 8u);
  EXPECT_EQ(losses("r2"), losses("r1"));
  EXPECT_EQ(losses("r3"), losses("r1"));
  EXPECT_EQ(losses("r2", "val_loss"), losses("r1", "val_loss"));
  EXPECT_FALSE(losses("r1", "val_loss").empty());
}

TEST_F(JsonlRun, GoesOnWithTheSamplesThatFollow) {
  auto straight = trainrun({"--nproc", "2", "c.json", "--name=straight"});
  ASSERT_EQ(straight.code, kExitOk) << straight.output;
  for (const auto& [ranks, steps] : {std::pair{"2", "3"}, std::pair{"3", "8"}}) {
    auto part = trainrun({"--nproc", ranks, "c.json", "--name=parts", str("--train.steps=", steps)});
    ASSERT_EQ(part.code, kExitOk) << part.output;
  }
  EXPECT_EQ(losses("parts"), losses("straight"));
}

TEST_F(JsonlRun, GeneratesTextByTheTokenizerOfTheRun) {
  auto result = trainrun({"c.json", "--name=g"});
  ASSERT_EQ(result.code, kExitOk) << result.output;
  auto said = trainrun({"generate", "runs/g", "--prompt", "How much", "--tokens=4", "--temperature=0"});
  EXPECT_EQ(said.code, kExitOk) << said.output;
  EXPECT_HAS(said.output, "How much");
  said = trainrun({"generate", "g", "--prompt", "How much", "--tokens=1"});  // a run by its name
  EXPECT_EQ(said.code, kExitOk) << said.output;
  // A tokenizer of another name is not taken for one that transformers finds.
  said = trainrun({"export-hf", "g", "exported"});
  EXPECT_EQ(said.code, kExitOk) << said.output;
  EXPECT_HAS(said.output,
             " in it: put the files of data.tokenizer, " TOKENIZER ", into runs/g/hf (tokenizer.json ");
  EXPECT_FALSE(std::filesystem::exists("exported/tokenizer.json"));
  // The folder of a run as initial weights: its newest checkpoint.
  result = trainrun({"--nproc", "2", "c.json", "--name=h", "--train.init_from=runs/g", "--train.steps=1"});
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_HAS(result.output, "initial weights from runs/g");
  result = trainrun({"train", "c.json"});
  EXPECT_EQ(result.code, kExitUser);
  EXPECT_HAS(result.output, "there is no command \"train\": training is trainrun [run] CONFIG");
}

// A model that was tuned on one answer gives it, and stops where the answer ends.
TEST_F(JsonlRun, AnswersAMessage) {
  std::string lines;
  for (int i = 0; i < 40; ++i)
    lines +=
        R"({"conversations": [{"from": "human", "value": "Hello?"}, {"from": "gpt", "value": "It is 5."}]})"
        "\n";
  scratch_.write("chat.jsonl", lines);
  auto result =
      trainrun({"--nproc", "2", "c.json", "--name=answers", "--train.steps=60", "--optim.lr", "0.01"});
  ASSERT_EQ(result.code, kExitOk) << result.output;
  const std::vector<std::string> words = {"generate", "answers",         "--prompt",
                                          "Hello?",   "--temperature=0", "--tokens=20"};
  auto chat = words;
  chat.push_back("--chat");
  EXPECT_EQ(trainrun(chat).output, "It is 5.\n");
  EXPECT_NE(trainrun(words).output, "It is 5.\n");
  // Bytes: the template is text, and so is its end.
  result = trainrun({"c.json", "--name=bytes", "--train.steps=80", "--optim.lr", "0.01", "--data.tokenizer",
                     "bytes", "--model.vocab=256", "--model.context=96"});
  ASSERT_EQ(result.code, kExitOk) << result.output;
  chat[1] = "bytes", chat[5] = "--tokens=40";
  EXPECT_EQ(trainrun(chat).output, "It is 5.\n");
  result = trainrun({"generate", "bytes", "--system", "Be brief."});
  EXPECT_EQ(result.code, kExitUser);
  EXPECT_HAS(result.output, "--system goes with --chat, which is not given");
}

// Other tasks of text: an encoder reads full rows, an encoder and a decoder pairs.
TEST_F(JsonlRun, TrainsBertAndT5) {
  for (const char* kind : {"bert", "t5"}) {
    for (const char* ranks : {"1", "2", "3"}) {
      auto result = trainrun({"--nproc", ranks, "c.json", str("--name=", kind, ranks),
                              str("--model.kind=", kind), "--model.depth=1"});
      ASSERT_EQ(result.code, kExitOk) << result.output;
      EXPECT_HAS(result.output,
                 std::string(kind) == "bert" ? "pack stream" : "81 training pairs, 9 validation pairs");
    }
    const std::string name = kind;
    ASSERT_EQ(losses(name + "1").size(), 8u);
    EXPECT_EQ(losses(name + "2"), losses(name + "1"));
    EXPECT_EQ(losses(name + "3"), losses(name + "1"));
    EXPECT_EQ(losses(name + "2", "val_loss"), losses(name + "1", "val_loss"));
  }
}

// A separable set of texts is learnt, by names; on any number of ranks with the same bits.
TEST_F(JsonlRun, TrainsAClassifierOfTexts) {
  std::string lines;
  for (int i = 0; i < 120; ++i)
    lines += str(R"({"text": ")", i % 2 ? "a fine day" : "what a bad film",
                 std::string(static_cast<size_t>(i % 5), '!'), " ", i, R"(", "label": ")",
                 i % 2 ? "good" : "bad", "\"}\n");
  scratch_.write("texts.jsonl", lines);
  scratch_.write("classes.json",
                 R"({"model": {"kind": "bert_classifier", "context": 32, "width": 32, "depth": 1, "heads": 2},
      "data": {"kind": "jsonl", "paths": ["texts.jsonl"], "validation": 0.1},
      "batch": {"global": 12, "micro": 2}, "optim": {"lr": 0.003},
      "train": {"steps": 40, "eval_every": 20, "monitor": "val_accuracy", "monitor_mode": "max"},
      "checkpoint": {"best": true}, "log": {"every": 1}})");
  for (const char* ranks : {"1", "2", "3"}) {
    auto result = trainrun({"--nproc", ranks, "classes.json", str("--name=c", ranks)});
    ASSERT_EQ(result.code, kExitOk) << result.output;
    EXPECT_HAS(result.output, "data: training texts of each class: 0 bad: 54, 1 good: 54");
    EXPECT_HAS(result.output, "108 training texts, 12 validation texts");
    EXPECT_HAS(result.output, "  accuracy 1");  // beside the loss, as steps go by
  }
  ASSERT_EQ(losses("c1").size(), 40u);
  for (const char* which : {"loss", "accuracy", "val_loss", "val_accuracy"}) {
    EXPECT_EQ(losses("c2", which), losses("c1", which)) << which;
    EXPECT_EQ(losses("c3", which), losses("c1", which)) << which;
  }
  EXPECT_EQ(losses("c1", "val_accuracy").back(), "40 1");
  // Commands that read a run know it.
  auto said = trainrun({"generate", "c1"});
  EXPECT_EQ(said.code, kExitUser);
  EXPECT_HAS(said.output,
             "holds a bert_classifier, which gives logits of classes; generate prints text of models that "
             "give the next token");
  for (const auto& words : {std::vector<std::string>{"report", "c1"},
                            {"plan", "--nproc", "2", "classes.json"},
                            {"export-hf", "runs/c1", "exported"}})
    EXPECT_EQ(trainrun(words).code, kExitOk) << words[0];
  const Json exported = Json::parse(file_text("exported/config.json"));
  EXPECT_EQ(exported["id2label"], Json({{"0", "bad"}, {"1", "good"}}));  // found in the data
  // A class that means another one by now.
  scratch_.write("texts.jsonl", std::regex_replace(lines, std::regex("\"bad\""), "\"worse\""));
  auto other = trainrun({"--nproc", "2", "classes.json", "--name=c2", "--train.steps=41"});
  EXPECT_EQ(other.code, kExitUser);
  EXPECT_HAS(
      other.output,
      "was trained with class 0 as \"bad\", and the data names it \"good\"; list the classes in "
      "data.classes, in the order of the checkpoint, start afresh under another --name, or, where it is "
      "meant, add --resume.allow=model");
  EXPECT_TRUE(std::filesystem::exists("runs/c2/ckpt"));
  EXPECT_EQ(trainrun({"classes.json", "--name=c2", "--train.steps=41", "--data.classes=[\"worse\", \"good\"]",
                      "--resume.allow=model"})
                .code,
            kExitOk);
  // What is wrong with a record is told with its place, before a step.
  scratch_.write("texts.jsonl", lines + R"({"text": "neither"})");
  auto refused = trainrun({"--nproc", "2", "classes.json", "--name=d"});
  EXPECT_EQ(refused.code, kExitUser);
  EXPECT_HAS(refused.output, "texts.jsonl, line 121: the record has no \"label\"; it has: text");
  EXPECT_EQ(refused.output.find("logs: "), std::string::npos);
  EXPECT_EQ(refused.output.find(" is gone"), std::string::npos) << refused.output;  // it was removed
  EXPECT_FALSE(std::filesystem::exists("runs/d"));                                  // nothing of it is left
  refused = trainrun({"--simulate", "2", "classes.json", "--name=d"});
  EXPECT_EQ(refused.code, kExitUser);
  EXPECT_FALSE(std::filesystem::exists("runs/d"));
}

// Pairs of texts: whether the second says the number of the first; the same bits on any number of ranks.
TEST_F(JsonlRun, TrainsAClassifierOfPairs) {
  std::string lines;
  for (int i = 0; i < 120; ++i)
    lines += str(R"({"sentence1": "it is )", i % 3 ? "one" : "two", R"(", "sentence2": "the number is )",
                 i % 2 ? "one" : "two", R"(", "label": )", (i % 3 != 0) == (i % 2 != 0), "}\n");
  scratch_.write("pairs.jsonl", lines);
  scratch_.write("pairs.json",
                 str(R"({"model": {"kind": "bert_classifier", "vocab": 900, "context": 24, "width": 32,
        "depth": 2, "heads": 2},
      "data": {"kind": "jsonl", "paths": ["pairs.jsonl"], "tokenizer": ")",
                     PAIR_TOKENIZER, R"(", "eos": "none", "validation": 0.1},
      "batch": {"global": 12, "micro": 2}, "optim": {"lr": 0.003},
      "train": {"steps": 60, "eval_every": 30}, "log": {"every": 1}})"));
  for (const char* ranks : {"1", "2", "3"}) {
    auto result = trainrun({"--nproc", ranks, "pairs.json", str("--name=p", ranks)});
    ASSERT_EQ(result.code, kExitOk) << result.output;
    EXPECT_HAS(result.output, "data: 120 of 120 texts are pairs");
  }
  for (const char* which : {"loss", "val_loss", "val_accuracy"}) {
    EXPECT_EQ(losses("p2", which), losses("p1", which)) << which;
    EXPECT_EQ(losses("p3", which), losses("p1", which)) << which;
  }
  EXPECT_LT(std::stod(losses("p1").back().substr(3)), 0.5);
}

// A stop is heard while a text is tokenized, on all ranks: this one has 1,500 tokens that end at each place.
TEST_F(JsonlRun, StopsWhileItTokenizes) {
  Json rows = Json::array({Json::array({"<unk>", 0.0})});
  for (size_t i = 1; i <= 1500; ++i) rows.push_back(Json::array({std::string(i, 'a'), -1.0}));
  scratch_.write("slow.json",
                 Json({{"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", rows}}}}).dump());
  scratch_.write("slow.txt", std::string(4000000, 'a'));
  for (const char* ranks : {"1", "2"}) {
    const std::vector<std::string> words{TRAINRUN,
                                         "--nproc",
                                         ranks,
                                         "c.json",
                                         str("--name=s", ranks),
                                         "--data.kind=text",
                                         "--data.paths=[slow.txt]",
                                         "--data.tokenizer=slow.json",
                                         "--model.vocab=1600"};
    auto process = std::make_unique<Process>(words, scratch_.path(str("out-", ranks)),
                                             Variables{{"LOCKSTEP_CACHE", KERNEL_CACHE}});
    ASSERT_TRUE(until(60, [&] { return process->output().find("4000000 bytes taken") != std::string::npos; }))
        << process->output();
    const auto began = std::chrono::steady_clock::now();
    kill(process->pid(), SIGTERM);
    EXPECT_EQ(process->wait(20), kExitStopped) << process->output();
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(4))
        << "a second, but for other work";
    EXPECT_HAS(process->output(),
               "asked to stop while data was read, before the first step: there is nothing to save");
  }
}

// A model that sees no borders is refused before anything is compiled.
TEST_F(JsonlRun, AModelThatSeesNoBordersIsRefused) {
  auto result = trainrun({"c.json", "--name=l", "--model.kind=lstm"});
  EXPECT_EQ(result.code, kExitUser);
  EXPECT_HAS(result.output,
             "data.pack is documents, and model.kind lstm with task.kind causal_lm sees no borders of "
             "documents; choose data.pack none or stream, or a model that does (gpt, llama, qwen, "
             "mistral, gemma)");
}

}  // namespace
}  // namespace lockstep::tests
