// Files of somebody else's under the names of a run's own.
#include <sys/stat.h>

#include <array>
#include <set>

#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

class ForeignNames : public RealRun {
 protected:
  void SetUp() override {
    RealRun::SetUp();
    write_tiny();
  }
};

// Every option and argument that names what is written, with paths that no disk has.
TEST_F(ForeignNames, APlaceThatNoShellReadIsRefusedByEveryCommand) {
  train({"c.json", "--train.steps=2"});
  struct Case {
    std::vector<std::string> words;  // PLACE: where the path goes
    std::string key;
    std::string end;     // of the path
    bool store = false;  // s3://BUCKET is a place
  };
  const std::vector<Case> cases = {
      {{"c.json", "--checkpoint.dir=PLACE"}, "checkpoint.dir", "", true},
      {{"c.json", "--log-dir", "PLACE"}, "--log-dir", ""},
      {{"ckpt", "reshard", "runs/run", "PLACE", "--ranks", "2"}, "OUT", "", true},
      {{"ckpt", "average", "runs/run", "runs/run", "PLACE"}, "OUT", "", true},
      {{"ckpt", "cat", "runs/run", "token.weight", "--npy", "PLACE"}, "--npy", ".npy"},
      {{"export-hf", "runs/run", "PLACE"}, "OUT", ""},
      {{"report", "runs/run", "--out", "PLACE"}, "--out", ".html"},
      {{"show", "--graph", "PLACE", "c.json"}, "--graph", ".svg"},
  };
  const auto there = [] {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(".")) out.insert(entry.path().filename());
    out.erase("out");
    return out;
  };
  const auto before = there();
  for (const Case& one : cases)
    for (const char* place : {"~/x", "s3:/x/y", "gs://b/x", "file:///tmp/x", "s3://b/x"}) {
      if (one.store && std::string(place) == "s3://b/x") continue;
      const std::string path = place + one.end;
      std::vector<std::string> words = one.words;
      for (auto& word : words)
        if (const size_t at = word.find("PLACE"); at != std::string::npos) word.replace(at, 5, path);
      const auto result = trainrun(words);
      EXPECT_EQ(result.code, kExitUser) << join(words, " ") << "\n" << result.output;
      EXPECT_HAS(result.output, str(one.key, " is \"", path, "\""));
      EXPECT_HAS(result.output, place[0] == '~' ? "; ~ is your home in a shell alone, which did not read it"
                                : std::string(place) == "s3://b/x"
                                    ? ", an object store, and it is written on a disk"
                                    : "; an object store is s3://BUCKET/PREFIX");
      EXPECT_EQ(there(), before) << join(words, " ");
    }
}

// A run's own are, of any version.
TEST_F(ForeignNames, AreNotReplaced) {
  const auto refused = [&](const std::vector<std::string>& words, const std::string& file,
                           const std::string& said) {
    const std::string before = file_text(file);
    for (const char* ranks : {"--nproc", "--simulate"}) {
      std::vector<std::string> all = words;
      if (words[0] == "c.json") all.insert(all.begin(), {ranks, "2"});
      const auto result = trainrun(all);
      EXPECT_EQ(result.code, kExitUser) << result.output;
      EXPECT_HAS(result.output, said);
      EXPECT_EQ(file_text(file), before) << join(all, " ");
    }
  };
  const std::string config = file_text("c.json");
  for (const std::string& text :
       {std::string("{}"), std::string("// mine\n{}"), config, std::string("thesis")})
    for (const char* file : {"config.json", "asked.json"}) {
      scratch_.write(str("runs/mine/", file), text);
      refused({"c.json", "--name=mine", "--train.steps=2", "--log-dir=logs"}, str("runs/mine/", file),
              str("runs/mine/", file,
                  " is there, and no run stored it: the run's config would take its place. It is left as it "
                  "is; move it away, or choose --name=OTHER"));
      EXPECT_FALSE(fs::exists("runs/mine/lock")) << "nothing is left of a start that was for nothing";
      EXPECT_FALSE(fs::exists("logs/mine"));
      EXPECT_FALSE(fs::is_symlink("runs/mine/logs"));
      fs::remove(str("runs/mine/", file));
    }
  for (const char* text : {"thesis", "{\"step\": 1, \"loss\": 3}\n", "{\"epoch\": 1}\n"}) {
    scratch_.write("runs/mine/metrics.jsonl", std::string(text));
    refused({"c.json", "--name=mine", "--train.steps=2"}, "runs/mine/metrics.jsonl",
            "runs/mine/metrics.jsonl is there, and has no rows of a run, which would take their place. It is "
            "left as "
            "it is; move it away, or give the run another name");
  }
  fs::remove("runs/mine/metrics.jsonl");
  for (const char* name : {"memory-id", "run.at", "logs.at", "ckpt.at"}) {
    scratch_.write(str("runs/mine/", name), std::string("thesis"));
    refused({"c.json", "--name=mine", "--train.steps=2"}, str("runs/mine/", name),
            str("runs/mine/", name,
                " is there, and no run wrote it: a file of the run's would take its place. It is "
                "left as it is; move it away, or choose --name=OTHER"));
    fs::remove(str("runs/mine/", name));
  }
  // Its own: of a run that goes on, also where its lock is gone, and of one that was killed.
  const std::vector<std::string> words = {"--nproc", "2", "c.json", "--name=mine"};
  const auto train_to = [&](const char* steps) {
    std::vector<std::string> all = words;
    all.push_back(str("--train.steps=", steps));
    train(all);
  };
  train_to("4");
  fs::remove("runs/mine/lock");
  scratch_.write("runs/mine/asked.json", file_text("runs/mine/config.json"));
  train_to("6");
  EXPECT_EQ(last_step("mine"), 6);
  scratch_.write("runs/mine/metrics.jsonl", std::string("{\"step\": 1, \"lo"));
  train_to("8");
  train({"report", "mine"});
  train({"report", "mine"});
  for (const char* page : {"runs/mine/report.html", "thesis.html"}) {
    scratch_.write(page, std::string("<!doctype html>\n<html lang=\"en\">\nmy thesis"));
    refused(
        {"report", "mine", "--out", page}, page,
        str("report: ", page,
            " is there, and is no page of this command: it is left as it is; move it away, or name another "
            "file, as in: trainrun report mine --out OTHER.html"));
  }
  refused({"report", "mine"}, "runs/mine/report.html", "report: runs/mine/report.html is there");
}

TEST_F(ForeignNames, OfATraceAreNotReplaced) {
  for (const char* file : {"trace-3-4.json", "trace-3-4.1.json"})
    scratch_.write(str("runs/run/", file), std::string("thesis"));
  train({"--nproc", "2", "c.json", "--profile=2", "--train.steps=8"});
  for (const char* file : {"trace-3-4.json", "trace-3-4.1.json"})
    EXPECT_EQ(file_text(str("runs/run/", file)), "thesis");
  EXPECT_HAS(file_text("runs/run/trace-3-4.2.json"), "traceEvents");
  EXPECT_HAS(RunRecord("runs/run").log(0), "/runs/run/trace-3-4.2.json; ui.perfetto.dev");
}

// A start that goes on from no checkpoint of before, or from others, sets the rows aside.
TEST_F(ForeignNames, RowsOfOtherCheckpointsAreKept) {
  const auto start_to = [&](const char* steps, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"--nproc", "2", "c.json", str("--train.steps=", steps)};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitOk) << result.output;
    return result.output;
  };
  const std::string run = scratch_.path("runs/run"), rows = run + "/metrics.jsonl",
                    there = "--checkpoint.dir=big";
  start_to("8", {there});
  const std::string of_big = file_text(rows);
  ASSERT_EQ(metrics("run").size(), 8u);
  const std::string forgotten = start_to("4");
  EXPECT_HAS(forgotten, str(run,
                            "/ckpt.at named other checkpoints, big/run/ckpt, which stay as they are; this "
                            "command has its own in ",
                            run,
                            "/ckpt, and starts at step 1; checkpoint.dir=big goes "
                            "on with the others; the rows of the others are kept as ",
                            rows, ".1"));
  EXPECT_EQ(file_text(rows + ".1"), of_big);
  const std::string of_own = file_text(rows);
  ASSERT_EQ(metrics("run").size(), 4u);
  const std::string back = start_to("10", {there});
  EXPECT_HAS(back,
             str("the checkpoints of this run were in ", run,
                 "/ckpt, which stay as they are; this command "
                 "has its own in big/run/ckpt, and goes on behind step 8; without checkpoint.dir goes on "
                 "with the others; the rows of the others are kept as ",
                 rows, ".2"));
  EXPECT_EQ(file_text(rows + ".2"), of_own);
  EXPECT_EQ(column(metrics("run"), "step"), (std::vector<std::string>{"9 9", "10 10"}));
  // Checkpoints that were moved take their rows along.
  fs::create_directories("disk");
  fs::rename("big/run", "disk/run");
  const std::string moved = start_to("12", {"--checkpoint.dir=disk"});
  EXPECT_EQ(moved.find(" are kept as "), std::string::npos) << moved;
  EXPECT_EQ(metrics("run").size(), 4u);
  // Checkpoints that were removed, with an older one elsewhere and with none.
  std::string before = file_text(rows);
  fs::remove_all("disk/run");
  EXPECT_HAS(start_to("5"), str(run,
                                "/ckpt.at named other checkpoints, disk/run/ckpt, which are gone; this "
                                "command has its own in ",
                                run,
                                "/ckpt, and goes on behind step 4; the rows of "
                                "the others are kept as ",
                                rows, ".3"));
  EXPECT_EQ(file_text(rows + ".3"), before);
  before = file_text(rows);
  fs::remove_all("runs/run/ckpt");
  EXPECT_HAS(start_to("3"), str("no checkpoint is there that ", rows,
                                " goes on from, and the run starts at step "
                                "1: the rows of before are kept as ",
                                rows, ".4"));
  EXPECT_EQ(file_text(rows + ".4"), before);
  EXPECT_EQ(metrics("run").size(), 3u);
}

// A program's run is in a folder that the program names, with trainrun and alone.
TEST_F(ForeignNames, AreNotReplacedByAProgram) {
  for (const auto& [file, text, said] : std::vector<std::array<const char*, 3>>{
           {"metrics.jsonl", "{\"epoch\": 1}\n", "has no rows of a run, which would take their place"},
           {"program.json", "{\"mine\": 1}\n", "no run wrote it: a file of the run's would take its place"},
           {"ckpt.at", "thesis\n", "no run wrote it: a file of the run's would take its place"}})
    for (const bool alone : {true, false}) {
      const std::string path = str("docs/", file);
      scratch_.write(path, std::string(text));
      Result result;
      if (alone) {
        Process process({LOOP_PROGRAM, "docs", "2", "--train.device=cpu"}, scratch_.path("out"),
                        {{"LOCKSTEP_CACHE", KERNEL_CACHE}});
        result.code = process.wait(60);
        result.output = process.output();
      } else {
        result = trainrun({"--nproc", "2", LOOP_PROGRAM, "docs", "2", "--train.device=cpu"});
      }
      EXPECT_EQ(result.code, kExitUser) << result.output;
      EXPECT_HAS(result.output, str(path, " is there, and ", said));
      EXPECT_EQ(file_text(path), text);
      EXPECT_FALSE(fs::exists("docs/ckpt")) << result.output;
      fs::remove(path);
      EXPECT_TRUE(fs::is_empty("docs"));
    }
}

TEST_F(ForeignNames, ThatAreNoFilesStay) {
  for (const char* name : {"config.json", "asked.json", "memory-id", "metrics.jsonl", "lock"}) {
    const std::string run = str("runs/", name), path = str(run, "/", name);
    fs::create_directories(run);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    const auto result = trainrun({"--nproc", "1", "c.json", "--train.steps=2", str("--name=", name)});
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output, "cannot write ");
    EXPECT_HAS(result.output, path);
    if (name == std::string("memory-id") || name == std::string("asked.json")) {
      EXPECT_HAS(result.output, str("cannot write ", path, ": ", path,
                                    " is no plain file, and is left as it is; move it away"));
    }
    EXPECT_TRUE(fs::is_fifo(path)) << path;
  }
  EXPECT_HAS(trainrun({"--nproc", "1", "c.json", "--name=lock"}).output,
             "cannot write the run's folder runs/lock: runs/lock/lock is no plain file, and is left as it "
             "is; move it "
             "away, or choose --name=OTHER");
}

// Where the best one is to be kept: found before a step is computed.
TEST_F(ForeignNames, InThePlaceOfTheBestAreFoundAtTheStart) {
  scratch_.write("runs/file/best", std::string("thesis"));
  fs::create_directories("runs/link");
  fs::create_symlink(scratch_.path("runs/file"), "runs/link/best");
  fs::create_directories("runs/dangling");
  fs::create_symlink("nowhere", "runs/dangling/best");
  scratch_.write("runs/locked/best/.lock", std::string("combination"));
  const std::string no_folder = "/best: something that is no folder has its name; move it away";
  for (const auto& [name, said] : std::vector<std::pair<std::string, std::string>>{
           {"file", no_folder},
           {"dangling", no_folder},
           {"link", "/best is a link, and nothing is written or removed behind one"},
           {"locked", "/best/.lock is there and is no lock of a run, and is left as it is; move it away"}}) {
    const auto result = trainrun({"--nproc", "2", "c.json", "--name=" + name, "--train.steps=4",
                                  "--train.eval_every=2", "--checkpoint.best=true"});
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output, scratch_.path("runs/" + name) + said);
    EXPECT_FALSE(fs::exists(str("runs/", name, "/metrics.jsonl"))) << "a step was computed";
  }
  EXPECT_EQ(file_text("runs/file/best"), "thesis");
}

// A folder of a run that is a link is read, and neither gone on from nor emptied; `runs` may be one.
TEST_F(ForeignNames, BehindALinkOfARunStay) {
  fs::create_directories("disk");
  fs::create_directory_symlink("disk", "runs");
  train({"--nproc", "1", "c.json", "--train.steps=6", "--checkpoint.every=2", "--checkpoint.keep=5",
         "--name=victim"});
  const std::vector<int64_t> saved = {2, 4, 6};
  fs::create_directory_symlink("victim", "runs/linked");
  const std::string said =
      "runs/linked is a link, and nothing is written or removed behind one: it may come from elsewhere. "
      "Remove the link, or move the folder that it leads to into its place; the folder runs may be a link, "
      "to another disk";
  const std::vector<std::string> longer = {"c.json", "--name=linked", "--train.steps=8",
                                           "--checkpoint.keep=1"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), longer.begin(), longer.end());
    return words;
  };
  for (const auto& words : std::vector<std::vector<std::string>>{
           with({"--nproc", "1"}),
           with({"--simulate", "2"}),
           {"ckpt", "prune", "runs/linked", "--keep", "1"},
           {"ckpt", "prune", "runs/linked/", "--keep", "1"},
           {"ckpt", "prune", "linked", "--keep", "1"},
           {"ckpt", "prune", "runs/linked/ckpt", "--keep", "1"},
           {"ckpt", "reshard", "runs/victim", "runs/linked", "--ranks", "3"},
           {"ckpt", "average", "runs/victim/ckpt/step-2", "runs/victim/ckpt/step-4", "runs/linked"},
           {"report", "linked"}}) {
    const auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitUser) << join(words, " ") << "\n" << result.output;
    EXPECT_HAS(result.output, said);
    EXPECT_EQ(steps_saved("victim"), saved) << join(words, " ");
  }
  EXPECT_FALSE(fs::exists("runs/victim/report.html"));
  // So is DIR/NAME of a checkpoint.dir.
  fs::create_directories("big");
  fs::create_directory_symlink(scratch_.path("disk/victim"), "big/other");
  const auto other = trainrun({"--nproc", "1", "c.json", "--name=other", "--train.steps=8",
                               "--checkpoint.keep=1", "--checkpoint.dir=big"});
  EXPECT_EQ(other.code, kExitUser) << other.output;
  EXPECT_HAS(other.output, "big/other is a link, and nothing is written or removed behind one");
  EXPECT_EQ(steps_saved("victim"), saved);
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"ckpt", "ls", "runs/linked"}, {"ckpt", "prune", "runs/linked", "--keep", "1", "--dry-run"}})
    EXPECT_EQ(trainrun(words).code, kExitOk) << join(words, " ");
}

// Schemes that no storage has, and what a shell did not read, make no folders.
TEST_F(ForeignNames, OfFoldersThatNobodyMeantAreRefused) {
  const std::string scheme =
                        "; an object store is s3://BUCKET/PREFIX, and any other place a folder's path; ./",
                    home =
                        "; ~ is your home in a shell alone, which did not read it; give the whole path; ./";
  for (const auto& [path, why] : std::vector<std::pair<std::string, std::string>>{{"s3:/x", scheme},
                                                                                  {"s3://", scheme},
                                                                                  {"s3:///x", scheme},
                                                                                  {"file:///tmp/x", scheme},
                                                                                  {"gs://b/x", scheme},
                                                                                  {"~", home},
                                                                                  {"~/x", home}})
    for (const char* key : {"checkpoint.dir", "--log-dir"}) {
      const std::string word = key[0] == '-' ? str(key, "=", path) : str("--", key, "=", path);
      const auto result = trainrun({"--nproc", "1", "c.json", "--train.steps=2", word});
      EXPECT_EQ(result.code, kExitUser) << word << result.output;
      EXPECT_HAS(result.output, str(key, " is \"", path, "\"", why, path, " is a folder of that name here"));
    }
  for (const auto& [key, why] : std::vector<std::pair<std::string, std::string>>{
           {"checkpoint.dir", "a path of a run has no line end and no other control character"},
           {"name", "it names a folder below runs/"}}) {
    const auto result = trainrun({"--nproc", "1", "c.json", "--train.steps=2", str("--", key, "=x\ny")});
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output, str(key, " is \"x\\ny\"; ", why));
  }
  for (const char* made : {"s3:", "file:", "gs:", "~", "runs/run"}) EXPECT_FALSE(fs::exists(made)) << made;
  train({"--nproc", "1", "c.json", "--train.steps=2", "--checkpoint.dir=./~"});
  EXPECT_TRUE(fs::exists("./~/run/ckpt/step-2"));
}

}  // namespace
}  // namespace lockstep::tests
