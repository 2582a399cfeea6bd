// What a run takes of the system, compared or told in words: limits of files, addresses and file sizes, the
// memory that ranks share, and strangers at the port where they meet.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

class Limits : public RealRun {
 protected:
  void SetUp() override {
    RealRun::SetUp();
    write_tiny();
  }
  // trainrun with `words`, started by a shell behind `before`.
  std::unique_ptr<Process> behind(const std::string& before, const std::string& words) {
    return std::make_unique<Process>(
        std::vector<std::string>{"/bin/bash", "-c", before + "; exec " + TRAINRUN + " " + words},
        scratch_.path("out"), Variables{{"LOCKSTEP_CACHE", KERNEL_CACHE}});
  }
  void refused(const std::string& before, const std::string& words, const std::string& said) {
    auto process = behind(before, words);
    EXPECT_EQ(process->wait(30), kExitUser) << before << "\n" << process->output();
    EXPECT_HAS(process->output(), said);
    EXPECT_EQ(process->output().find("MPI job"), std::string::npos) << process->output();
  }
};

TEST_F(Limits, AreComparedBeforeARankStarts) {
  const std::string words = "--nproc 2 c.json --train.steps=2";
  const bool sanitized = kSlowness > 1;  // its own addresses, data and stack are more than these limits
  if (!sanitized)
    refused(
        "ulimit -v 200000", words,
        "ulimit -v gives each process 195.31 MiB of addresses, and a rank of 2 needs 296.00 MiB before it "
        "has a model; raise ulimit -v, or use --nproc 1 or --simulate 2");
  for (const char* files : {"6", "20", "27"})
    refused(str("ulimit -n ", files), words,
            str("ulimit -n is ", files,
                ", and trainrun opens 28 files for 2 ranks; raise ulimit -n, or start fewer ranks, or "
                "--simulate 2"));
  for (const char* ranks : {"--nproc 2", "--nproc 1", "--simulate 2"}) {
    if (sanitized) break;
    const std::string any = str(ranks, " c.json --train.steps=2");
    refused(
        "ulimit -d 50000", any,
        "ulimit -d gives each process 48.83 MiB of data, and a rank needs 80.00 MiB before it has a model; "
        "raise ulimit -d");
    refused(
        "ulimit -s 64", any,
        "ulimit -s gives each thread 64.00 KiB of stack, and a rank needs 512.00 KiB before it has a model; "
        "raise ulimit -s");
  }
  EXPECT_FALSE(fs::exists("runs")) << "nothing is written";
  for (const char* least : {"-v 303104", "-d 81920", "-s 512"}) {
    if (sanitized) break;
    auto enough = behind(str("ulimit ", least), words + " --name=enough");
    EXPECT_EQ(enough->wait(60), kExitOk) << least << enough->output();
  }
  auto soft = behind("ulimit -Sn 12", words);  // raised, since it may be
  EXPECT_EQ(soft->wait(60), kExitOk) << soft->output();
}

// The limit of processes is no limit of root's.
TEST_F(Limits, OfProcessesAreComparedWithThoseOfTheUser) {
  constexpr int kUser = 61234;
  const std::string as_user = str("setpriv --reuid ", kUser, " --clear-groups ");
  if (geteuid() != 0 || std::system(str(as_user, "test -x ", TRAINRUN, " 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "another user that may run trainrun needs root";
  ASSERT_EQ(std::system(str("chown -R ", kUser, " ", scratch_.path("")).c_str()), 0);
  const auto limited = [&](int least, const std::string& words) {
    Process process({"/bin/bash", "-c",
                     str("ulimit -u ", least, "; OMP_NUM_THREADS=1 exec ", as_user, TRAINRUN, " ", words,
                         " c.json --train.steps=2")},
                    scratch_.path("out"),
                    {{"LOCKSTEP_CACHE", scratch_.path("cache")}, {"TMPDIR", scratch_.path("")}});
    const int code = process.wait(60);
    return Result{code, process.output()};
  };
  for (int least : {4, 6, 26}) {
    const Result few = limited(least, "--nproc 4");
    EXPECT_EQ(few.code, kExitUser) << few.output;
    EXPECT_HAS(few.output, str("ulimit -u is ", least,
                               ", this user has 0 processes and threads, and trainrun and 4 ranks take 27 "
                               "more; raise ulimit -u, or start fewer ranks, or --simulate 4"));
  }
  const Result alone = limited(3, "--nproc 1");
  EXPECT_EQ(alone.code, kExitUser) << alone.output;
  EXPECT_HAS(alone.output,
             "ulimit -u is 3, this user has 0 processes and threads, and trainrun and 1 rank take 4 more; "
             "raise ulimit -u, or end others");
  EXPECT_FALSE(fs::exists("runs")) << "nothing is written";
  const Result enough = limited(64, "--nproc 2");
  EXPECT_EQ(enough.code, kExitOk) << enough.output;
}

// A write over the limit of file sizes fails with its file, and ends nothing without a word.
TEST_F(Limits, OfFileSizesAreToldWithTheFile) {
  const auto limited = [&](const std::string& size,
                           const std::string& words) {  // what is said goes through a pipe
    Process process(
        {"/bin/bash", "-c",
         str("(ulimit -f ", size, "; exec ", TRAINRUN, " ", words, ") 2>&1 | cat; exit ${PIPESTATUS[0]}")},
        scratch_.path("out"), {{"LOCKSTEP_CACHE", KERNEL_CACHE}});
    const int code = process.wait(60);
    return Result{code, process.output()};
  };
  train({"--nproc", "1", "c.json", "--train.steps=2", "--name=cached"});  // a compiler has files of its own
  const Result none = limited("0", "--nproc 1 c.json --train.steps=2");
  EXPECT_EQ(none.code, kExitUser) << none.output;
  EXPECT_HAS(none.output, "cannot write runs/run/lock: File too large; raise ulimit -f");
  const Result two = limited("64", "--nproc 2 c.json --train.steps=2");  // KiB
  EXPECT_EQ(two.code, kExitUser) << two.output;
  EXPECT_HAS(
      two.output,
      "ulimit -f gives a file 64.00 KiB, and each of 2 ranks has one of 4.00 MiB in the memory that they "
      "share; raise ulimit -f, or use --nproc 1 or --simulate 2");
  const Result save = limited("64", "--nproc 1 c.json --train.steps=40 --checkpoint.retries=0");
  EXPECT_EQ(save.code, kExitPeer) << save.output;
  EXPECT_HAS(save.output, "File too large");
  EXPECT_HAS(save.output, "; raise `ulimit -f`");
  EXPECT_EQ(save.output.find("SIGXFSZ"), std::string::npos) << save.output;
}

TEST_F(Limits, OfSharedMemoryAreGoneAround) {
  if (std::system("unshare -m true 2>/dev/null") != 0) GTEST_SKIP() << "a /dev/shm of its own needs root";
  const auto in_small_memory = [&](const std::string& tmp) {
    return std::make_unique<Process>(
        std::vector<std::string>{"/usr/bin/unshare", "-m", "/bin/bash", "-c",
                                 str("mount -t tmpfs -o size=1m none /dev/shm && TMPDIR=", tmp, " exec ",
                                     TRAINRUN, " --nproc 4 c.json --train.steps=2")},
        scratch_.path("out"), Variables{{"LOCKSTEP_CACHE", KERNEL_CACHE}});
  };
  auto around = in_small_memory(scratch_.path(""));
  EXPECT_EQ(around->wait(60), kExitOk) << around->output();
  auto refused = in_small_memory("/dev/shm");
  EXPECT_EQ(refused->wait(30), kExitUser) << refused->output();
  EXPECT_HAS(
      refused->output(),
      "several ranks need a folder for the memory that they share, and none can be made in /dev/shm (it has "
      "room "
      "for 1.00 MiB, and they take 14.00 MiB), /dev/shm (it has room for 1.00 MiB, and they take 14.00 MiB); "
      "mount /dev/shm, make it larger (mount -o remount,size=1G /dev/shm; docker run --shm-size=1g), or set "
      "TMPDIR");
}

// The port on which a process listens.
int port_of(int pid) {
  std::set<std::string> sockets;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(str("/proc/", pid, "/fd"), none))
    if (const std::string to = fs::read_symlink(entry.path(), none).string(); to.starts_with("socket:["))
      sockets.insert(to.substr(8, to.size() - 9));
  std::ifstream table(str("/proc/", pid, "/net/tcp"));
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::vector<std::string> word;
    for (std::string one; words >> one;) word.push_back(one);
    if (word.size() > 9 && word[3] == "0A" && sockets.count(word[9]))
      return static_cast<int>(std::stoul(word[1].substr(word[1].find(':') + 1), nullptr, 16));
  }
  return 0;
}

// A process that opens `count` connections as user `uid` and says nothing; it ends with how many were ended
// by the other side within `seconds`.
int strangers(int port, int count, uid_t uid, int seconds) {
  const int pid = fork();
  if (pid != 0) return pid;
  if (uid != geteuid() && setuid(uid) != 0) _exit(255);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<int> open;
  for (int i = 0; i < count; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0) open.push_back(fd);
  }
  int ended = 0;
  const timeval limit{seconds, 0};
  for (int fd : open) {
    char byte;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ended += recv(fd, &byte, 1, 0) == 0 || errno == ECONNRESET;
  }
  _exit(ended == count ? 0 : 1);
}

// Many silent connections of another user, and some of this one, with few files left: a rank that dies is
// started again, and a stop is heard.
TEST_F(Limits, StrangersAtThePortKeepNoRankAway) {
  auto process = behind("ulimit -n 64", "--nproc 2 c.json --train.steps=100000 --max-restarts=1");
  ASSERT_TRUE(until(60, [] { return last_step("run") >= 20; })) << process->output();
  const int port = port_of(process->pid());
  ASSERT_GT(port, 0);
  std::vector<int> people{strangers(port, 2, geteuid(), 10)};
  if (geteuid() == 0) people.push_back(strangers(port, 200, 65534, 10));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const RunRecord run("runs/run");
  kill(run.pid(1), SIGKILL);
  ASSERT_TRUE(until(60, [&] { return process->output().find("restart 1 of 1") != std::string::npos; }))
      << process->output();
  const int64_t then = last_step("run");
  EXPECT_TRUE(until(30, [&] { return last_step("run") > then + 5; })) << process->output();
  for (int pid : people) {
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(WEXITSTATUS(status), 0) << "connections were left open";
  }
  kill(process->pid(), SIGTERM);
  EXPECT_EQ(process->wait(20), kExitStopped) << process->output();
}

// A stop within a validation breaks it off, and the next start makes it up: the bits, the best one and the
// rows are those of a run that nobody stopped. Asked of trainrun, or of one rank alone.
TEST_F(Limits, AStopWithinAValidationBreaksItOffAndTheNextStartMakesItUp) {
  write_tiny();
  scratch_.write("tokens.bin", std::vector<uint16_t>(400000, 7));
  const auto words = [](const std::string& name) {
    return std::vector<std::string>{"--nproc",
                                    "2",
                                    "c.json",
                                    "--name=" + name,
                                    "--data.validation=0.9",
                                    "--train.steps=4",
                                    "--train.eval_every=2",
                                    "--train.eval_batches=1800",
                                    "--checkpoint.best=true",
                                    "--train.device=cpu",
                                    "--model.width=96",
                                    "--model.depth=4"};
  };
  train(words("whole"));
  const auto stopped_in = [&](int64_t step, bool alone) {
    auto run = start(words("run"));
    // The row of a step is written behind its validation.
    ASSERT_TRUE(until(60, [&] { return last_step("run") == step - 1; })) << run->output();
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    ASSERT_EQ(last_step("run"), step - 1) << "its validation is over already: " << run->output();
    const auto asked = std::chrono::steady_clock::now();
    kill(alone ? RunRecord("runs/run").pid(1, 2) : run->pid(), SIGTERM);
    EXPECT_EQ(run->wait(30), kExitStopped) << run->output();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - asked;
    EXPECT_LT(taken.count(), 3 * kSlowness) << "seconds, for a validation of " << run->output();
    EXPECT_HAS(run->output(), str("stopped on request after step ", step, "; saved in "));
    EXPECT_EQ(run->output().find(str("step ", step, ": validation loss")), std::string::npos)
        << run->output();
    EXPECT_EQ(manifest("run", step)["extra"]["validation_due"], true);
  };
  stopped_in(2, false);
  stopped_in(4, true);
  const auto again = trainrun(words("run"));
  EXPECT_EQ(again.code, kExitOk) << again.output;
  EXPECT_HAS(again.output, "step 4: its validation is made up: the run was stopped before it was over\n");
  EXPECT_HAS(again.output, "done: 4 steps");
  EXPECT_FALSE(manifest("run", 4)["extra"].contains("validation_due"));
  EXPECT_EQ(column(metrics("whole"), "val_loss").size(), 2u);
  expect_same_run("run", "whole");
  EXPECT_EQ(manifest("run", 4)["extra"]["best"], manifest("whole", 4)["extra"]["best"]);
  EXPECT_EQ(manifest("run", 4)["extra"]["best"]["step"], 4);
  EXPECT_EQ(trainrun(words("run")).output.find("made up"), std::string::npos);
}

// A million samples of a validation, which are looked at before the first step.
TEST_F(Limits, AStopWhileTheValidationIsReadEndsTheStart) {
  write_tiny();
  scratch_.write("tokens.bin", std::vector<uint16_t>(60000000, 7));
  for (const char* ranks : {"--nproc", "--simulate"}) {
    auto run = start({ranks, "2", "c.json", "--data.validation=0.9", "--train.eval_batches=1000000"});
    ASSERT_TRUE(until(60, [&] { return run->output().find("validation tokens") != std::string::npos; }))
        << run->output();
    kill(run->pid(), SIGTERM);
    EXPECT_EQ(run->wait(25), kExitStopped) << run->output();
    EXPECT_HAS(
        run->output(),
        "trainrun: stopped on request before its first step, with nothing new to save; the same command "
        "starts it again\n");
    EXPECT_EQ(run->output().find(", saved"), std::string::npos) << run->output();
    EXPECT_TRUE(steps_saved("run").empty());
  }
}

}  // namespace
}  // namespace lockstep::tests
