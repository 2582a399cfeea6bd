// Checkpoints of hosts that share no storage: what is left of the hosts loads what all of them saved.
#include "checkpoint/host_folders.h"

#include <functional>
#include <mutex>
#include <numeric>

#include "checkpoint/save_in_flight.h"
#include "tests/reshard/folder_case.h"
#include "tests/support/fault_storage.h"

namespace lockstep {

using namespace checkpoint;

namespace {

// A storage below a folder of its own: a host's.
class Rooted : public Storage {
 public:
  Commit commit(const std::string&) const override { return Commit::rename; }
  Rooted(std::string root, Storage& below) : root_(std::move(root)), below_(below) {}
  std::unique_ptr<OutFile> create(const std::string& path) override { return below_.create(at(path)); }
  std::unique_ptr<InFile> open(const std::string& path) override { return below_.open(at(path)); }
  bool exists(const std::string& path) override { return below_.exists(at(path)); }
  std::vector<FolderEntry> list(const std::string& folder) override { return below_.list(at(folder)); }
  void make_folders(const std::string& path) override { below_.make_folders(at(path)); }
  void rename(const std::string& from, const std::string& to) override { below_.rename(at(from), at(to)); }
  void remove(const std::string& path) override { below_.remove(at(path)); }
  void sync_folder(const std::string& folder) override { below_.sync_folder(at(folder)); }
  std::shared_ptr<FolderLock> lock(const std::string& folder) override { return below_.lock(at(folder)); }

 private:
  std::string at(const std::string& path) const { return root_ + "/" + path; }
  std::string root_;
  Storage& below_;
};

// Hosts of a run, by their names among all hosts, and how many ranks each has.
struct Hosts {
  std::vector<std::pair<int, int64_t>> list;  // {name, ranks}
  int64_t ranks() const {
    return std::accumulate(list.begin(), list.end(), int64_t{0},
                           [](int64_t sum, auto& h) { return sum + h.second; });
  }
  std::vector<int64_t> firsts() const {
    std::vector<int64_t> out;
    int64_t first = 0;
    for (const auto& [name, ranks] : list) out.push_back(first), first += ranks;
    return out;
  }
};

class Folders : public ::testing::Test {
 protected:
  std::string root(int host) const { return scratch_.path(str(prefix_, "h", host)); }

  // `fn` on every rank, with its host's storage.
  void on(const Hosts& hosts, Storage& below,
          const std::function<void(LiveMesh&, std::vector<Array>&, Storage&,
                                   std::shared_ptr<const HostFolders>)>& fn) {
    auto folders = std::make_shared<const HostFolders>(hosts.firsts(), hosts.ranks());
    const auto ranks = static_cast<int>(hosts.ranks());
    distributed::local_mesh(ranks, Mesh{{ranks}, {"dp_shard"}}, [&](LiveMesh& live) {
      auto state = make_state(kSpecs, live.words, live.rank, [](const StateSpec&) {
        Layout l;
        l.set(0, Shard(0));
        return l;
      });
      Rooted storage(root(hosts.list[folders->of(live.rank)].first), below);
      fn(live, state, storage, folders);
    });
  }
  void save(const Hosts& hosts, int64_t step, uint64_t salt, Storage& below = file_storage()) {
    on(hosts, below, [&](LiveMesh& live, auto& state, Storage& storage, auto folders) {
      for (auto& array : state) fill(array, salt);
      SaveInFlight save("ckpt", {step, nullptr, "cert", nullptr}, readable(state), live, 1, storage,
                        std::make_shared<SnapshotRoom>(), folders);
      for (auto& array : state) fill(array, salt + 1);
      while (!save.advance()) {}
    });
  }
  // What these hosts find: their step and salt.
  Found load(const Hosts& hosts) {
    Found out;
    on(hosts, file_storage(), [&](LiveMesh& live, auto& state, Storage& storage, auto folders) {
      const int64_t step = gather_newest("ckpt", *folders, writable(state), *live.world, storage);
      Found mine;
      if (step >= 0) {
        const auto loaded = load_newest({"none", "ckpt"}, writable(state), live, storage, "ckpt");
        ASSERT_TRUE(loaded);
        mine.step = loaded->step;
        EXPECT_EQ(mine.step, step);
      }
      for (uint64_t salt = 1; salt < 10 && step >= 0; ++salt)
        if (difference(state, salt).empty()) mine.salt = salt;
      if (live.rank == 0) out = mine;
    });
    return out;
  }
  std::vector<std::string> files(int host, int64_t step) const {
    return names(str(root(host), "/ckpt/step-", step));
  }
  ScratchFolder scratch_;
  std::string prefix_;
};

const Hosts kThree{{{0, 2}, {1, 1}, {2, 3}}};

TEST_F(Folders, WhoHasWhat) {
  const HostFolders folders(kThree.firsts(), 6);
  std::vector<int64_t> hosts, keepers;
  for (int64_t rank = 0; rank < 6; ++rank)
    hosts.push_back(folders.of(rank)), keepers.push_back(folders.keeper(rank));
  EXPECT_EQ(hosts, (std::vector<int64_t>{0, 0, 1, 2, 2, 2}));
  EXPECT_EQ(keepers, (std::vector<int64_t>{2, 2, 3, 0, 1, 0}));
  save(kThree, 5, 1);
  auto has = [](std::vector<int> ranks) {
    std::vector<std::string> out{"manifest.json"};
    for (int rank : ranks) out.push_back(str("rank-", rank, ".safetensors"));
    return out;
  };
  EXPECT_EQ(files(0, 5), has({0, 1, 3, 4, 5}));
  EXPECT_EQ(files(1, 5), has({0, 1, 2}));
  EXPECT_EQ(files(2, 5), has({2, 3, 4, 5}));
}

TEST_F(Folders, AnyHostMayBeLostAndOthersMayCome) {
  int n = 0;
  for (const Hosts& left : {kThree, Hosts{{{1, 2}, {2, 1}}}, Hosts{{{0, 1}, {2, 1}}}, Hosts{{{1, 1}, {0, 3}}},
                            Hosts{{{7, 1}, {2, 2}, {8, 1}, {0, 1}}}, Hosts{{{0, 1}, {1, 1}, {2, 1}}}}) {
    prefix_ = str(++n, "-");
    save(kThree, 5, 1);
    save(kThree, 10, 2);
    EXPECT_EQ(load(left), (Found{10, 2})) << n;
    save(left, 15, 3);
    EXPECT_EQ(load(left), (Found{15, 3})) << n;
    for (const auto& [host, ranks] : left.list)
      EXPECT_EQ(names(root(host) + "/ckpt"), (std::vector<std::string>{".lock", "step-15"})) << n;
  }
}

TEST_F(Folders, TwoLostHostsAreTooMany) {
  save(kThree, 5, 1);
  EXPECT_EQ(load(Hosts{{{1, 1}, {7, 1}}}), Found{});
  EXPECT_EQ(names(root(1) + "/ckpt"), std::vector<std::string>{".lock"});
}

TEST_F(Folders, StatesOfOneStepAreNotMixed) {
  save(kThree, 5, 1);
  fs::rename(root(1), scratch_.path("aside"));
  fs::remove_all(root(0));
  fs::remove_all(root(2));
  save(kThree, 5, 2);
  fs::remove_all(root(1));
  fs::rename(scratch_.path("aside"), root(1));
  EXPECT_EQ(load(kThree), (Found{5, 2}));
}

// One storage of all hosts: the crash ends them together.
TEST_F(Folders, ACrashAtEveryOperationLeavesTheOldOneOrTheNew) {
  int64_t news = 0, olds = 0;
  for (int64_t at = 0;; ++at) {
    prefix_ = str("run-", at, "/");
    save(kThree, 5, 1);
    FaultStorage storage;
    storage.crash_at = at;
    bool crashed = false;
    try {
      save(kThree, 10, 2, storage);
    } catch (const Crash&) { crashed = true; }
    const Found found = load(kThree);
    EXPECT_TRUE(found == (Found{5, 1}) || found == (Found{10, 2})) << found << " after operation " << at;
    (found.step == 10 ? news : olds) += 1;
    save(kThree, 15, 3);
    EXPECT_EQ(load(kThree), (Found{15, 3})) << "after operation " << at;
    fs::remove_all(scratch_.path(str("run-", at)));
    if (!crashed) break;
  }
  EXPECT_GT(news, 2);
  EXPECT_GT(olds, 20);
}

TEST_F(Folders, AFullMemoryIsToldAndTheOlderOneStays) {
  for (int64_t capacity : {0, 300, 2000, 4000, 6000}) {
    prefix_ = str(capacity, "-");
    save(kThree, 5, 1);
    FaultStorage storage;
    storage.capacity = capacity;
    std::string failed;
    std::mutex guard;
    on(kThree, storage, [&](LiveMesh& live, auto& state, Storage& rooted, auto folders) {
      try {
        SaveInFlight save("ckpt", {10, nullptr, "cert", nullptr}, readable(state), live, 1, rooted,
                          std::make_shared<SnapshotRoom>(), folders);
        while (!save.advance()) {}
      } catch (const NotSaved& error) {
        std::lock_guard lock(guard);
        failed = error.what();
      }
    });
    EXPECT_NE(failed.find("checkpoint of step 10 was not saved (older ones are untouched): "),
              std::string::npos)
        << capacity << failed;
    EXPECT_EQ(load(kThree), (Found{5, 1})) << capacity;
  }
}

TEST_F(Folders, ADamagedFileIsTold) {
  save(kThree, 5, 1);
  for (int host : {0, 2}) {
    const std::string file = root(host) + "/ckpt/step-5/rank-4.safetensors";
    flip_byte(file, static_cast<int64_t>(fs::file_size(file)) - 2);
  }
  on(kThree, file_storage(), [&](LiveMesh& live, auto& state, Storage& storage, auto folders) {
    EXPECT_EQ(gather_newest("ckpt", *folders, writable(state), *live.world, storage), 5);
    EXPECT_FALSE(load_newest({"none", "ckpt"}, writable(state), live, storage, "ckpt"));
  });
}

}  // namespace
}  // namespace lockstep
