// Folders that hold other people's files and links: whatever command or option names them, and however it
// ends, all of these are still there, byte for byte.
#include <sys/stat.h>

#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

class ForeignFiles : public RealRun {
 protected:
  void SetUp() override {
    RealRun::SetUp();
    write_tiny();
    scratch_.write("precious/data.txt", std::string("precious"));
    scratch_.write("wrong.bin", std::vector<uint16_t>(6000, 65535));
  }
  // Names of their own, and names that a run uses.
  void plant(const std::string& folder) {
    for (const char* file :
         {"data.txt", ".hidden", "notes/a.txt", "attempt-7/thesis.tex", "attempt-8/rank-x.log",
          "ckpt/stepping/thesis.txt", "ckpt/mine.txt", "ckpt/step-3.tmp/thesis.txt", "best/mine.txt",
          "step-5/thesis.txt", "nodes/mine.json"})
      scratch_.write(folder + "/" + file, str("precious ", file));
    fs::create_symlink(scratch_.path("precious"), folder + "/link");
    fs::create_symlink(scratch_.path("precious/data.txt"), folder + "/notes/link");
    fs::create_symlink("nowhere", folder + "/dangling");
    fs::create_symlink(scratch_.path("precious"), folder + "/attempt-6");
    fs::create_symlink(scratch_.path("precious"), folder + "/ckpt/step-20");
    fs::create_symlink(scratch_.path("precious"), folder + "/ckpt/step-4.tmp");
    looked_at_.push_back(folder);
    for (const std::string& one : looked_at_) look(one, there_);
    look("precious", there_);
  }
  // Path -> what it is.
  static void look(const std::string& folder, std::map<std::string, std::string>& out) {
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_symlink())
        out[entry.path()] = "link to " + fs::read_symlink(entry.path()).string();
      else if (entry.is_regular_file())
        out[entry.path()] = file_text(entry.path());
  }
  void expect_all_there(const std::string& after) {
    std::map<std::string, std::string> now;
    for (const std::string& folder : looked_at_) look(folder, now);
    look("precious", now);
    for (const auto& [path, what] : there_) {
      // A link that stands where a save writes goes, as a link: what it led to is told by `precious`.
      if (path.ends_with(".tmp") && what.starts_with("link to ")) continue;
      EXPECT_EQ(now.count(path) ? now[path] : "gone", what) << path << " after " << after;
    }
  }
  // Mistakes that are found before a rank starts, by the ranks, in a step; and none.
  static std::vector<std::pair<std::string, int>> ways() {
    return {{"--data.paths=[nothere.bin]", kExitUser},
            {"--data.paths=[wrong.bin]", kExitUser},
            {"--train.stpes=3", kExitUser},
            {"--optim.lr=1e38", kExitUser},
            {"--train.steps=6", kExitOk}};
  }
  void try_all(const std::vector<std::string>& words, const std::string& said) {
    int tries = 0;
    for (const auto& [way, code] : ways())
      for (const char* ranks : {"--nproc", "--simulate"}) {
        std::vector<std::string> all = {ranks, "2", "c.json", way};
        if (way != "--train.steps=6") all.insert(all.begin() + 3, "--train.steps=6");
        if (code == kExitOk && ranks == std::string("--simulate")) continue;
        all.insert(all.end(), words.begin(), words.end());
        const auto result = trainrun(all);
        EXPECT_EQ(result.code, code) << join(all, " ") << "\n" << result.output;
        expect_all_there(said + " " + join(all, " "));
        ++tries;
      }
    EXPECT_EQ(tries, 9);
  }

 private:
  std::vector<std::string> looked_at_;
  std::map<std::string, std::string> there_;
};

TEST_F(ForeignFiles, StayInAFolderOfLogs) {
  plant("shared/thesis");
  fs::create_directory_symlink(scratch_.path("shared"), "by-link");
  try_all({"--log-dir=by-link", "--name=thesis"}, "logs");
  EXPECT_TRUE(fs::exists("shared/thesis/attempt-9")) << "what the run that went well wrote";
  // Nothing is left of the ones that were for nothing, in a folder that was there and in one that was not.
  for (const char* name : {"thesis2", "thesis3"}) {
    if (name == std::string("thesis3")) plant("shared/thesis3");
    const auto result = trainrun({"--nproc", "2", "--log-dir", "shared", str("--name=", name), "c.json",
                                  "--data.paths=[nothere.bin]"});
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_FALSE(fs::exists(str("runs/", name))) << result.output;
    EXPECT_EQ(result.output.find("trainrun: logs: "), std::string::npos) << result.output;
  }
  EXPECT_FALSE(fs::exists("shared/thesis2"));
  EXPECT_FALSE(fs::exists("shared/thesis3/lock"));
  EXPECT_FALSE(fs::exists("shared/thesis3/attempt-9"));
  expect_all_there("a mistake");
}

TEST_F(ForeignFiles, StayInAFolderOfARun) {
  plant("runs/thesis");
  try_all({"--name=thesis", "--checkpoint.every=2", "--checkpoint.keep=1"}, "run");
  EXPECT_TRUE(fs::exists("runs/thesis/ckpt/step-6/manifest.json"));
  EXPECT_FALSE(fs::exists("runs/thesis/ckpt/step-4"));
}

TEST_F(ForeignFiles, StayInAFolderOfCheckpoints) {
  plant("store/thesis");
  try_all({"--name=thesis", "--checkpoint.dir=store", "--checkpoint.every=2", "--checkpoint.keep=1",
           "--checkpoint.best=true", "--train.eval_every=2"},
          "checkpoints");
}

TEST_F(ForeignFiles, StayWhatACommandWritesThere) {
  train({"--nproc", "1", "c.json", "--train.steps=6", "--checkpoint.every=2", "--checkpoint.keep=5",
         "--name=one"});
  scratch_.write("runs/one/ckpt/step-2/thesis.txt", std::string("precious"));
  fs::create_symlink(scratch_.path("precious"), "runs/one/ckpt/step-8");
  for (const char* folder : {"average", "runs/reshard", "exported", "cache", "tmp"}) plant(folder);
  plant("runs/one/notes");
  const auto expect = [&](int code, const std::vector<std::string>& words, const std::string& said = "",
                          Variables variables = {}) {
    const auto result = trainrun(words, std::move(variables));
    EXPECT_EQ(result.code, code) << join(words, " ") << "\n" << result.output;
    EXPECT_HAS(result.output, said);
    expect_all_there(join(words, " "));
  };
  expect(kExitOk, {"ckpt", "average", "runs/one/ckpt/step-4", "runs/one/ckpt/step-6", "average"});
  expect(kExitOk, {"ckpt", "reshard", "runs/one", "runs/reshard", "--ranks", "3"});
  expect(kExitUser, {"export-hf", "runs/one", "exported"}, "is there already and is no empty folder");
  expect(kExitOk, {"report", "runs/one"});
  expect(kExitOk, {"ckpt", "prune", "runs/one", "--keep", "1"},
         "it holds thesis.txt, which is no file of a checkpoint");
  EXPECT_EQ(file_text("runs/one/ckpt/step-2/thesis.txt"), "precious");
  EXPECT_TRUE(fs::exists("runs/one/ckpt/step-2/manifest.json"));
  EXPECT_FALSE(fs::exists("runs/one/ckpt/step-4"));
  expect(kExitOk, {"--nproc", "1", "c.json", "--train.steps=2", "--name=cached"}, "",
         {{"LOCKSTEP_CACHE", scratch_.path("cache")},
          {"LOCKSTEP_CACHE_LIMIT", "1"},
          {"TMPDIR", scratch_.path("tmp")}});
  expect(kExitOk,
         {"--nproc", "1", "c.json", "--train.steps=8", "--checkpoint.every=1", "--checkpoint.keep=1",
          "--name=one"},
         "ckpt/step-2 is kept: it holds thesis.txt, which is no file of a checkpoint");
  EXPECT_EQ(file_text("runs/one/ckpt/step-2/thesis.txt"), "precious");
}

// What a folder of somebody else's says, by links and by its config, is no word of the user's.
TEST_F(ForeignFiles, OfAnotherRunStayWhereALinkOrAStoredConfigLeadsThere) {
  train({"--nproc", "1", "c.json", "--train.steps=6", "--checkpoint.every=2", "--checkpoint.keep=5",
         "--name=important"});
  const std::vector<int64_t> saved = {2, 4, 6};
  fs::create_directories("runs/sl");
  fs::create_directory_symlink(scratch_.path("runs/important/ckpt"), "runs/sl/ckpt");
  const auto refused = [&](const std::vector<std::string>& words, const std::string& said) {
    const auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitUser) << join(words, " ") << "\n" << result.output;
    EXPECT_HAS(result.output, said);
    EXPECT_EQ(steps_saved("important"), saved) << join(words, " ");
  };
  const std::string link =
      "checkpoint folder runs/sl/ckpt is a link, and nothing is written or removed behind one";
  refused({"ckpt", "prune", "runs/sl", "--keep", "1"}, link);
  refused({"ckpt", "prune", "runs/sl/ckpt/", "--keep", "1"},
          "is a link, and nothing is written or removed behind one");
  refused(
      {"--nproc", "1", "c.json", "--name=sl", "--train.steps=8", "--checkpoint.keep=1"},
      str("runs/sl/ckpt is a link, and nothing is written or removed behind one: it may come from elsewhere. "
          "Remove the link, or name the folder itself, for a run with checkpoint.dir: if those in ",
          scratch_.path("runs/important/ckpt"),
          " are this run's, move them to DIR/sl/ckpt and say --checkpoint.dir=DIR"));
  fs::create_directories("disk/sl3/ckpt");
  fs::create_directories("runs/sl3");
  fs::create_directory_symlink(scratch_.path("disk/sl3/ckpt"), "runs/sl3/ckpt");
  refused({"ckpt", "reshard", "runs/important", "runs/sl3", "--ranks", "3"},
          str("for a run with checkpoint.dir: --checkpoint.dir=", scratch_.path("disk"),
              " with --name=sl3 goes on with those in ", scratch_.path("disk/sl3/ckpt")));
  fs::create_directories("runs/sl2");
  fs::create_directory_symlink(scratch_.path("precious"), "runs/sl2/ckpt");
  refused({"ckpt", "reshard", "runs/important", "runs/sl2", "--ranks", "3"},
          "checkpoint folder runs/sl2/ckpt is a link, and nothing is written or removed behind one");

  Json gift = Json::parse(file_text("runs/important/config.json"));
  gift["checkpoint"]["keep"] = 1;
  gift["train"]["steps"] = 8;
  scratch_.write("runs/gift/config.json", gift.dump());
  refused({"--nproc", "1", "runs/gift/config.json"},
          "runs/gift/config.json names the run \"important\", and runs/important is there and has another "
          "config. The "
          "config is stored in ");
  gift["name"] = "before";  // the run was renamed
  scratch_.write("runs/gift/config.json", gift.dump());
  refused({"--nproc", "1", "runs/gift/config.json"},
          "runs/gift/config.json names the run \"before\", and its folder is named \"gift\". Say which run "
          "is meant: "
          "`trainrun --nproc 1 runs/gift/config.json --name=gift` goes on with this one, another name makes "
          "a new one");
  EXPECT_FALSE(fs::exists("runs/before"));
  gift["name"] = "gift";
  gift["checkpoint"]["dir"] = scratch_.path("runs/important/..");
  scratch_.write("runs/gift/config.json", gift.dump());
  refused({"--nproc", "1", "runs/gift/config.json", "--name=important"},
          str("runs/gift/config.json names checkpoint.dir \"", scratch_.path("runs/important/.."),
              "\", where checkpoints would be written and old ones removed. The config is stored in "));
  refused(
      {"--nproc", "1", "runs/gift/config.json"},
      str("`trainrun --nproc 1 runs/gift/config.json --checkpoint.dir=", scratch_.path("runs/important/.."),
          "`; or keep them in the run's own folder: --checkpoint.dir=\"\""));
  // Named by the user, it is the user's.
  const auto named = trainrun({"--nproc", "1", "runs/gift/config.json", "--checkpoint.dir="});
  EXPECT_EQ(named.code, kExitOk) << named.output;
  EXPECT_EQ(steps_saved("gift"), std::vector<int64_t>{8});
  EXPECT_EQ(steps_saved("important"), saved);
  // A config that is the run's own goes on, wherever a copy of it lies.
  scratch_.write("runs/copy/config.json", file_text("runs/important/config.json"));
  EXPECT_EQ(trainrun({"--nproc", "1", "runs/copy/config.json"}).code, kExitOk);

  // Logs behind a link are those of this run, or none.
  scratch_.write("victim/attempt-1/rank-0.log", std::string("precious"));
  fs::create_directory_symlink(scratch_.path("victim"), "runs/gift/logs2");
  fs::remove_all("runs/gift/logs");
  fs::rename("runs/gift/logs2", "runs/gift/logs");
  refused(
      {"--nproc", "1", "c.json", "--name=gift", "--keep-attempts=1"},
      str("runs/gift/logs is a link to ", scratch_.path("victim"),
          ", which has no lock, as logs of an earlier version, and the name of another run. If they are this "
          "run's, give them its name: mv ",
          scratch_.path("victim"), " ", scratch_.path("gift"), " && ln -sfn ", scratch_.path("gift"),
          " runs/gift/logs; if not, remove the link"));
  fs::create_directories("other");
  scratch_.write("victim/lock", str("1\n", scratch_.path("other"), "\n"));
  refused({"--nproc", "1", "c.json", "--name=gift", "--keep-attempts=1"},
          str("runs/gift/logs is a link to ", scratch_.path("victim"),
              ", which is not known for the logs of this run; say --log-dir=", scratch_.path(""),
              " if they are, or remove the link"));
  EXPECT_EQ(file_text("victim/attempt-1/rank-0.log"), "precious");
}

// Two runs of one name in two folders, with one folder for logs.
TEST_F(ForeignFiles, OfARunStayWhereAnotherHasItsLogs) {
  const std::string logs = scratch_.path("logs");
  fs::create_directories("p1");
  fs::create_directories("p2");
  for (const char* folder : {"p1", "p2"})
    for (const char* file : {"c.json", "tokens.bin"}) fs::copy_file(file, str(folder, "/", file));
  fs::current_path(scratch_.path("p1"));
  auto first = start({"--nproc", "2", "--log-dir", logs, "c.json", "--name=exp", "--train.steps=100000",
                      "--max-restarts=1", "--checkpoint.memory_every=5"});
  ASSERT_TRUE(until(60, [] { return last_step("exp") >= 30; })) << first->output();
  fs::current_path(scratch_.path("p2"));
  Process second({TRAINRUN, "--nproc", "2", "--log-dir", logs, "c.json", "--name=exp", "--optim.lr=0.9",
                  "--train.steps=40", "--train.seed=99", "--checkpoint.memory_every=5"},
                 scratch_.path("second"), {{"LOCKSTEP_CACHE", KERNEL_CACHE}});
  EXPECT_EQ(second.wait(60), kExitUser);
  EXPECT_HAS(second.output(), str("trainrun: ", logs, "/exp is in use by another trainrun (process ",
                                  first->pid(), " of ", scratch_.path("p1/runs/exp"), ", since 2"));
  EXPECT_HAS(second.output(), "); wait for it, stop it, or choose another --log-dir, or choose --name=OTHER");
  EXPECT_FALSE(fs::exists("runs/exp")) << "it never was";
  fs::current_path(scratch_.path("p1"));
  kill(RunRecord("runs/exp").pid(1), SIGKILL);
  ASSERT_TRUE(until(60, [&] { return first->output().find("restart 1 of 1") != std::string::npos; }));
  const int64_t then = last_step("exp");
  ASSERT_TRUE(until(60, [&] { return last_step("exp") >= then + 20; })) << first->output();
  kill(first->pid(), SIGTERM);
  EXPECT_EQ(first->wait(30), kExitStopped) << first->output();
  EXPECT_EQ(first->output().find("the config is not that of the checkpoint"), std::string::npos)
      << first->output();
  EXPECT_EQ(Json::parse(file_text("runs/exp/config.json"))["optim"]["lr"], 1e-2);
  // The logs of the one that has ended are its own, too.
  fs::current_path(scratch_.path("p2"));
  const auto third = trainrun({"--nproc", "2", "--log-dir", logs, "c.json", "--name=exp", "--train.steps=4"});
  EXPECT_EQ(third.code, kExitUser) << third.output;
  EXPECT_HAS(third.output, str("--log-dir ", logs, ": ", logs, "/exp holds the logs of another run, ",
                               scratch_.path("p1/runs/exp"),
                               "; choose another --log-dir, or choose --name=OTHER, or "
                               "remove the link ",
                               scratch_.path("p1/runs/exp/logs"), " if that run needs them no more"));
  fs::remove("../p1/runs/exp/logs");
  train({"--nproc", "2", "--log-dir", logs, "c.json", "--name=exp", "--train.steps=4"});
  fs::current_path(scratch_.path(""));
}

// Two projects with one checkpoint.dir and one name.
TEST_F(ForeignFiles, CheckpointsOfAnotherRunAreNotGoneOnFrom) {
  const std::string there = "--checkpoint.dir=" + scratch_.path("big"), kept = scratch_.path("big/exp"),
                    p1 = scratch_.path("p1/runs/exp"), p2 = scratch_.path("p2/runs/exp");
  for (const char* folder : {"p1", "p2"}) {
    fs::create_directories(folder);
    for (const char* file : {"c.json", "tokens.bin"}) fs::copy_file(file, str(folder, "/", file));
  }
  const std::vector<std::string> words = {"--nproc", "1", "c.json", "--name=exp", there, "--train.steps=2"};
  fs::current_path("p1");
  train(words), train(words);
  EXPECT_EQ(file_text(kept + "/ckpt.of"), p1 + "\n");
  const std::string manifest = file_text(kept + "/ckpt/step-2/manifest.json");
  fs::current_path("../p2");
  const auto refused = trainrun(words);
  EXPECT_EQ(refused.code, kExitUser) << refused.output;
  EXPECT_HAS(refused.output,
             str("checkpoint.dir ", scratch_.path("big"), ": ", kept,
                 " holds the checkpoints of another run, ", p1, ", and this one is ", p2,
                 "; choose another name (--name) or checkpoint.dir; --train.init_from=", kept,
                 " then starts from its weights. If that run needs them no more, remove ", kept, "/ckpt.of"));
  EXPECT_EQ(file_text(kept + "/ckpt/step-2/manifest.json"), manifest);
  // A file of somebody else's stays.
  scratch_.write("big/exp/ckpt.of", std::string("thesis"));
  const auto foreign = trainrun(words);
  EXPECT_EQ(foreign.code, kExitUser) << foreign.output;
  EXPECT_HAS(foreign.output,
             str(kept,
                 "/ckpt.of is there, and no run wrote it: the run's would take its place. It is "
                 "left as it is; move it away, or choose another name (--name) or checkpoint.dir"));
  EXPECT_EQ(file_text(kept + "/ckpt.of"), "thesis");
  // A run that was moved keeps its checkpoints, and so does one that is older than the mark.
  scratch_.write("big/exp/ckpt.of", p1 + "\n");
  fs::rename(p1, scratch_.path("p1/runs/old"));
  const auto moved = trainrun(words);
  EXPECT_EQ(moved.code, kExitOk) << moved.output;
  EXPECT_HAS(moved.output, str(kept, " holds the checkpoints of ", p1,
                               ", which is not here: they are taken for this run's"));
  EXPECT_EQ(file_text(kept + "/ckpt.of"), p2 + "\n");
  fs::remove(kept + "/ckpt.of");
  train(words);
  EXPECT_EQ(file_text(kept + "/ckpt.of"), p2 + "\n");
  fs::current_path(scratch_.path(""));
}

TEST_F(ForeignFiles, OfAnotherUserAreNotWrittenThroughHisLink) {
  if (geteuid() != 0) GTEST_SKIP() << "links of another user need root";
  plant("victim");
  fs::create_directories("logs");
  fs::create_directory_symlink(scratch_.path("victim"), "logs/run");
  ASSERT_EQ(lchown("logs/run", 65534, 65534), 0);
  const std::vector<std::string> words = {"--nproc", "1", "c.json", "--train.steps=2", "--log-dir=logs"};
  const auto refused = trainrun(words);
  EXPECT_EQ(refused.code, kExitUser) << refused.output;
  EXPECT_HAS(refused.output,
             str("trainrun: --log-dir logs: cannot write ", scratch_.path("logs/run"),
                 ": it is a link of another user (uid 65534), who decides where it leads; choose "
                 "another --log-dir, or choose --name=OTHER"));
  expect_all_there("a link of another user");
  fs::create_directories("runs");
  fs::create_directory_symlink(scratch_.path("victim"), "runs/his");
  ASSERT_EQ(lchown("runs/his", 65534, 65534), 0);
  const auto his = trainrun({"--nproc", "1", "c.json", "--train.steps=2", "--name=his"});
  EXPECT_EQ(his.code, kExitUser) << his.output;
  EXPECT_HAS(his.output,
             "runs/his is a link, and nothing is written or removed behind one: it may come from elsewhere");
  expect_all_there("a run's folder behind a link of another user");
  // The folder that the command names is his link, too.
  fs::create_directories("victim/run");
  fs::create_directory_symlink(scratch_.path("victim"), "l3");
  ASSERT_EQ(lchown("l3", 65534, 65534), 0);
  const auto way = trainrun({"--nproc", "1", "c.json", "--train.steps=2", "--log-dir=l3"});
  EXPECT_EQ(way.code, kExitUser) << way.output;
  EXPECT_HAS(way.output,
             str("--log-dir l3: cannot write ", scratch_.path("l3/run"), ": ", scratch_.path("l3"),
                 " is a link of another user (uid 65534), who decides where it leads; choose "
                 "another --log-dir, or choose --name=OTHER"));
  EXPECT_TRUE(fs::is_empty("victim/run"));
  fs::remove("logs/run");
  fs::create_directories("logs/run");
  chmod("logs/run", 0777);
  EXPECT_HAS(trainrun(words).output, str("trainrun: warning: ", scratch_.path("logs/run"),
                                         " is writable for every user (mode 0777): what they put there"));
}

// A file `lock` of somebody else's is no lock.
TEST_F(ForeignFiles, NamedLockAreNoLocks) {
  scratch_.write("logs/run/lock", std::string("my combination is 1-2-3\n"));
  scratch_.write("runs/other/lock", std::string("combination"));
  scratch_.write("runs/third/ckpt/.lock", std::string("combination"));
  const auto refused = [&](const std::vector<std::string>& words, const std::string& file,
                           const std::string& said) {
    const std::string before = file_text(file);
    const auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output, said);
    EXPECT_EQ(file_text(file), before);
  };
  refused({"--nproc", "1", "c.json", "--log-dir=logs"}, "logs/run/lock",
          "logs/run/lock is there and is no lock of trainrun, and is left as it is; move it away, or choose "
          "another "
          "--log-dir, or choose --name=OTHER");
  refused({"--nproc", "1", "c.json", "--name=other"}, "runs/other/lock",
          "runs/other/lock is there and is no lock of trainrun");
  refused({"--nproc", "1", "c.json", "--name=third"}, "runs/third/ckpt/.lock",
          "ckpt/.lock is there and is no lock of a run, and is left as it is; move it away");
}

}  // namespace
}  // namespace lockstep::tests
