// Damaged and ill-fitting checkpoints and init files: each with its own words, and nothing changed on disk.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "checkpoint/checkpoint.h"
#include "checkpoint/format/damage.h"
#include "distributed/local/local_world.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/state_arrays.h"

namespace lockstep {

using namespace checkpoint;

namespace {

namespace fs = std::filesystem;

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const UserError& e) { return e.what(); } catch (const std::exception& e) {
    return str("not a UserError: ", e.what());
  }
  return "no error";
}
testing::AssertionResult says(const std::string& message, const std::string& words) {
  if (message.find(words) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << message << "\" does not say \"" << words << "\"";
}
#define EXPECT_SAYS(message, words) EXPECT_TRUE(says(message, words))

const std::vector<StateSpec> kSpecs{
    {"token.weight", DType::f32, {8, 4}}, {"norm.bias", DType::f32, {4}}, {"count", DType::i64, {}}};

void save(const std::string& dir, int ranks, int64_t step, uint64_t salt) {
  distributed::local_mesh(ranks, Mesh{{ranks}, {"dp_shard"}}, [&](LiveMesh& live) {
    auto state = make_state(kSpecs, live.words, live.rank, [](const StateSpec& s) {
      Layout l;
      if (!s.shape.empty()) l.set(0, Shard(0));
      return l;
    });
    for (auto& array : state) fill(array, salt);
    save_checkpoint(dir, {step, nullptr, "", nullptr}, readable(state), live, 0);
  });
}
std::string load_error(const std::string& step_dir, int ranks, const std::vector<StateSpec>& specs = kSpecs) {
  return error_of([&] {
    distributed::local_mesh(ranks, Mesh{{ranks}, {"dp_shard"}}, [&](LiveMesh& live) {
      auto state = make_state(specs, live.words, live.rank, [](const StateSpec& s) {
        Layout l;
        if (!s.shape.empty()) l.set(0, Shard(0));
        return l;
      });
      load_checkpoint(step_dir, writable(state), live);
    });
  });
}
std::string latest_error(const std::string& dir, const std::vector<StateSpec>& specs = kSpecs) {
  return error_of([&] {
    auto state = solo_state(specs, 0);
    load_latest(dir, writable(state), solo_mesh());
  });
}
void flip_byte(const std::string& path, int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(at);
  file.put(byte);
}

// Every byte of every data file, one bit flipped: an error that names the file and, for data, the tensor and
// the offsets of its chunk.
TEST(CheckpointErrors, EveryFlippedByteIsFound) {
  ScratchFolder folder;
  save(folder.path("ckpt"), 2, 20, 1);
  std::string step = folder.path("ckpt/step-20");
  Manifest manifest = read_manifest(step);
  ASSERT_EQ(manifest.files.size(), 2u);
  for (const auto& file : manifest.files)
    for (int64_t at = 0; at < file.bytes; at += at < file.header_bytes ? 17 : 1) {
      std::string path = step + "/" + file.name;
      flip_byte(path, at);
      std::string said = load_error(step, 1);
      EXPECT_SAYS(said, path);
      if (at < file.header_bytes) {
        EXPECT_SAYS(said, str("the header (bytes 0..", file.header_bytes, ") is damaged"));
      } else {
        for (const auto& tensor : manifest.tensors)
          for (const auto& chunk : tensor.chunks) {
            if (chunk.file != file.name || at < chunk.offset || at >= chunk.offset + chunk.bytes) continue;
            EXPECT_SAYS(said, str("tensor ", tensor.fqn, ", box ", text(chunk.box), ", bytes at offset ",
                                  chunk.offset, "..", chunk.offset + chunk.bytes, " are damaged"));
          }
      }
      EXPECT_EQ(verify_checkpoint(step).size(), 1u) << at;
      flip_byte(path, at);
    }
  EXPECT_EQ(load_error(step, 3), "no error");
}

// On several ranks all of them throw the same error, also those that read nothing of the damaged file.
TEST(CheckpointErrors, AllRanksThrow) {
  ScratchFolder folder;
  save(folder.path("ckpt"), 4, 20, 1);
  std::string step = folder.path("ckpt/step-20");
  flip_byte(step + "/rank-3.safetensors",
            static_cast<int64_t>(fs::file_size(step + "/rank-3.safetensors")) - 1);
  std::vector<std::string> said(4);
  distributed::local_mesh(4, Mesh{{4}, {"dp_shard"}}, [&](LiveMesh& live) {
    auto state = make_state(kSpecs, live.words, live.rank, [](const StateSpec& s) {
      Layout l;
      if (!s.shape.empty()) l.set(0, Shard(0));
      return l;
    });
    said[static_cast<size_t>(live.rank)] = error_of([&] { load_checkpoint(step, writable(state), live); });
  });
  EXPECT_SAYS(said[0], "rank ");
  EXPECT_SAYS(said[0], "/rank-3.safetensors: tensor ");
  for (const auto& text : said) EXPECT_EQ(text, said[0]);
}

TEST(CheckpointErrors, EachKindOfDamageHasItsWords) {
  ScratchFolder folder;
  std::string whole = folder.path("whole");
  save(whole, 2, 20, 1);
  int count = 0;
  auto damaged = [&](const std::function<void(const std::string& step)>& damage) {
    std::string dir = folder.path(str("d", count++));
    fs::copy(whole, dir, fs::copy_options::recursive);
    damage(dir + "/step-20");
    return load_error(dir + "/step-20", 2);
  };
  EXPECT_EQ(damaged([](const std::string&) {}), "no error");
  EXPECT_SAYS(damaged([](const std::string& s) {
                fs::resize_file(s + "/rank-1.safetensors", fs::file_size(s + "/rank-1.safetensors") - 1);
              }),
              "rank-1.safetensors is truncated: ");
  EXPECT_SAYS(damaged([](const std::string& s) { fs::resize_file(s + "/rank-1.safetensors", 0); }),
              "is truncated: 0 of ");
  EXPECT_SAYS(damaged([](const std::string& s) { fs::resize_file(s + "/rank-1.safetensors", 0); }),
              "; the first tensor concerned is ");
  EXPECT_SAYS(damaged([](const std::string& s) {
                fs::resize_file(s + "/rank-1.safetensors", fs::file_size(s + "/rank-1.safetensors") + 1);
              }),
              "rank-1.safetensors has grown: ");
  EXPECT_SAYS(damaged([](const std::string& s) { fs::remove(s + "/rank-0.safetensors"); }),
              "rank-0.safetensors is missing (");
  EXPECT_SAYS(damaged([](const std::string& s) { fs::remove(s + "/manifest.json"); }),
              "step-20 has no manifest.json");
  EXPECT_SAYS(damaged([](const std::string& s) { fs::resize_file(s + "/manifest.json", 0); }),
              "manifest.json is empty");
  EXPECT_SAYS(damaged([](const std::string& s) { fs::resize_file(s + "/manifest.json", 200); }),
              "this is not JSON");
  EXPECT_SAYS(damaged([](const std::string& s) { fs::remove_all(s); }), "step-20 does not exist");
  EXPECT_SAYS(damaged([](const std::string& s) {
                fs::rename(s + "/rank-0.safetensors", s + "/x");
                fs::rename(s + "/rank-1.safetensors", s + "/rank-0.safetensors");
                fs::rename(s + "/x", s + "/rank-1.safetensors");
              }),
              "rank-");
  // A state hash that the tensors do not give, under a checksum that fits.
  EXPECT_SAYS(damaged([](const std::string& s) {
                Manifest manifest = read_manifest(s);
                manifest.state_hash = std::string(32, '0');
                std::ofstream(s + "/manifest.json") << to_text(manifest);
              }),
              "the state hash is 00000000000000000000000000000000, but the tensors give ");
}

TEST(CheckpointErrors, StrayFilesAreToldApart) {
  ScratchFolder folder;
  save(folder.path("ckpt"), 1, 20, 1);
  folder.write("ckpt/step-20/core.123", "x");
  testing::internal::CaptureStderr();
  EXPECT_EQ(load_error(folder.path("ckpt/step-20"), 1), "no error");
  EXPECT_SAYS(testing::internal::GetCapturedStderr(),
              "core.123 is not part of the checkpoint and is ignored");
  auto problems = verify_checkpoint(folder.path("ckpt/step-20"));
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_SAYS(problems[0], "core.123 is a stray file: the manifest does not list it");
}

TEST(CheckpointErrors, NothingWholeIsLeft) {
  ScratchFolder folder;
  std::string dir = folder.path("ckpt");
  save(dir, 1, 10, 1);
  save(dir, 1, 20, 2);
  save(dir, 1, 30, 3);
  flip_byte(dir + "/step-30/rank-0.safetensors",
            static_cast<int64_t>(fs::file_size(dir + "/step-30/rank-0.safetensors")) - 1);
  fs::remove(dir + "/step-20/rank-0.safetensors");
  fs::remove(dir + "/step-10/manifest.json");
  std::string said = latest_error(dir);
  EXPECT_SAYS(said, "holds 3 checkpoints and none is whole; nothing was changed:");
  EXPECT_SAYS(said, "step-30/rank-0.safetensors: tensor ");
  EXPECT_SAYS(said, "step-20/rank-0.safetensors is missing");
  EXPECT_SAYS(said, "step-10 has no manifest.json");
  EXPECT_SAYS(said, "restore the files, or start afresh under another --name");
  EXPECT_TRUE(fs::exists(dir + "/step-30/rank-0.safetensors") && fs::exists(dir + "/step-20/manifest.json"));
}

TEST(CheckpointErrors, ANameThatIsNotItsStep) {
  ScratchFolder folder;
  save(folder.path("ckpt"), 1, 20, 1);
  fs::rename(folder.path("ckpt/step-20"), folder.path("ckpt/step-30"));
  auto rows = list_checkpoints(folder.path("ckpt"));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_SAYS(rows[0].problem, "is of step 20, but the folder is named step-30");
}

// Another model: refused with every difference, and without falling back to an older checkpoint.
TEST(CheckpointErrors, AnotherModelIsRefusedWithTheDifferences) {
  ScratchFolder folder;
  std::string dir = folder.path("ckpt");
  save(dir, 1, 10, 1);
  save(dir, 2, 20, 2);
  std::vector<StateSpec> other{{"token.weight", DType::f32, {9, 4}},
                               {"norm.biass", DType::f32, {4}},
                               {"count", DType::i32, {}},
                               {"head.weight", DType::bf16, {2}}};
  for (const std::string& said : {load_error(dir + "/step-20", 1, other),
                                  load_error(dir + "/step-20", 2, other), latest_error(dir, other)}) {
    EXPECT_SAYS(said, "step-20 does not fit the model: 2 missing, 1 extra, 2 of another shape or dtype");
    EXPECT_SAYS(said, "missing: norm.biass f32[4]; nearest in " + dir + "/step-20: norm.bias");
    EXPECT_SAYS(said, "missing: head.weight bf16[2]");
    EXPECT_SAYS(said, "extra: norm.bias f32[4]; nearest in the model: norm.biass");
    EXPECT_SAYS(said, "differs: token.weight is f32[8,4] in " + dir + "/step-20 and f32[9,4] in the model");
    EXPECT_SAYS(said, "differs: count is i64[] in " + dir + "/step-20 and i32[] in the model");
    EXPECT_SAYS(said, "use its config, or another --name");
  }
}

TEST(CheckpointErrors, ANewerFormatIsNotSkipped) {
  ScratchFolder folder;
  std::string dir = folder.path("ckpt");
  save(dir, 1, 10, 1);
  save(dir, 1, 20, 2);
  std::ifstream in(dir + "/step-20/manifest.json");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  text.replace(text.find("\"format\": 1"), 11, "\"format\": 9");
  std::ofstream(dir + "/step-20/manifest.json") << text;
  EXPECT_SAYS(latest_error(dir), "written by a newer Lockstep (\"lockstep 0.1.0\"): format 9");
  EXPECT_SAYS(error_of([&] { save(dir, 1, 20, 3); }), "written by a newer Lockstep");
}

TEST(CheckpointErrors, ReadTensor) {
  ScratchFolder folder;
  save(folder.path("ckpt"), 3, 20, 1);
  std::string step = folder.path("ckpt/step-20");
  EXPECT_EQ(difference(read_tensor(step, "token.weight"), 1), "");
  EXPECT_SAYS(error_of([&] { read_tensor(step, "token.weigth"); }),
              "step-20 has no tensor \"token.weigth\"; nearest: token.weight");
  EXPECT_SAYS(error_of([&] { read_tensor(step, "zzzzzzzzzzzzzzzzzzzzzzzzzzzz"); }), "it has 3 others");
  flip_byte(step + "/rank-1.safetensors",
            static_cast<int64_t>(fs::file_size(step + "/rank-1.safetensors")) - 1);
  std::string file, said = error_of([&] {
                      for (const auto& spec : kSpecs) read_tensor(step, spec.fqn);
                    });
  EXPECT_SAYS(said, "are damaged: checksum ");
}

TEST(CheckpointErrors, InitFile) {
  ScratchFolder folder;
  save(folder.path("ckpt"), 1, 0, 1);
  std::string file = folder.path("ckpt/step-0/rank-0.safetensors");
  auto init_error = [](const std::string& path, const std::vector<StateSpec>& specs) {
    return error_of([&] {
      auto state = solo_state(specs, 0);
      load_safetensors(path, writable(state), solo_mesh());
    });
  };
  EXPECT_EQ(init_error(file, kSpecs), "no error");
  std::string said = init_error(file, {{"token.weight", DType::f32, {8, 5}},
                                       {"norm.bias", DType::bf16, {4}},
                                       {"norm.weight", DType::f32, {4}}});
  EXPECT_SAYS(said, file + " does not fit the model: 1 missing, 1 extra, 2 of another shape or dtype");
  EXPECT_SAYS(said, "missing: norm.weight f32[4]; nearest in " + file + ": token.weight");
  EXPECT_SAYS(said, "extra: count i64[]");
  EXPECT_SAYS(said, "differs: token.weight is f32[8,4] in " + file + " and f32[8,5] in the model");
  EXPECT_SAYS(said, "differs: norm.bias is f32[4] in " + file + " and bf16[4] in the model");
  EXPECT_SAYS(init_error(folder.path("none.safetensors"), kSpecs),
              "cannot open " + folder.path("none.safetensors") + ": No such file or directory");
  fs::resize_file(file, fs::file_size(file) - 3);
  EXPECT_SAYS(init_error(file, kSpecs), "truncated, or a wrong offset");
  EXPECT_SAYS(init_error(folder.write("text.safetensors", "hello"), kSpecs),
              "is not a safetensors file: it has 5 bytes");
}

}  // namespace
}  // namespace lockstep
