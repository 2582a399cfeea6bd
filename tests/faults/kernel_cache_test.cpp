// Faults of the kernel cache: damaged entries, what another user made, folders that take nothing, no
// compiler, kill -9 while compiling.
#include <sys/mount.h>
#include <sys/stat.h>

#include "tests/faults/fault_run.h"
#include "tests/support/own_process.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;
constexpr uid_t kNobody = 65534;

class KernelCacheRun : public FaultRun {
 protected:
  void SetUp() override {
    FaultRun::SetUp();
    write_tiny();
    fs::create_directory("tmp");
  }
  // Two steps on one rank, with the cache of this test.
  Result run(const std::string& name, Variables variables = {}) {
    variables.emplace("LOCKSTEP_CACHE", scratch_.path("cache"));
    variables.emplace("TMPDIR", scratch_.path("tmp"));
    return trainrun({"--nproc", "1", "--train.device=cpu", "--train.steps=2", "--name=" + name, "c.json"},
                    variables);
  }
  std::vector<fs::path> entries(const std::string& cache = "cache") {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(cache))
      if (entry.path().extension() == ".kernels") out.push_back(entry.path());
    std::sort(out.begin(), out.end());
    return out;
  }
  void cold() {
    const Result result = run("whole");
    ASSERT_EQ(result.code, kExitOk) << result.output;
    ASSERT_EQ(entries().size(), 2u) << "the step's and the evaluation's";
  }
  void expect_whole(const Result& result, const std::string& name) {
    EXPECT_EQ(result.code, kExitOk) << result.output;
    EXPECT_EQ(final_hash(name), final_hash("whole"));
  }
  std::vector<std::string> left_in(const std::string& folder) {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder)) out.push_back(entry.path().filename());
    return out;
  }
};

std::string whole_text(const fs::path& path) { return file_text(path.string()); }

TEST_F(KernelCacheRun, Row40DamagedEntries) {
  cold();
  struct Harm {
    const char *name, *said;
    std::function<void(const fs::path&)> act;
  };
  const std::string damaged = " is damaged, or was made under another key; it is not used, and is made again";
  auto write = [](const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  };
  const std::vector<std::pair<Harm, Harm>> harms = {
      {{"flipped", damaged.c_str(),
        [&](const fs::path& path) {
          auto text = whole_text(path);
          text[text.size() / 2] ^= 1;
          write(path, text);
        }},
       {"cut", damaged.c_str(),
        [](const fs::path& path) { fs::resize_file(path, fs::file_size(path) - 1); }}},
      {{"empty", damaged.c_str(), [](const fs::path& path) { fs::resize_file(path, 0); }},
       {"longer", damaged.c_str(), [&](const fs::path& path) { write(path, whole_text(path) + "x"); }}},
      {{"pipe", " is a pipe, not a file; it is not used",
        [](const fs::path& path) {
          fs::remove(path);
          mkfifo(path.c_str(), 0600);
        }},
       {"folder", " is a folder, not a file; it is not used",
        [](const fs::path& path) {
          fs::remove(path);
          fs::create_directories(path / "in");
        }}},
  };
  for (const auto& [first, second] : harms) {
    const auto at = entries();
    first.act(at[0]);
    second.act(at[1]);
    const std::string name = str(first.name, "-", second.name);
    const Result result = run(name);
    expect_whole(result, name);
    EXPECT_HAS(result.output, at[0].filename().string() + first.said);
    EXPECT_HAS(result.output, at[1].filename().string() + second.said);
  }
  EXPECT_HAS(file_text("out"), "does not take files (Is a directory)");
  row({.fault = "cache entry with a flipped byte, cut, empty, longer; a FIFO, a folder in its place",
       .seen = "kernel cache: .../5a4d....kernels is damaged, or was made under another key; it is not used, "
               "and is made again",
       .code = "0",
       .detected = "at start",
       .recovered = "compiles again",
       .lost = "0",
       .same_bits = "yes"});
}

TEST_F(KernelCacheRun, Row40OfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "files of another user need root";
  cold();
  chmod(scratch_.path("tmp").c_str(), 01777);
  const std::string planted = scratch_.path(str("tmp/lockstep-cache-", geteuid()));
  auto give_away = [](const std::string& path) {
    EXPECT_EQ(lchown(path.c_str(), kNobody, kNobody), 0);
    if (fs::is_symlink(path)) return;
    for (const auto& entry : fs::recursive_directory_iterator(path))
      EXPECT_EQ(lchown(entry.path().c_str(), kNobody, kNobody), 0);
  };
  // Whole and sealed, key and all: only the owner is wrong.
  auto make = [&] { fs::copy("cache", planted, fs::copy_options::recursive); };
  const Variables homeless = {{"HOME", ""}, {"XDG_CACHE_HOME", ""}, {"LOCKSTEP_CACHE", ""}};
  auto expect_unused = [&](const std::string& name, const std::string& words) {
    const Result result = run(name, homeless);
    expect_whole(result, name);
    EXPECT_HAS(result.output, planted + " is not used: " + planted + words);
    EXPECT_HAS(result.output,
               "kernels are compiled in every run. Set LOCKSTEP_CACHE to a folder of your own");
  };
  make();
  give_away(planted);
  expect_unused("folder", " belongs to nobody (uid 65534)");
  fs::rename(planted, scratch_.path("tmp/theirs"));
  fs::create_symlink("theirs", planted);
  give_away(planted);
  expect_unused("link", " belongs to nobody (uid 65534)");
  const Result named = run("named", {{"LOCKSTEP_CACHE", scratch_.path("tmp/theirs")}});
  EXPECT_EQ(named.code, kExitUser) << named.output;
  EXPECT_HAS(named.output,
             "the kernel cache of LOCKSTEP_CACHE, " + scratch_.path("tmp/theirs") + ", is not used");
  EXPECT_HAS(named.output, "set LOCKSTEP_CACHE to a folder of your own, or unset it");
  fs::remove(planted);
  make();
  for (const auto& entry : entries(planted)) EXPECT_EQ(lchown(entry.c_str(), kNobody, kNobody), 0);
  const Result result = run("entry", homeless);
  expect_whole(result, "entry");
  EXPECT_HAS(result.output, ".kernels belongs to nobody (uid 65534), mode 0600");
  row({.fault = "another user made TMPDIR/lockstep-cache-UID, a link of its name, or entries in it; "
                "LOCKSTEP_CACHE names a folder of theirs",
       .seen = "kernel cache: /tmp/lockstep-cache-0 is not used: /tmp/lockstep-cache-0 belongs to nobody "
               "(uid 65534), mode 0700",
       .code = "0; 2 where LOCKSTEP_CACHE names it",
       .detected = "at start",
       .recovered = "compiles; nothing of theirs is loaded",
       .lost = "0",
       .same_bits = "yes"});
}

TEST_F(KernelCacheRun, Row40FolderThatTakesNothing) {
  cold();
  scratch_.write("file", std::string("not a folder"));
  const Result file = run("file", {{"LOCKSTEP_CACHE", scratch_.path("file")}});
  expect_whole(file, "file");
  EXPECT_HAS(file.output, "does not take files (" + scratch_.path("file") +
                              ": Not a directory); kernels are compiled again next time");
  fs::create_directory("small");
  chmod("small", 0700);
  if (mount("none", "small", "tmpfs", 0, "size=4k,mode=0700") != 0)
    GTEST_SKIP() << "a full folder needs the right to mount one";
  const Result full = run("full", {{"LOCKSTEP_CACHE", scratch_.path("small")}});
  umount("small");
  expect_whole(full, "full");
  EXPECT_HAS(full.output, " does not take files (");
  EXPECT_HAS(full.output, "No space left on device); kernels are compiled again next time");
  row({.fault = "cache folder a file; full",
       .seen = "kernel cache: ... does not take files (No space left on device); kernels are compiled again "
               "next time",
       .code = "0",
       .detected = "at start",
       .recovered = "compiles",
       .lost = "0",
       .same_bits = "yes"});
}

TEST_F(KernelCacheRun, Row40FolderThatCannotBeChanged) {
  cold();
  fs::create_directory("fixed");
  chmod("fixed", 0700);
  if (std::system("chattr +i fixed cache 2>/dev/null") != 0)
    GTEST_SKIP() << "needs chattr +i: root, and a file system that has it";
  const Result cold_one = run("fixed", {{"LOCKSTEP_CACHE", scratch_.path("fixed")}}), warm = run("warm");
  EXPECT_EQ(std::system("chattr -i fixed cache"), 0);
  expect_whole(cold_one, "fixed");
  EXPECT_HAS(cold_one.output, "does not take files (its key, " + scratch_.path("fixed/key") +
                                  ", cannot be made: Operation not permitted)");
  expect_whole(warm, "warm");
  EXPECT_EQ(warm.output.find("kernel cache"), std::string::npos) << warm.output;
  row({.fault = "cache folder immutable (chattr +i): cold; warm",
       .seen = "kernel cache: ... does not take files (its key, .../key, cannot be made: Operation not "
               "permitted); nothing where it is warm",
       .code = "0",
       .detected = "at start",
       .recovered = "compiles; a warm one is used",
       .lost = "0",
       .same_bits = "yes"});
}

TEST_F(KernelCacheRun, Row40FourRunsOnAColdCache) {
  std::vector<std::unique_ptr<Process>> runs;
  const std::vector<std::string> names = {"whole", "b", "c", "d"};
  for (const auto& name : names)
    runs.push_back(std::make_unique<Process>(
        std::vector<std::string>{TRAINRUN, "--nproc", "1", "--train.device=cpu", "--train.steps=2",
                                 "--name=" + name, "c.json"},
        scratch_.path("out-" + name), Variables{{"LOCKSTEP_CACHE", scratch_.path("cache")}}));
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i]->wait(60), kExitOk) << runs[i]->output();
    EXPECT_EQ(runs[i]->output().find("kernel cache"), std::string::npos) << runs[i]->output();
    EXPECT_EQ(final_hash(names[i]), final_hash("whole"));
  }
  EXPECT_EQ(left_in("cache").size(), 6u)
      << "key, version, two entries, the rates of this host, the folder of what was found in data files";
  row({.fault = "four runs at once on a cold cache",
       .seen = "nothing",
       .code = "0",
       .detected = "-",
       .recovered = "-",
       .lost = "0",
       .same_bits = "yes"});
}

TEST_F(KernelCacheRun, Row40NoCompiler) {
  fs::create_directory("empty");
  const Variables none = {{"PATH", scratch_.path("empty")}};
  const Result refused = run("none", none);
  EXPECT_EQ(refused.code, kExitUser) << refused.output;
  EXPECT_HAS(refused.output,
             "the compiler of kernels, \"c++\", does not run: No such file or directory; install g++ "
             "(apt-get install g++) or set LOCKSTEP_CXX");
  cold();
  expect_whole(run("warm", none), "warm");
  const Result other = trainrun(
      {"--nproc", "1", "--train.device=cpu", "--train.steps=2", "--name=other", "c.json", "--model.width=16"},
      {{"PATH", scratch_.path("empty")}, {"LOCKSTEP_CACHE", scratch_.path("cache")}});
  EXPECT_EQ(other.code, kExitUser) << other.output;
  EXPECT_HAS(other.output, "lacks kernels of this step");
  scratch_.write("failing", std::string("#!/bin/sh\nexit 3\n"));
  chmod("failing", 0700);
  const Result failing = run("failing", {{"LOCKSTEP_CXX", scratch_.path("failing")}});
  EXPECT_EQ(failing.code, kExitUser) << failing.output;
  EXPECT_HAS(failing.output, "does not run: exit status 3");
  row({.fault = "PATH without a compiler: a cold cache; a warm one; a compiler that fails",
       .seen = "the compiler of kernels, \"c++\", does not run: No such file or directory; install g++; "
               "nothing where the cache is warm",
       .code = "2; 0; 2",
       .detected = "at start",
       .recovered = "a warm cache needs none",
       .lost = "0",
       .same_bits = "yes"});
}

TEST_F(KernelCacheRun, Row40KilledWhileCompiling) {
  scratch_.write("slow", "#!/bin/sh\n[ \"$1\" = --version ] && echo slow 1.0 && exit 0\necho $$ >> " +
                             scratch_.path("compiling") + "\nexec sleep 30\n");
  chmod("slow", 0700);
  auto slow = start({"--nproc", "1", "--train.device=cpu", "--train.steps=2", "--name=killed", "c.json"},
                    {{"LOCKSTEP_CXX", scratch_.path("slow")},
                     {"LOCKSTEP_CACHE", scratch_.path("cache")},
                     {"TMPDIR", scratch_.path("tmp")}});
  ASSERT_TRUE(until(20, [] { return occurrences(file_text("compiling"), "\n") == 2; })) << slow->output();
  const int rank = RunRecord("runs/killed").pid(0);
  EXPECT_EQ(left_in("tmp").size(), 1u);
  kill(slow->pid(), SIGKILL);
  kill(rank, SIGKILL);
  EXPECT_EQ(slow->wait(10), 128 + SIGKILL);
  EXPECT_TRUE(all_gone({rank}, 10));
  std::ifstream compilers("compiling");  // they outlive their parent, as programs do, until they are done
  for (int pid; compilers >> pid;) kill(pid, SIGKILL);
  ASSERT_EQ(left_in("tmp").size(), 1u) << "what kill -9 leaves";
  std::filesystem::last_write_time(scratch_.path("tmp/" + left_in("tmp")[0]),
                                   std::filesystem::file_time_type::clock::now() - std::chrono::minutes(2));
  const Result result = run("whole");
  EXPECT_EQ(result.code, kExitOk) << result.output;
  EXPECT_EQ(left_in("tmp"), std::vector<std::string>{});
  row({.fault = "kill -9 of trainrun and its rank while kernels are compiled",
       .seen = "nothing, it is dead",
       .code = "-9",
       .detected = "-",
       .recovered = "same command; a minute later it removes the scratch folder that was left, too",
       .lost = "0",
       .same_bits = "yes"});
}

}  // namespace
}  // namespace lockstep::tests
