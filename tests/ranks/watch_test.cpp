// The flight record: what a worker writes, what a reader sees, what survives, and who is late.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/error.h"
#include "distributed/local/local_world.h"
#include "distributed/watch/flight_file.h"
#include "distributed/watch/flight_record.h"
#include "distributed/watch/late.h"
#include "distributed/watch/site.h"
#include "tests/ranks/expect_error.h"

using namespace lockstep;
using namespace lockstep::distributed;

namespace {
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / str("lockstep-watch-", getpid(), "-", count_++)) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  static inline int count_ = 0;
  std::filesystem::path path_;
};
}  // namespace

TEST(FlightRecord, ProgressReadsBack) {
  Folder folder;
  std::string path = folder.file("rank-3.flight");
  FlightRecorder recorder(path, 3);
  WorkerProgress before = read_progress(path);
  EXPECT_EQ(before.rank, 3);
  EXPECT_EQ(before.pid, getpid());
  EXPECT_EQ(before.step, -1);
  EXPECT_EQ(before.op, -1);
  EXPECT_EQ(before.phase, "");
  recorder.phase("compile");
  recorder.progress(41, 7);
  WorkerProgress after = read_progress(path);
  EXPECT_EQ(after.step, 41);
  EXPECT_EQ(after.op, 7);
  EXPECT_EQ(after.phase, "compile");
  EXPECT_GE(after.updated_ns, before.updated_ns);
  EXPECT_LE(after.updated_ns, flight_clock_ns());
  recorder.phase("a phase with a name that is longer than the slot");
  EXPECT_EQ(read_progress(path).phase, "a phase with a name that is lon");
}

TEST(FlightRecord, KeepsTheLast256) {
  Folder folder;
  std::string path = folder.file("rank-0.flight");
  FlightRecorder recorder(path, 0);
  auto group = identify_group("dp_shard", {0, 2, 4}, 1);
  std::vector<uint64_t> seqs;
  for (int i = 0; i < 300; ++i)
    seqs.push_back(recorder.started(group, i, "all_gather", str("bucket ", i), i * 8));
  recorder.ended(seqs[0], FlightState::done);  // its slot belongs to another by now
  for (int i = 100; i < 299; ++i) recorder.ended(seqs[i], i % 2 ? FlightState::done : FlightState::failed);
  FlightLog log = read_flight_log(path);
  ASSERT_EQ(log.entries.size(), 256u);
  for (int i = 0; i < 256; ++i) {
    const FlightEntry& entry = log.entries[i];
    int number = 44 + i;
    EXPECT_EQ(entry.seq, static_cast<uint64_t>(number + 1));
    EXPECT_EQ(entry.group_seq, number);
    EXPECT_EQ(entry.label, str("bucket ", number));
    EXPECT_EQ(entry.verb, "all_gather");
    EXPECT_EQ(entry.bytes, number * 8);
    EXPECT_EQ(entry.group.name, "dp_shard");
    EXPECT_EQ(entry.group.key, group.key);
    EXPECT_EQ(entry.group.rank, 1);
    EXPECT_EQ(entry.group.size, 3);
    FlightState wanted = number < 100 || number == 299 ? FlightState::started
                         : number % 2                  ? FlightState::done
                                                       : FlightState::failed;
    EXPECT_EQ(entry.state, wanted) << number;
    EXPECT_EQ(entry.end_ns == 0, wanted == FlightState::started);
    EXPECT_TRUE(entry.end_ns == 0 || entry.end_ns >= entry.start_ns);
  }
}

namespace {
// A process with a record in it, which waits to be killed.
class Writer {
 public:
  explicit Writer(const std::string& path) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    child = fork();
    if (child == 0) {
      FlightRecorder recorder(path, 1);
      recorder.start_heart();
      recorder.progress(60, 5);
      recorder.started(identify_group("world", {0, 1}, 1), 17, "all_to_all", "gradients", 4096);
      (void)!write(ready[1], "x", 1);
      while (true) pause();
    }
    char none;
    EXPECT_EQ(read(ready[0], &none, 1), 1);
    close(ready[0]), close(ready[1]);
  }
  void end() {
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
  }
  pid_t child = 0;
};
}  // namespace

TEST(FlightRecord, SurvivesTheDeathOfItsWriter) {
  Folder folder;
  std::string path = folder.file("rank-1.flight");
  Writer writer(path);
  EXPECT_EQ(read_progress(path).step, 60);
  FlightReader reader(path);
  writer.end();
  expect_error<UserError>([&] { read_progress(path); }, {"rank-1.flight"});  // the link leads nowhere now
  for (bool kept : {false, true}) {
    if (kept) reader.keep();
    FlightLog log = kept ? read_flight_log(path) : reader.log();
    EXPECT_EQ(log.progress.step, 60);
    EXPECT_EQ(log.progress.pid, writer.child);
    ASSERT_EQ(log.entries.size(), 1u);
    EXPECT_EQ(log.entries[0].state, FlightState::started);
    std::string dump = text(log);
    for (const char* words : {"rank 1", "step 60", "op 5", "last heartbeat", "world[1/2] #17",
                              "all_to_all \"gradients\"", "4096 bytes", "started"})
      EXPECT_NE(dump.find(words), std::string::npos) << words << " in\n" << dump;
  }
  EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(path)));
}

// logrotate's copytruncate, and a full disk: the record is neither shortened, nor does it need the disk.
TEST(FlightRecord, CannotBeCutUnderItsWriter) {
  Folder folder;
  std::string path = folder.file("progress-0");
  FlightRecorder recorder(path, 0);
  EXPECT_EQ(truncate(path.c_str(), 0), -1);
  EXPECT_FALSE(std::ofstream(path, std::ios::trunc).is_open());
  recorder.progress(3, 4);
  EXPECT_EQ(read_progress(path).step, 3);
  // The name may go: who has it open reads on.
  FlightReader reader(path);
  std::filesystem::remove(path);
  recorder.progress(4, 4);
  EXPECT_EQ(reader.progress().step, 4);
}

TEST(FlightRecord, AStoppedProcessBeatsNoMore) {
  Folder folder;
  std::string path = folder.file("progress-1");
  Writer writer(path);
  FlightReader reader(path);
  const int64_t first = reader.progress().beat_ns;
  auto beats_after = [&](int64_t then) {
    for (int i = 0; i < 200; ++i, usleep(10'000))
      if (reader.progress().beat_ns > then) return true;
    return false;
  };
  EXPECT_GT(first, 0);
  EXPECT_TRUE(beats_after(first));
  kill(writer.child, SIGSTOP);
  usleep(50'000);
  const int64_t last = reader.progress().beat_ns;
  usleep(700'000);
  EXPECT_EQ(reader.progress().beat_ns, last);
  kill(writer.child, SIGCONT);
  EXPECT_TRUE(beats_after(last));
  writer.end();
}

// Whatever bytes stand in a file, a reader gives words or refuses.
TEST(FlightRecord, AnyBytesAreReadOrRefused) {
  Folder folder;
  {
    FlightRecorder recorder(folder.file("whole"), 0);
    recorder.started(identify_group("world", {0, 1}, 0), 0, "barrier", "end", 0);
  }
  std::ifstream in(folder.file("whole"), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  uint64_t random = 1;
  for (int round = 0; round < 200; ++round) {
    std::string bytes = whole;
    for (size_t i = 16; i < bytes.size(); ++i) {
      random = random * 6364136223846793005ull + 1442695040888963407ull;
      if (random >> 54 == 0) bytes[i] = static_cast<char>(random >> 40);
    }
    std::ofstream(folder.file("torn"), std::ios::binary) << bytes;
    FlightLog log;
    try {
      log = read_flight_log(folder.file("torn"));
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("is damaged"), std::string::npos) << error.what();
      continue;
    }
    const std::string said = text(log);
    for (char c : said) ASSERT_TRUE(c == '\n' || (c >= ' ' && c <= '~'));
    find_late({log, log}, 0);
    find_mismatch({log, log});
  }
}

TEST(FlightRecord, GroupsReport) {
  Folder folder;
  std::string path = folder.file("record");
  set_flight_recorder(std::make_shared<FlightRecorder>(path, 0));
  with_ranks(2, [](Group& group) {
    std::vector<int32_t> data(6, 1);
    all_reduce(group, {data.data(), data.data(), 6, DType::i32}, "sum of six");
    if (group.rank() == 0)
      send(group, {data.data(), 2, DType::i32, 1}, "token");
    else
      recv(group, {data.data(), 2, DType::i32, 0}, "token");
    barrier(group, "end");
  });
  set_flight_recorder(nullptr);
  with_ranks(2, [](Group& group) { barrier(group, "not recorded"); });
  FlightLog log = read_flight_log(path);
  ASSERT_EQ(log.entries.size(), 6u);  // both ranks are threads of this process
  int sums = 0, sends = 0, recvs = 0, barriers = 0;
  for (const auto& entry : log.entries) {
    EXPECT_EQ(entry.state, FlightState::done);
    sums += entry.verb == "all_reduce" && entry.bytes == 24 && entry.group_seq == 0 &&
            entry.label == "sum of six";
    sends += entry.verb == "send" && entry.bytes == 8 && entry.group_seq == -1;
    recvs += entry.verb == "recv" && entry.bytes == 0;
    barriers += entry.verb == "barrier" && entry.group_seq == 1;
  }
  EXPECT_EQ(sums, 2);
  EXPECT_EQ(sends, 1);
  EXPECT_EQ(recvs, 1);
  EXPECT_EQ(barriers, 2);
}

TEST(FlightRecord, ACollectiveThatFailsIsMarked) {
  Folder folder;
  std::string path = folder.file("record");
  set_flight_recorder(std::make_shared<FlightRecorder>(path, 0));
  expect_error<PeerError>(
      [] {
        with_ranks(2,
                   [](Group& group) {
                     if (group.rank() == 0) barrier(group, "alone");
                   },
                   {.deadline_s = 30});
      },
      {"which has ended"});
  set_flight_recorder(nullptr);
  FlightLog log = read_flight_log(path);
  ASSERT_EQ(log.entries.size(), 1u);
  EXPECT_EQ(log.entries[0].state, FlightState::failed);
  EXPECT_NE(text(log).find("barrier \"alone\""), std::string::npos);
}

TEST(FlightRecord, ManyThreadsMayWrite) {
  Folder folder;
  std::string path = folder.file("record");
  FlightRecorder recorder(path, 0);
  auto group = identify_group("world", {0}, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i)
        recorder.ended(recorder.started(group, i, "barrier", str("thread ", t), t), FlightState::done);
    });
  for (int i = 0; i < 20; ++i) read_flight_log(path);
  for (auto& thread : threads) thread.join();
  FlightLog log = read_flight_log(path);
  EXPECT_EQ(log.entries.size(), 240u);
  for (const auto& entry : log.entries) EXPECT_EQ(entry.label, str("thread ", entry.bytes));
}

TEST(FlightRecord, BadFilesAreRefused) {
  Folder folder;
  expect_error<UserError>([&] { read_progress(folder.file("none")); },
                          {"flight record", "none", "No such file"});
  std::ofstream(folder.file("short")) << "abc";
  expect_error<UserError>([&] { read_flight_log(folder.file("short")); },
                          {"short", "has 3 bytes instead of"});
  { FlightRecorder recorder(folder.file("zeros"), 0); }
  auto bytes = std::filesystem::file_size(folder.file("zeros"));
  std::ofstream(folder.file("zeros"), std::ios::binary) << std::string(bytes, '\0');
  expect_error<UserError>([&] { read_flight_log(folder.file("zeros")); },
                          {"zeros", "is not one of version 2"});
  expect_error<UserError>([&] { FlightRecorder recorder(folder.file("no/such/folder"), 0); },
                          {"no/such/folder", "cannot be written", "run folder"});
  std::filesystem::create_directory(folder.file("folder"));
  expect_error<UserError>([&] { read_progress(folder.file("folder")); }, {"folder"});
}

TEST(FlightRecord, DamagedSlotsAreRefused) {
  Folder folder;
  const std::string path = folder.file("progress-0");
  {
    FlightRecorder recorder(path, 0);
    recorder.ended(recorder.started(identify_group("world", {0, 1}, 1), 0, "all_reduce", "loss", 8),
                   FlightState::done);
  }
  ASSERT_EQ(read_flight_log(path).entries.size(), 1u);
  for (auto [at, value, words] :
       {std::tuple{offsetof(FlightFile, slots) + offsetof(FlightSlot, state), 17,
                   "collective 1 has state 17"},
        {offsetof(FlightFile, slots) + offsetof(FlightSlot, group_rank), 2, "rank 2 of 2"},
        {offsetof(FlightFile, slots) + offsetof(FlightSlot, group_size), 1 << 30, "rank 1 of 1073741824"}}) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    int32_t whole = 0;
    file.seekg(static_cast<std::streamoff>(at)).read(reinterpret_cast<char*>(&whole), sizeof whole);
    file.seekp(static_cast<std::streamoff>(at)).write(reinterpret_cast<const char*>(&value), sizeof value);
    file.flush();
    expect_error<UserError>([&] { read_flight_log(path); }, {path, "is damaged", words});
    file.seekp(static_cast<std::streamoff>(at)).write(reinterpret_cast<const char*>(&whole), sizeof whole);
  }
}

namespace {
FlightLog log_of(int rank, const GroupIdentity& group, int64_t upto, bool last_in_flight, int64_t start_ns) {
  FlightLog log;
  log.progress.rank = rank;
  for (int64_t i = 0; i <= upto; ++i) {
    bool flying = last_in_flight && i == upto;
    log.entries.push_back({static_cast<uint64_t>(i + 1), group, i, "all_reduce", str("bucket ", i), 4,
                           start_ns + i, flying ? 0 : start_ns + i + 1,
                           flying ? FlightState::started : FlightState::done});
  }
  return log;
}
}  // namespace

TEST(Late, NamesTheRankThatIsNotThere) {
  int64_t now = 100'000'000'000, start = now - 5'000'000'000;
  std::vector<int> all{0, 1, 2, 3};
  std::vector<FlightLog> logs;
  for (int r : all) logs.push_back(log_of(r, identify_group("world", all, r), r == 2 ? 4 : 5, r != 2, start));
  auto late = find_late(logs, 2.0, now);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].missing, std::vector<int>{2});
  EXPECT_EQ(late[0].arrived, (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(text(late[0]), "group \"world\": all_reduce \"bucket 5\" (#5) has waited 4.9 s for rank 2 of 4");
  EXPECT_TRUE(find_late(logs, 6.0, now).empty());
  // All in: the transfer is what takes long.
  logs[2] = log_of(2, identify_group("world", all, 2), 5, true, start);
  late = find_late(logs, 2.0, now);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_TRUE(late[0].missing.empty());
  EXPECT_NE(text(late[0]).find("all ranks are at it"), std::string::npos);
}

TEST(Late, TellsGroupsOfOneDimApart) {
  int64_t now = 100'000'000'000, start = now - 9'000'000'000;
  std::vector<int> left{0, 1}, right{2, 3};
  std::vector<FlightLog> logs{log_of(0, identify_group("tp", left, 0), 2, false, start),
                              log_of(1, identify_group("tp", left, 1), 2, false, start),
                              log_of(2, identify_group("tp", right, 0), 2, true, start),
                              log_of(3, identify_group("tp", right, 1), 1, false, start)};
  auto late = find_late(logs, 1.0, now);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].group.key, identify_group("tp", right, 0).key);
  EXPECT_EQ(late[0].missing, std::vector<int>{1});
}

TEST(Site, Words) {
  EXPECT_EQ(site_text(AllReduce{nullptr, nullptr, 4, DType::bf16, ReduceOp::max}, "loss"),
            "all_reduce \"loss\" (bf16, 4 elements, max)");
  EXPECT_EQ(site_text(AllToAll{nullptr, nullptr, {1, 2}, {3, 4}, DType::u8}, "x"),
            "all_to_all \"x\" (u8, sends [1,2], receives [3,4])");
  EXPECT_EQ(site_text(ReduceScatter{nullptr, nullptr, {1, 2}, DType::f32}, "x"),
            "reduce_scatter \"x\" (f32, counts [1,2], sum)");
  EXPECT_EQ(site_text(Barrier{}, "x"), "barrier \"x\"");
}
