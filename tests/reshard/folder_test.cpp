// The checkpoint folder over time: retention, the lock, fallback, rewinding, `latest`, and a step saved
// twice.
#include <sys/wait.h>
#include <unistd.h>

#include "core/mesh/nonfinite.h"
#include "tests/reshard/folder_case.h"

namespace lockstep {

using namespace checkpoint;

namespace {

TEST(Folder, EmptyOrAbsentHoldsNothing) {
  ScratchFolder folder;
  EXPECT_EQ(load(folder.path("ckpt")), Found{});
  fs::create_directories(folder.path("ckpt/step-5.tmp"));
  fs::create_directories(folder.path("ckpt/step-x"));
  fs::create_directories(folder.path("ckpt/step-007"));
  EXPECT_EQ(load(folder.path("ckpt")), Found{});
  EXPECT_TRUE(list_checkpoints(folder.path("ckpt")).empty());
  EXPECT_TRUE(list_checkpoints(folder.path("nowhere")).empty());
}

TEST(Folder, WhatASaveLeaves) {
  ScratchFolder folder;
  std::string dir = folder.path("runs/a/ckpt");
  auto saved = save(dir, 20, 1);
  EXPECT_EQ(saved.path, dir + "/step-20");
  EXPECT_EQ(names(dir), (std::vector<std::string>{".lock", "latest", "step-20"}));
  EXPECT_EQ(names(dir + "/step-20"), (std::vector<std::string>{"manifest.json", "rank-0.safetensors"}));
  EXPECT_EQ(text_of(dir + "/latest"), "step-20\n");
  EXPECT_EQ(saved.bytes, static_cast<int64_t>(fs::file_size(dir + "/step-20/rank-0.safetensors")));
  auto rows = list_checkpoints(dir);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].step, 20);
  EXPECT_EQ(rows[0].tensors, 2);
  EXPECT_EQ(rows[0].elements, 21);
  EXPECT_EQ(rows[0].mesh, "[dp_replicate=1]");
  EXPECT_EQ(rows[0].certificate, "cert");
  EXPECT_EQ(rows[0].state_hash, saved.state_hash);
  EXPECT_TRUE(rows[0].newest);
  EXPECT_EQ(rows[0].problem, "");
  Manifest manifest = read_manifest(dir + "/step-20");
  EXPECT_EQ(manifest.config["lr"], 0.5);
  EXPECT_EQ(manifest.extra["best"], 1.25);
}

TEST(Folder, KeepsTheNewestN) {
  ScratchFolder folder;
  std::string dir = folder.path("ckpt");
  for (int64_t step = 1; step <= 6; ++step) save(dir, step * 10, static_cast<uint64_t>(step), 3);
  EXPECT_EQ(names(dir), (std::vector<std::string>{".lock", "latest", "step-40", "step-50", "step-60"}));
  save(dir, 70, 7, 0);  // keeps all
  EXPECT_EQ(names(dir).size(), 6u);
  save(dir, 80, 8, 1);
  EXPECT_EQ(names(dir), (std::vector<std::string>{".lock", "latest", "step-80"}));
  EXPECT_EQ(load(dir), (Found{80, 8}));
}

// A damaged one is neither counted among the N nor removed.
TEST(Folder, RetentionNeverCountsADamagedOne) {
  ScratchFolder folder;
  std::string dir = folder.path("ckpt");
  save(dir, 10, 1);
  save(dir, 20, 2);
  fs::resize_file(dir + "/step-20/rank-0.safetensors", 100);
  save(dir, 30, 3, 2);
  EXPECT_EQ(names(dir), (std::vector<std::string>{".lock", "latest", "step-10", "step-20", "step-30"}));
}

TEST(Folder, StaleLeftoversAreRemovedByTheNextSave) {
  ScratchFolder folder;
  std::string dir = folder.path("ckpt");
  save(dir, 10, 1);
  folder.write("ckpt/step-15.tmp/rank-0.safetensors", "half");
  folder.write("ckpt/latest.lockstep-draft", "x");
  folder.write("ckpt/latest.tmp", "step-10\n");  // of another version
  folder.write("ckpt/notes.tmp", "the user's own");
  fs::copy(dir + "/step-10", dir + "/step-10.old", fs::copy_options::recursive);
  save(dir, 20, 2);
  EXPECT_EQ(names(dir), (std::vector<std::string>{".lock", "latest", "notes.tmp", "step-10", "step-20"}));
  folder.write("ckpt/latest.tmp", "the user's own");
  save(dir, 30, 3);
  EXPECT_EQ(names(dir), (std::vector<std::string>{".lock", "latest", "latest.tmp", "notes.tmp", "step-10",
                                                  "step-20", "step-30"}));
}

// step-N set aside by a save that died between its two renames: readers see it, and the next save gives its
// name back.
TEST(Folder, AStepSetAsideStillCounts) {
  ScratchFolder folder;
  std::string dir = folder.path("ckpt");
  save(dir, 10, 1);
  save(dir, 20, 2);
  fs::rename(dir + "/step-20", dir + "/step-20.old");
  EXPECT_EQ(load(dir), (Found{20, 2}));
  save(dir, 30, 3);
  EXPECT_EQ(names(dir), (std::vector<std::string>{".lock", "latest", "step-10", "step-20", "step-30"}));
}

// Nobody's file is removed, and none hinders a save of the step whose names it has.
TEST(Folder, ForeignFilesStayAndHinderNoSave) {
  ScratchFolder folder;
  const std::string dir = folder.path("ckpt");
  save(dir, 10, 1);
  for (const char* file : {"step-10.old/thesis.txt", "step-10.tmp/notes.txt", "step-20.old", "latest.old",
                           "step-50.tmp", "step-20", "step-40.old/a/b"})
    folder.write(str("ckpt/", file), std::string("precious"));
  for (uint64_t state : {2, 3, 4}) {
    save(dir, 10, state);
    EXPECT_EQ(load(dir), (Found{10, state}));
  }
  for (uint64_t state : {5, 6}) {
    save(dir, 20, state);
    EXPECT_EQ(load(dir), (Found{20, state}));
  }
  save(dir, 40, 7);
  EXPECT_EQ(load(dir), (Found{40, 7}));
  fs::rename(dir + "/step-40", dir + "/step-40.old.1");  // as a save that died leaves it
  EXPECT_EQ(load(dir), (Found{40, 7}));
  save(dir, 50, 8);
  EXPECT_TRUE(fs::exists(dir + "/step-40/manifest.json"));
  int found = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dir))
    found +=
        entry.is_regular_file() && fs::file_size(entry.path()) == 8 && text_of(entry.path()) == "precious";
  EXPECT_EQ(found, 7);
  EXPECT_EQ(text_of(dir + "/step-50.tmp.foreign"), "precious");
}

TEST(Folder, FallsBackToTheNewestWholeOne) {
  for (int ranks : {1, 3}) {
    ScratchFolder folder;
    std::string dir = folder.path("ckpt");
    for (int64_t step = 1; step <= 4; ++step) save(dir, step * 10, static_cast<uint64_t>(step));
    flip_byte(dir + "/step-40/rank-0.safetensors",
              static_cast<int64_t>(fs::file_size(dir + "/step-40/rank-0.safetensors")) - 3);
    testing::internal::CaptureStderr();
    EXPECT_EQ(load(dir, ranks), (Found{30, 3}));
    std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("step-40 is damaged"), std::string::npos) << said;
    EXPECT_NE(said.find("rank-0.safetensors: tensor b"), std::string::npos) << said;
    EXPECT_NE(said.find("resuming from " + dir + "/step-30"), std::string::npos) << said;
    fs::remove(dir + "/step-30/manifest.json");
    EXPECT_EQ(load(dir, ranks), (Found{20, 2}));
    fs::remove(dir + "/step-20/rank-0.safetensors");
    EXPECT_EQ(load(dir, ranks), (Found{10, 1}));
    EXPECT_EQ(names(dir).size(), 6u) << "a load changes nothing";
  }
}

TEST(Folder, LatestThatNamesNothingIsReported) {
  ScratchFolder folder;
  std::string dir = folder.path("ckpt");
  save(dir, 10, 1);
  folder.write("ckpt/latest", "step-99\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(load(dir), (Found{10, 1}));
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("latest names step-99, which is not there"), std::string::npos) << said;
  fs::remove(dir + "/latest");
  EXPECT_EQ(load(dir), (Found{10, 1}));
}

// The same bits again: nothing is written. Other bits, or the same with a damaged file: replaced.
TEST(Folder, AStepSavedTwice) {
  ScratchFolder folder;
  std::string dir = folder.path("ckpt");
  save(dir, 10, 1);
  std::string before = text_of(dir + "/step-10/manifest.json");
  auto again = save(dir, 10, 1);
  EXPECT_TRUE(again.kept);
  EXPECT_GT(again.bytes, 0);
  EXPECT_EQ(text_of(dir + "/step-10/manifest.json"), before);
  auto other = save(dir, 10, 2);
  EXPECT_FALSE(other.kept);
  EXPECT_EQ(load(dir), (Found{10, 2}));
  for (const char* file : {"rank-0.safetensors", "manifest.json"}) {
    flip_byte(dir + "/step-10/" + file, 20);
    EXPECT_FALSE(verify_checkpoint(dir + "/step-10").empty());
    EXPECT_FALSE(save(dir, 10, 2).kept) << file;
    EXPECT_TRUE(verify_checkpoint(dir + "/step-10").empty());
  }
  EXPECT_EQ(names(dir), (std::vector<std::string>{".lock", "latest", "step-10"}));
}

// What both have alike is loaded, and the rest is told and stays as it was.
TEST(Folder, APartIsLoaded) {
  ScratchFolder folder;
  const std::string dir = folder.path("ckpt");
  save(dir, 10, 1);
  for (int ranks : {1, 3})
    distributed::local_mesh(ranks, Mesh{{ranks}, {"dp_shard"}}, [&](LiveMesh& live) {
      auto state_of = [&](const std::vector<StateSpec>& specs) {
        auto state = make_state(specs, live.words, live.rank, [](const StateSpec&) { return Layout(); });
        for (auto& array : state) fill(array, 7);
        return state;
      };
      auto state = state_of({{"w", DType::f32, {6, 3}}, {"b", DType::f32, {3}}, {"new", DType::f32, {2}}});
      LeftOut left;
      const auto loaded = load_newest({dir}, writable(state), live, any_storage(), "", &left);
      ASSERT_TRUE(loaded);
      EXPECT_EQ(loaded->step, 10);
      EXPECT_EQ(difference(state[0], 1), "");
      EXPECT_EQ(difference(state[1], 7), "");
      EXPECT_EQ(difference(state[2], 7), "");
      EXPECT_EQ(left.loaded, 1u);
      EXPECT_EQ(left.of_model, std::vector<std::string>{"new f32[2]"});
      EXPECT_TRUE(left.of_checkpoint.empty());
      EXPECT_EQ(left.other_type,
                std::vector<std::string>{"b bf16[3] in the checkpoint, f32[3] in the model"});
      auto fewer = state_of({{"w", DType::f32, {6, 3}}});
      ASSERT_TRUE(load_newest({dir}, writable(fewer), live, any_storage(), "", &left));
      EXPECT_EQ(left.of_checkpoint, std::vector<std::string>{"b bf16[3]"});
      auto other = state_of({{"x", DType::f32, {1}}});
      try {
        load_newest({dir}, writable(other), live, any_storage(), "", &left);
        ADD_FAILURE();
      } catch (const UserError& error) {
        EXPECT_EQ(
            std::string(error.what()),
            dir +
                "/step-10 has no tensor that the model has, too, of one type; the first of the model is "
                "x: load.partial wants at least one; name the checkpoint of a model like this one");
      }
    });
}

// A run taken back to step 10 with other settings: its small steps are newer than the large ones of before.
TEST(Folder, ARewoundRunIsNewerThanWhatItLeft) {
  ScratchFolder folder;
  std::string dir = folder.path("ckpt");
  for (int64_t step = 1; step <= 3; ++step) save(dir, step * 10, static_cast<uint64_t>(step));
  save(dir, 15, 5);
  EXPECT_EQ(load(dir), (Found{15, 5}));
  save(dir, 20, 6, 2);
  EXPECT_EQ(load(dir), (Found{20, 6}));
  EXPECT_EQ(names(dir), (std::vector<std::string>{".lock", "latest", "step-15", "step-20"}));
}

// A kill between the name of a checkpoint and `latest` leaves that of the one before: no reader follows it.
TEST(Folder, ReadersTakeTheNewestWholeStepWhateverLatestSays) {
  ScratchFolder folder;
  const std::string dir = folder.path("run/ckpt");
  auto newest = [&] { return last_part(newest_checkpoint(folder.path("run"))); };
  auto order = [&] {
    std::string out;
    for (const auto& row : newest_first(dir)) out += str(row.step, row.newest ? "! " : " ");
    return out;
  };
  save(dir, 10, 1), save(dir, 20, 2);
  folder.write("run/ckpt/latest", "step-10\n");
  EXPECT_EQ(load(dir), (Found{20, 2}));
  EXPECT_EQ(newest(), "step-20");
  EXPECT_EQ(order(), "20! 10 ");
  save(dir, 15, 5);  // of a run that went back
  EXPECT_EQ(load(dir), (Found{15, 5}));
  EXPECT_EQ(newest(), "step-15");
  EXPECT_EQ(order(), "15! 20 10 ");
  const auto listed = list_checkpoints(dir);
  ASSERT_EQ(listed.size(), 3u);
  EXPECT_EQ(listed[1].step, 15);
  EXPECT_TRUE(listed[1].newest);
  fs::remove(dir + "/step-15/rank-0.safetensors");
  EXPECT_EQ(newest(), "step-20");
  EXPECT_EQ(order(), "15 20! 10 ");
}

// Runs `work` in a child process; true when it ended with `code`.
template <class Work>
int in_child(Work work) {
  pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Folder, TwoJobsNeverWriteOneFolder) {
  ScratchFolder folder;
  std::string dir = folder.path("ckpt");
  auto lock = lock_checkpoints(dir);
  save(dir, 10, 1);  // the holder itself may
  std::string message = folder.path("message");
  auto other_job = [&] {
    try {
      save(dir, 20, 2);
    } catch (const UserError& e) {
      std::ofstream(message) << e.what();
      return 2;
    } catch (...) { return 3; }
    return 0;
  };
  // A second job knows nothing of the first one's lock, so the child drops its copy. That releases nothing:
  // the parent still holds it.
  EXPECT_EQ(in_child([&] {
              lock.reset();
              return other_job();
            }),
            2);
  std::string said = text_of(message);
  EXPECT_NE(said.find("is in use by process " + std::to_string(::getpid())), std::string::npos) << said;
  EXPECT_NE(said.find("two jobs never write one folder"), std::string::npos) << said;
  EXPECT_EQ(load(dir), (Found{10, 1}));
  lock.reset();
  EXPECT_EQ(in_child(other_job), 0);
  EXPECT_EQ(load(dir), (Found{20, 2}));
}

// A value that is not finite is named by its place in the whole tensor, on any layout, and reaches no
// checkpoint.
TEST(Folder, WhatIsNotFiniteIsNotSaved) {
  ScratchFolder scratch;
  const std::string dir = scratch.path("ckpt");
  save(dir, 1, 1);
  for (int ranks : {1, 2, 3})
    for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      std::vector<std::string> said(static_cast<size_t>(ranks));
      distributed::local_mesh(ranks, Mesh{{ranks}, {"dp_shard"}}, [&](LiveMesh& live) {
        const std::vector<StateSpec> specs{
            {"ids", DType::i64, {9}}, {"whole", dtype, {4}}, {"w", dtype, {6, 3}}};
        auto state = make_state(specs, live.words, live.rank, [](const StateSpec& spec) {
          Layout l;
          if (spec.fqn != "whole") l.set(0, Shard(0));
          return l;
        });
        for (auto& array : state) fill(array, 1);
        auto poison = [&](Array& array, int64_t at, double value) {
          for_each_element(array, [&](int64_t local, int64_t global) {
            if (global == at) set_double(array.dtype, array.data.data(), local, value);
          });
        };
        EXPECT_FALSE(find_nonfinite(readable(state), live));
        poison(state[2], 16, -std::numeric_limits<double>::infinity());
        poison(state[2], 7, std::numeric_limits<double>::quiet_NaN());
        try {
          save_checkpoint(dir, {2, {}, "cert", {}}, readable(state), live, 0);
        } catch (const NonFiniteError& error) { said[static_cast<size_t>(live.rank)] = error.what(); }
        poison(state[1], 3, std::numeric_limits<double>::infinity());
        EXPECT_EQ(find_nonfinite(readable(state), live)->text(),
                  "whole[3] is inf, and so are 2 more values of the state");
      });
      for (const auto& text : said)
        EXPECT_EQ(text, str("the state after step 2 is not saved: w[2,1] is nan, and so is 1 more value of "
                            "the state; the checkpoints in ",
                            dir, " are untouched"));
    }
  EXPECT_EQ(load(dir), (Found{1, 1}));
}

// One that an earlier version left is passed over; asked for by name it is loaded.
TEST(Folder, AnOldCheckpointThatIsNotFiniteIsPassedOver) {
  ScratchFolder scratch;
  const std::string dir = scratch.path("ckpt");
  save(dir, 1, 1);
  auto state = solo_state(kSpecs, 2);
  set_double(DType::f32, state[0].data.data(), 4, std::numeric_limits<double>::quiet_NaN());
  SaveInfo info{2, {}, "cert", {}};
  info.allow_nonfinite = true;
  save_checkpoint(dir, info, readable(state), solo_mesh(), 0);
  for (int ranks : {1, 2}) EXPECT_EQ(load(dir, ranks), (Found{1, 1}));
  auto again = solo_state(kSpecs, 3);
  load_checkpoint(dir + "/step-2", writable(again), solo_mesh());
  EXPECT_EQ(find_nonfinite(readable(again), solo_mesh())->text(), "w[1,1] is nan");
  fs::remove_all(dir + "/step-1");
  try {
    load(dir);
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("/step-2 holds values that are not finite: w[1,1] is nan"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace lockstep
