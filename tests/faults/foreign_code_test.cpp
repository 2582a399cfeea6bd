// Beside the catalogue: libraries planted in what a run stores, links under its temporary names, modes under
// umask 0.
#include <sys/stat.h>

#include "core/base/hash.h"
#include "tests/faults/fault_run.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

class ForeignCode : public FaultRun {
 protected:
  void SetUp() override {
    FaultRun::SetUp();
    write_tiny();
  }
  void train_tiny(const std::string& name, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"--nproc",        "1",     "--train.device=cpu", "--train.steps=2",
                                      "--name=" + name, "c.json"};
    words.insert(words.end(), more.begin(), more.end());
    train(words);
  }
  // A library that leaves a file when it is loaded.
  std::string evil_library(const std::string& path) {
    scratch_.write("evil.c",
                   "#include <fcntl.h>\n__attribute__((constructor)) static void ran(void) { open(\"" +
                       scratch_.path("ran") + "\", O_CREAT, 0600); }\n");
    EXPECT_EQ(std::system(("cc -shared -fPIC -o " + path + " evil.c").c_str()), 0);
    return path;
  }
  bool ran() const { return fs::exists(scratch_.path("ran")); }
};

// The stored configs of a run name another device; the manifest's checksum fits again.
void plant(const std::string& run, const std::string& device) {
  Json config = Json::parse(file_text(run + "/config.json"));
  config["train"]["device"] = device;
  std::ofstream(run + "/config.json") << config.dump();
  const std::string path = run + "/ckpt/step-2/manifest.json";
  Json manifest = Json::parse(file_text(path));
  manifest["config"]["train"]["device"] = device;
  manifest.erase("checksum");
  manifest["checksum"] = hash_hex(manifest.dump());
  std::ofstream(path) << manifest.dump();
}

TEST_F(ForeignCode, Row51PluginOfAStoredConfig) {
  train_tiny("run");
  const std::string library = evil_library("runs/run/ckpt/step-2/evil.so"), absolute = scratch_.path(library);
  plant("runs/run", "plugin:./" + library);
  const Result verified = trainrun({"ckpt", "verify", "runs/run"});
  EXPECT_HAS(verified.output,
             "1 problem\n  runs/run/ckpt/step-2/evil.so is a stray file");  // and no other: the checksum,
                                                                            // which has no key, was mended
  fs::create_symlink("runs/run/config.json", "mine.json");
  const std::vector<std::vector<std::string>> commands = {
      {"generate", "runs/run"},
      {"generate", "runs/run/ckpt/step-2"},
      {"replay", "--step", "2", "--from-start", "runs/run"},
      {"plan", "runs/run/config.json"},
      {"plan", "mine.json"},
      {"runs/run/config.json"},
      {"--nproc", "2", "runs/run/config.json", "--name=again"},
      {"worker", "runs/run/config.json"}};
  for (const auto& words : commands) {
    const Result refused = trainrun(words);
    EXPECT_EQ(refused.code, kExitUser) << join(words, " ") << "\n" << refused.output;
    EXPECT_HAS(refused.output,
               "names train.device \"plugin:./" + library + "\", a library whose code would run as you");
    EXPECT_HAS(refused.output,
               "a stored config opens no library. Name it on the command line, with its absolute path, if "
               "you trust it");
    EXPECT_HAS(refused.output, "--train.device=plugin:" + absolute);
    EXPECT_FALSE(ran()) << join(words, " ");
  }
  const Result relative = trainrun({"plan", "runs/run/config.json", "--train.device=plugin:./" + library});
  EXPECT_EQ(relative.code, kExitUser) << relative.output;
  EXPECT_HAS(relative.output, "for a stored config the library is named with its absolute path");
  for (const char* word : {"generate", "replay"}) {  // elsewhere, as the message says
    std::vector<std::string> words = {word, "runs/run", "--train.device=cpu"};
    if (word == std::string("replay")) words.insert(words.end(), {"--step", "2", "--from-start"});
    const Result result = trainrun(words);
    EXPECT_EQ(result.code, kExitOk) << result.output;
  }
  EXPECT_FALSE(ran());
  // Named as the message says, it is opened: that the other commands did not is what kept it from running.
  const Result named = trainrun({"generate", "runs/run", "--train.device=plugin:" + absolute});
  EXPECT_EQ(named.code, kExitUser) << named.output;
  EXPECT_HAS(named.output, "has no entry \"lockstep_backend\"");
  EXPECT_TRUE(ran());
  row({.fault = "a library planted in a checkpoint, train.device of its manifest and of the run's "
                "config.json set to it: generate, replay, "
                "plan, run",
       .seen = "... names train.device \"plugin:./evil.so\", a library whose code would run as you. The "
               "config is stored in ..., and a "
               "stored config opens no library",
       .code = "2",
       .detected = "before it is opened",
       .recovered = "--train.device=plugin:/ABSOLUTE/PATH.so, or =cpu",
       .lost = "0",
       .same_bits = "-"});
}

TEST_F(ForeignCode, Row51PluginOfAnotherUser) {
  const std::string library = evil_library("lib.so");
  auto refused = [&](const std::string& words, const std::string& path) {
    const Result result =
        trainrun({"--nproc", "1", "c.json", "--train.steps=2", "--train.device=plugin:" + path});
    EXPECT_EQ(result.code, kExitUser) << result.output;
    EXPECT_HAS(result.output, words);
    EXPECT_FALSE(ran());
  };
  refused("names no place", "lib.so");
  chmod("lib.so", 0777);
  refused("lib.so is writable for every user", "./lib.so");
  chmod("lib.so", 0700);
  if (geteuid() != 0) GTEST_SKIP() << "files of another user need root";
  EXPECT_EQ(lchown("lib.so", 65534, 65534), 0);
  refused("lib.so belongs to nobody (uid 65534), mode 0700, and this process is of root (uid 0)",
          scratch_.path("lib.so"));
  row({.fault = "train.device names a library of another user, one that all may write, one without a path",
       .seen = "train.device plugin:./lib.so is not opened: ./lib.so belongs to nobody (uid 65534), mode "
               "0700. Its code would run as you",
       .code = "2",
       .detected = "before it is opened",
       .recovered = "put it where only you or root can write",
       .lost = "0",
       .same_bits = "-"});
}

TEST_F(ForeignCode, Row52LinksUnderTemporaryNames) {
  train_tiny("whole");
  scratch_.write("precious", std::string("precious"));
  fs::create_directories("runs/run/ckpt");
  fs::create_directories("runs/run/logs");
  for (const char* name : {"config.json", "metrics.jsonl"}) {  // what they name is none of a run's
    const std::string link = str("runs/run/", name);
    fs::create_symlink(scratch_.path("precious"), link);
    const Result refused =
        trainrun({"--nproc", "1", "--train.device=cpu", "--train.steps=2", "--name=run", "c.json"});
    EXPECT_EQ(refused.code, kExitUser) << refused.output;
    EXPECT_HAS(refused.output, str(link, " is there, and"));
    EXPECT_TRUE(fs::is_symlink(link));
    fs::remove(link);
  }
  const std::vector<std::string> written = {"config.json", "metrics.jsonl", "ckpt/latest", "asked.json"};
  for (const std::string& name : written) {
    fs::create_symlink(scratch_.path("precious"), str("runs/run/", name, ".lockstep-draft"));
    scratch_.write(str("runs/run/", name, ".tmp"), std::string("somebody's"));
  }
  fs::create_symlink(scratch_.path("precious"), "runs/run/ckpt/latest");
  train_tiny("run");
  EXPECT_EQ(final_hash("run"), final_hash("whole"));
  EXPECT_EQ(file_text("precious"), "precious");
  for (const auto& entry : fs::recursive_directory_iterator("runs/run"))
    EXPECT_FALSE(entry.is_symlink()) << entry.path();
  for (const std::string& name : written)
    EXPECT_EQ(file_text(str("runs/run/", name, ".tmp")), "somebody's") << name;
  fs::create_directories("runs/locked/ckpt");
  fs::create_symlink(scratch_.path("precious"), "runs/locked/lock");
  const Result locked =
      trainrun({"--nproc", "1", "--train.device=cpu", "--train.steps=2", "--name=locked", "c.json"});
  EXPECT_EQ(locked.code, kExitUser) << locked.output;
  EXPECT_HAS(
      locked.output,
      "cannot write the run's folder runs/locked: runs/locked/lock is a link, and is left as it is; move it "
      "away, or choose --name=OTHER");
  fs::remove("runs/locked/lock");
  mkfifo("runs/locked/lock", 0600);
  const Result piped =
      trainrun({"--nproc", "1", "--train.device=cpu", "--train.steps=2", "--name=locked", "c.json"}, {}, 20);
  EXPECT_EQ(piped.code, kExitUser) << piped.output;
  EXPECT_EQ(file_text("precious"), "precious");
  row({.fault =
           "links to another file under X.lockstep-draft of config.json, metrics.jsonl, latest, and latest; "
           "under config.json, metrics.jsonl; files X.tmp; the run's lock a link, a FIFO",
       .seen = "nothing; runs/X/config.json is there, and no run stored it; the lock: cannot write the run's "
               "folder runs/X: runs/X/lock is a link, and is left as it is",
       .code = "0; 2; 2",
       .detected = "at once",
       .recovered = "the links under the first names go, all else stays, the other file is untouched",
       .lost = "0",
       .same_bits = "yes"});
}

TEST_F(ForeignCode, Row53ModesUnderUmaskZero) {
  fs::create_directory("tmp");
  const mode_t before = umask(0);
  auto process = start({"--nproc", "2", "--train.device=cpu", "--train.steps=4000", "c.json"},
                       {{"LOCKSTEP_CACHE", scratch_.path("cache")}, {"TMPDIR", scratch_.path("tmp")}});
  scratch_.write("program", std::string("#!/bin/sh\n: > made\n"));
  chmod("program", 0700);
  train({"--nproc", "1", "--name=own", "./program"});
  umask(before);
  ASSERT_TRUE(until(60, [] { return fs::exists("runs/run/ckpt/step-20/manifest.json"); }))
      << process->output();
  int looked_at = 0;
  auto expect_private = [&](const std::string& folder) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      struct stat at{};
      if (lstat(entry.path().c_str(), &at) != 0) continue;  // gone by now
      if (S_ISLNK(at.st_mode)) continue;  // a link has no mode; a live flight record's leads to a memory file
      EXPECT_EQ(at.st_mode & 0077, 0u) << entry.path() << " has mode " << std::oct << (at.st_mode & 07777);
      ++looked_at;
    }
  };
  expect_private("runs");
  expect_private("cache");
  for (const auto& entry : fs::directory_iterator("tmp")) {
    struct stat at{};
    if (lstat(entry.path().c_str(), &at) != 0) continue;
    EXPECT_EQ(at.st_mode & 0077, 0u) << entry.path();
  }
  int shared = 0;  // folders of the ranks of a group: nobody else gets to what is in them
  for (const auto& entry : fs::directory_iterator("/dev/shm")) {
    struct stat at{};
    const std::string name = entry.path().filename();
    if ((name.rfind("lockstep.", 0) != 0 && name.rfind("vader_segment.", 0) != 0) ||
        lstat(entry.path().c_str(), &at) != 0 || at.st_uid != geteuid())
      continue;
    EXPECT_EQ(at.st_mode & 0077, 0u) << entry.path();
    ++shared;
  }
  EXPECT_GE(looked_at, 20);
  EXPECT_GE(shared, 1);
  kill(process->pid(), SIGTERM);
  EXPECT_EQ(process->wait(30), kExitStopped) << process->output();
  expect_private("runs");
  EXPECT_EQ(process->output().find("writable for every user"), std::string::npos) << process->output();
  chmod("runs/run", 0777);
  EXPECT_HAS(trainrun({"--nproc", "1", "--train.device=cpu", "--train.steps=1", "c.json"}).output,
             "trainrun: warning: runs/run is writable for every user (mode 0777): what they put there is "
             "loaded as this run's; "
             "`chmod o-w runs/run` closes it");
  struct stat made{};
  ASSERT_EQ(lstat("made", &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0666u) << "a program of one's own keeps the umask that it was given";
  row({.fault = "umask 0, 2 ranks: modes of the run's folder, logs, checkpoints, records, cache, scratch, "
                "shared memory",
       .seen = "nothing: folders 0700, files 0600; a program of one's own keeps its umask",
       .code = "80, by SIGTERM",
       .detected = "-",
       .recovered = "-",
       .lost = "0",
       .same_bits = "-"});
}

TEST_F(ForeignCode, Row54CacheOfAnotherKey) {
  const std::vector<std::string> words = {"--nproc", "1", "--train.device=cpu", "--train.steps=2", "c.json"};
  auto with = [&](const char* cache, const char* name) {
    auto all = words;
    all.push_back(str("--name=", name));
    return trainrun(all, {{"LOCKSTEP_CACHE", scratch_.path(cache)}});
  };
  ASSERT_EQ(with("mine", "whole").code, kExitOk);
  ASSERT_EQ(with("theirs", "theirs").code, kExitOk);
  EXPECT_NE(file_text("mine/key"), file_text("theirs/key"));
  EXPECT_EQ(fs::status("mine/key").permissions(), fs::perms(0600));
  EXPECT_EQ(file_text("mine/key").size(), 32u);
  for (const auto& entry : fs::directory_iterator("theirs"))
    if (entry.path().extension() == ".kernels")
      fs::copy_file(entry.path(), "mine/" + entry.path().filename().string(),
                    fs::copy_options::overwrite_existing);
  const Result result = with("mine", "run");
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_EQ(occurrences(result.output, " is damaged, or was made under another key; it is not used"), 2)
      << result.output;
  EXPECT_EQ(final_hash("run"), final_hash("whole"));
  row({.fault = "whole entries of another cache, sealed under its key, put in this one",
       .seen = "kernel cache: ....kernels is damaged, or was made under another key; it is not used, and is "
               "made again",
       .code = "0",
       .detected = "at start",
       .recovered = "compiles",
       .lost = "0",
       .same_bits = "yes"});
}

}  // namespace
}  // namespace lockstep::tests
