// The cases.
#include "tests/conformance/storage_conformance.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <stdexcept>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "checkpoint/format/damage.h"
#include "checkpoint/tools/prune.h"
#include "checkpoint/tools/transform.h"
#include "distributed/local/local_world.h"
#include "tests/support/breaking_storage.h"
#include "tests/support/state_arrays.h"

namespace lockstep::conformance {

using namespace checkpoint;

namespace {
template <class... Parts>
void expect(bool good, const Parts&... what) {
  if (!good) throw std::runtime_error(str(what...));
}
template <class A, class B>
void same(const A& is, const B& should, const std::string& what) {
  expect(is == should, what, " is ", is, ", not ", should);
}
// The errno of the StorageError that `work` throws; its words name `path`.
int code_of(const std::string& path, const std::function<void()>& work) {
  try {
    work();
  } catch (const StorageError& error) {
    expect(std::string(error.what()).find(path) != std::string::npos, "the error does not name ", path, ": ",
           error.what());
    return error.code;
  }
  throw std::runtime_error("no StorageError of " + path);
}

std::string pattern(size_t bytes) {
  std::string out(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(i * 2654435761u >> 13);
  return out;
}
std::string whole_text(Storage& storage, const std::string& path) {
  return read_text(storage, path, 1 << 28);
}
std::string names(Storage& storage, const std::string& folder) {
  std::string out;
  for (const auto& entry : storage.list(folder)) out += entry.name + (entry.folder ? "/ " : " ");
  return out;
}

void files_of_all_sizes(Storage& storage, const std::string& folder) {
  storage.make_folders(folder);
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{4097}, size_t{1} << 20, (size_t{22} << 20) + 5}) {
    const std::string path = folder + "/f", text = pattern(bytes);
    auto out = storage.create(path);
    for (size_t at = 0; at < bytes; at += 3 << 20)
      out->write(text.data() + at, std::min<size_t>(3 << 20, bytes - at));
    same(out->bytes(), static_cast<int64_t>(bytes), "bytes() of a file that is written");
    out->sync();
    out->close();
    auto in = storage.open(path);
    same(in->bytes(), static_cast<int64_t>(bytes), "bytes() of a file that is read");
    expect(whole_text(storage, path) == text, "a file of ", bytes, " bytes does not read back");
    if (bytes < 4) continue;
    std::string part(2, ' ');
    in->read(static_cast<int64_t>(bytes) - 3, part.data(), 2);
    expect(part == text.substr(bytes - 3, 2), "a part of ", bytes, " bytes does not read back");
    const int code = code_of(path, [&] { in->read(static_cast<int64_t>(bytes) - 1, part.data(), 2); });
    same(code, EIO, "a read behind the end");
  }
}

// A file that is expected to have more bytes than are written has those that are.
void a_file_that_is_expected(Storage& storage, const std::string& folder) {
  storage.make_folders(folder);
  const std::string path = folder + "/f", text = pattern(100'000);
  for (const int64_t expected : {int64_t{0}, int64_t{100'000}, int64_t{5} << 20, int64_t{1} << 60}) {
    auto out = storage.create(path);
    out->expect(expected);
    same(out->bytes(), int64_t{0}, "bytes() of a file that is expected");
    out->write(text.data(), text.size());
    same(out->bytes(), static_cast<int64_t>(text.size()), "bytes() of a file that is written");
    out->sync();
    out->close();
    same(storage.open(path)->bytes(), static_cast<int64_t>(text.size()), "bytes() of a file that is read");
    expect(whole_text(storage, path) == text, "a file that was expected does not read back");
  }
}

void a_file_replaces_another(Storage& storage, const std::string& folder) {
  storage.make_folders(folder);
  for (const char* text : {"long, the first", "short"}) write_text(storage, folder + "/f", text);
  same(whole_text(storage, folder + "/f"), "short", "what was written last");
  { storage.create(folder + "/f")->write("half", 4); }  // neither synced nor closed
  if (storage.commit(folder) == Commit::manifest_last)
    same(whole_text(storage, folder + "/f"), "short", "a file whose successor was never closed");
}

void what_is_not_there(Storage& storage, const std::string& folder) {
  storage.make_folders(folder);
  write_text(storage, folder + "/f", "x");
  const std::string none = folder + "/none";
  expect(!storage.exists(none), "exists() of nothing");
  same(code_of(none, [&] { storage.open(none); }), ENOENT, "open of nothing");
  same(code_of(none, [&] { storage.list(none); }), ENOENT, "list of nothing");
  expect(storage.exists(folder + "/f") && storage.exists(folder), "exists() of a file and its folder");
  expect(!storage.exists(folder + "/"
                                  "g") &&
             !storage.exists(folder.substr(0, folder.size() - 1)),
         "exists() of the beginning of a name");
}

void folders(Storage& storage, const std::string& folder) {
  for (const char* name : {"a", "a b+c&d=e%41", "step-1", "step-10", "step-1.tmp"}) {
    storage.make_folders(folder + "/" + name);
    write_text(storage, folder + "/" + name + "/x", name);
  }
  write_text(storage, folder + "/step-1x", "a file");
  same(names(storage, folder), "a/ a b+c&d=e%41/ step-1/ step-1.tmp/ step-10/ step-1x ", "a list");
  same(whole_text(storage, folder + "/a b+c&d=e%41/x"), "a b+c&d=e%41", "a file of an odd name");
  remove_folder(storage, folder + "/step-1");
  same(names(storage, folder), "a/ a b+c&d=e%41/ step-1.tmp/ step-10/ step-1x ", "a list after a removal");
  storage.remove(folder + "/step-1x");
  expect(!storage.exists(folder + "/step-1x") && !storage.exists(folder + "/step-1"), "removed and there");
  if (storage.commit(folder) == Commit::rename) {
    storage.rename(folder + "/step-10", folder + "/step-11");
    storage.sync_folder(folder);
    same(whole_text(storage, folder + "/step-11/x"), "step-10", "a file of a folder that was renamed");
    expect(!storage.exists(folder + "/step-10"), "the old name is there");
  } else {
    same(code_of(folder + "/a", [&] { storage.rename(folder + "/a", folder + "/b"); }), ENOTSUP, "rename");
  }
}

void a_list_of_many(Storage& storage, const std::string& folder) {
  storage.make_folders(folder);
  constexpr int kMany = 1103;
  std::atomic<int> next{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i; (i = next++) < kMany;) write_text(storage, str(folder, "/f", 10000 + i), "");
    });
  for (auto& thread : threads) thread.join();
  const auto found = storage.list(folder);
  same(found.size(), size_t{kMany}, "the length of a list");
  for (int i = 0; i < kMany; ++i) same(found[i].name, str("f", 10000 + i), "a name of a list");
}

void many_readers(Storage& storage, const std::string& folder) {
  storage.make_folders(folder);
  const std::string text = pattern(1 << 20);
  write_text(storage, folder + "/f", text);
  auto file = storage.open(folder + "/f");
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::string part(70001, ' ');
      for (int i = 0; i < 8; ++i) {
        const int64_t at = (t * 8 + i) * 29000;
        file->read(at, part.data(), part.size());
        wrong += part != text.substr(static_cast<size_t>(at), part.size());
      }
    });
  for (auto& thread : threads) thread.join();
  same(wrong.load(), 0, "wrong reads beside one another");
}

void a_lock(Storage& storage, const std::string& folder) {
  auto first = lock_checkpoints(folder, storage);
  first->check();
  expect(storage.lock(folder) == first, "a process gets its own lock again");
  first = nullptr;
  storage.lock(folder)->check();
}

// Whole checkpoints.
const std::vector<StateSpec> kSpecs{
    {"w", DType::f32, {6, 3}}, {"b", DType::bf16, {3}}, {"s", DType::f32, {}}};

std::vector<Array> state_on(const LiveMesh& live) {
  return make_state(kSpecs, live.words, live.rank, [](const StateSpec& spec) {
    Layout out;
    if (spec.fqn == "w") out.set(0, Shard(0));
    return out;
  });
}
void save(Storage& storage, const std::string& dir, int ranks, int64_t step, uint64_t salt, int keep = 0) {
  distributed::local_mesh(ranks, Mesh{{ranks}, {"dp_shard"}}, [&](LiveMesh& live) {
    auto state = state_on(live);
    for (auto& array : state) fill(array, salt);
    save_checkpoint(dir, {step, nullptr, "", nullptr}, readable(state), live, keep, storage);
  });
}
// "STEP of SALT" of what is loaded; the salt "?" where the elements are of none.
std::string loaded(Storage& storage, const std::string& dir) {
  LiveMesh live = solo_mesh();
  auto state = state_on(live);
  const auto found = load_latest(dir, writable(state), live, storage);
  if (!found) return "nothing";
  for (uint64_t salt = 0; salt < 10; ++salt)
    if (difference(state, salt).empty()) return str(found->step, " of ", salt);
  return str(found->step, " of ?");
}
void expect_whole(Storage& storage, const std::string& dir, const std::string& where) {
  for (const auto& row : list_checkpoints(dir, storage)) {
    expect(row.problem.empty(), where, ": ", row.path, ": ", row.problem);
    const auto problems = verify_checkpoint(row.path, storage);
    expect(problems.empty(), where, ": ", problems.empty() ? "" : problems[0]);
  }
}

void checkpoints(Storage& storage, const std::string& folder) {
  const std::string dir = folder + "/run/ckpt";
  same(loaded(storage, dir), "nothing", "a folder that is not there");
  for (int64_t step = 1; step <= 4; ++step) save(storage, dir, 3, step * 10, static_cast<uint64_t>(step), 3);
  same(loaded(storage, dir), "40 of 4", "the newest");
  same(list_checkpoints(dir, storage).size(), size_t{3}, "checkpoints that are kept");
  save(storage, dir, 2, 30, 7);  // other bits under a name that is taken, by fewer ranks
  same(loaded(storage, dir), "30 of 7", "a step that was saved again");
  save(storage, dir, 2, 30, 8);
  same(loaded(storage, dir), "30 of 8", "and again");
  expect_whole(storage, dir, "after replacing");
  same(newest_checkpoint(folder + "/run", storage), dir + "/step-30", "the newest by name");
  same(read_text(storage, dir + "/latest", 100), "step-30\n", "latest");
  const auto gone = prune_checkpoints(dir, {.keep = 1}, storage);
  same(gone.size(), size_t{3}, "checkpoints that pruning looked at");
  same(loaded(storage, dir), "30 of 8", "what pruning leaves");
  const Mesh four{{4}, {"dp_shard"}};
  const auto made = reshard_checkpoint(
      dir + "/step-30", folder + "/made/ckpt", four,
      [&](const TensorRecord& tensor) { return layout_by_rows(tensor, four); }, storage, storage);
  same(made.path, folder + "/made/ckpt/step-30", "what was resharded");
  same(loaded(storage, folder + "/made/ckpt"), "30 of 8", "what was resharded");
  expect_whole(storage, folder + "/made/ckpt", "resharded");
}

// Blocks large and small: where a file may be written anywhere several threads write it, else one does, in
// order.
void a_checkpoint_of_many_blocks(Storage& storage, const std::string& folder) {
  const std::vector<StateSpec> specs{
      {"a", DType::f32, {3, 1 << 20}}, {"b", DType::f32, {300'000}}, {"c", DType::bf16, {31}}};
  const auto state = solo_state(specs, 3);
  const LiveMesh live = solo_mesh();
  const SavedInfo saved =
      save_checkpoint(folder, {10, nullptr, "", nullptr}, readable(state), live, 1, storage);
  same(saved.state_hash, state_hash(readable(state), live), "the hash of what was saved");
  auto again = solo_state(specs, 4);
  load_checkpoint(saved.path, writable(again), live, storage);
  same(difference(again, 3), "", "what was loaded");
  expect_whole(storage, folder, "many blocks");
}

// A damaged chunk, and a manifest that was removed.
void damage(Storage& storage, const std::string& folder) {
  save(storage, folder, 1, 10, 1), save(storage, folder, 1, 20, 2), save(storage, folder, 1, 30, 3);
  const std::string file = folder + "/step-30/rank-0.safetensors";
  std::string bytes = whole_text(storage, file);
  bytes[bytes.size() - 2] ^= 1;
  write_text(storage, file, bytes);
  same(loaded(storage, folder), "20 of 2", "what is loaded beside damage");
  expect(!verify_checkpoint(folder + "/step-30", storage).empty(), "damage that is not found");
  storage.remove(folder + "/step-20/manifest.json");
  same(loaded(storage, folder), "10 of 1", "what is loaded without a manifest");
}

struct Scene {
  const char* what;
  std::vector<std::pair<int64_t, uint64_t>> before;
  int64_t step;
  int keep;
};
const Scene kScenes[] = {{"the first save", {}, 10, 3},
                         {"the next save", {{10, 1}}, 20, 3},
                         {"a step with other bits", {{10, 1}, {20, 2}}, 20, 3},
                         {"the only step with other bits", {{20, 2}}, 20, 1},
                         {"the save that removes old ones", {{10, 1}, {20, 2}}, 30, 1}};

// The process ends before operation k, for each k: what is loaded is the old state or the new one.
void an_end_at_every_operation(Storage& storage, const std::string& folder) {
  for (const Scene& scene : kScenes)
    for (int64_t k = 0;; ++k) {
      const std::string dir = str(folder, "/", &scene - kScenes, "-", k);
      std::string old = "nothing";
      for (auto [step, salt] : scene.before) save(storage, dir, 1, step, salt), old = str(step, " of ", salt);
      BreakingStorage breaking(storage);
      breaking.end_at = k;
      bool ended = false;
      try {
        save(breaking, dir, 1, scene.step, 9, scene.keep);
      } catch (const BreakingStorage::Ended&) { ended = true; }
      const std::string where = str(scene.what, ", an end after ", breaking.last());
      const std::string found = loaded(storage, dir), fresh = str(scene.step, " of 9");
      expect(found == old || found == fresh, where, ": ", found, " is loaded; it was ", old);
      expect_whole(storage, dir, where);
      if (!ended) {
        same(found, fresh, where);
        break;
      }
      save(storage, dir, 1, scene.step, 9, scene.keep);
      same(loaded(storage, dir), fresh, where + ", saved again");
      expect_whole(storage, dir, where + ", saved again");
      for (const auto& entry : storage.list(dir))
        expect(!entry.name.ends_with(".tmp") && !entry.name.ends_with(".old"), where, " leaves ", entry.name);
    }
}

// Operation k fails: the save says so and the old state stays, or it goes well; the next one goes well.
void a_failure_at_every_operation(Storage& storage, const std::string& folder) {
  for (const Scene& scene : kScenes)
    for (int64_t k = 0;; ++k) {
      const std::string dir = str(folder, "/", &scene - kScenes, "-", k);
      std::string old = "nothing";
      for (auto [step, salt] : scene.before) save(storage, dir, 2, step, salt), old = str(step, " of ", salt);
      BreakingStorage breaking(storage);
      breaking.fail_at = k;
      bool failed = false;
      try {
        save(breaking, dir, 2, scene.step, 9, scene.keep);
      } catch (const NotSaved&) { failed = true; }
      const std::string where = str(scene.what, ", a failure of operation ", k);
      const std::string found = loaded(storage, dir), fresh = str(scene.step, " of 9");
      expect(failed ? found == old || found == fresh : found == fresh, where, ": ", found, " is loaded");
      if (k >= breaking.operations()) break;
      save(breaking, dir, 2, scene.step, 9, scene.keep);
      same(loaded(storage, dir), fresh, where + ", saved again");
      expect_whole(storage, dir, where + ", saved again");
    }
}
}  // namespace

std::vector<StorageCase> storage_cases() {
  return {{"files_of_all_sizes", files_of_all_sizes},
          {"a_file_that_is_expected", a_file_that_is_expected},
          {"a_file_replaces_another", a_file_replaces_another},
          {"what_is_not_there", what_is_not_there},
          {"folders", folders},
          {"a_list_of_many", a_list_of_many},
          {"many_readers", many_readers},
          {"a_lock", a_lock},
          {"checkpoints", checkpoints},
          {"a_checkpoint_of_many_blocks", a_checkpoint_of_many_blocks},
          {"damage", damage},
          {"an_end_at_every_operation", an_end_at_every_operation},
          {"a_failure_at_every_operation", a_failure_at_every_operation}};
}

}  // namespace lockstep::conformance
