// Datasets: streams, samples, order, splits and fingerprints, all exact.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <thread>

#include "core/base/text.h"
#include "launcher/data/dataset.h"
#include "launcher/data/scan.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::data {
namespace {

// tokens 0, 1, 2, ... so that a token is its own position.
std::vector<uint16_t> counting(int64_t count) {
  std::vector<uint16_t> out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), uint16_t{0});
  return out;
}

struct Samples {
  std::vector<int32_t> ids, targets;
};
Samples fill(const Dataset& data, int64_t context, int64_t step, int64_t global, int64_t first,
             int64_t count) {
  Samples out{std::vector<int32_t>(static_cast<size_t>(count * context)),
              std::vector<int32_t>(static_cast<size_t>(count * context))};
  data.fill(step, global, first, count, out.ids.data(), out.targets.data());
  return out;
}

DataOptions tokens_of(const std::string& path, int64_t context) {
  return {.kind = "tokens", .paths = {path}, .order = "sequential", .vocab = 65536, .context = context};
}

TEST(Dataset, sequential_sample_starts_at_its_global_index_times_context) {
  ScratchFolder folder;
  Dataset data(tokens_of(folder.write("t.bin", counting(20 * 8 * 5 + 1)), 5));
  ASSERT_EQ(data.sequences(), 160);
  EXPECT_EQ(data.tokens(), 801);
  EXPECT_EQ(data.validation_sequences(), 0);
  for (int64_t step = 0; step < 20; ++step) {
    Samples s = fill(data, 5, step, 8, 0, 8);
    for (int64_t i = 0; i < 8; ++i)
      for (int64_t k = 0; k < 5; ++k) {
        EXPECT_EQ(s.ids[static_cast<size_t>(i * 5 + k)], (step * 8 + i) * 5 + k);
        EXPECT_EQ(s.targets[static_cast<size_t>(i * 5 + k)], (step * 8 + i) * 5 + k + 1);
      }
  }
}

TEST(Dataset, sequential_wraps_to_token_0_when_less_than_a_sequence_is_left) {
  ScratchFolder folder;
  for (int64_t tokens : {16, 17, 18, 19, 20}) {  // 15 used + 1 target: always 3 sequences of 5
    Dataset data(tokens_of(folder.write("t.bin", counting(tokens)), 5));
    ASSERT_EQ(data.sequences(), 3);
    Samples s = fill(data, 5, 1, 2, 0, 2);  // global samples 2 and 3
    EXPECT_EQ(s.ids[0], 10);
    EXPECT_EQ(s.targets[4], 15);
    EXPECT_EQ(s.ids[5], 0);
    EXPECT_EQ(s.targets[9], 5);
  }
  Dataset one(tokens_of(folder.write("t.bin", counting(21)), 5));
  EXPECT_EQ(one.sequences(), 4);
}

TEST(Dataset, shortest_stream_is_context_plus_one_tokens) {
  ScratchFolder folder;
  Dataset data(tokens_of(folder.write("t.bin", counting(8)), 7));
  EXPECT_EQ(data.sequences(), 1);
  Samples s = fill(data, 7, 1000000, 3, 1, 2);
  for (int32_t k = 0; k < 7; ++k) {
    EXPECT_EQ(s.ids[static_cast<size_t>(k)], k);
    EXPECT_EQ(s.targets[static_cast<size_t>(7 + k)], k + 1);
  }
}

TEST(Dataset, shuffle_reads_every_sequence_once_per_epoch_and_epochs_differ) {
  ScratchFolder folder;
  DataOptions options = tokens_of(folder.write("t.bin", counting(3 * 101 + 1)), 3);
  options.order = "shuffle";
  options.seed = 7;
  Dataset data(options);
  ASSERT_EQ(data.sequences(), 101);
  std::vector<std::vector<int32_t>> epochs(3);
  for (int64_t g = 0; g < 303; ++g) {  // steps of 4, so that steps straddle epochs
    Samples s = fill(data, 3, g / 4, 4, g % 4, 1);
    EXPECT_EQ(s.ids[0] % 3, 0);
    EXPECT_EQ(s.targets[2], s.ids[0] + 3);
    epochs[static_cast<size_t>(g / 101)].push_back(s.ids[0] / 3);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  for (auto& epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    for (int32_t i = 0; i < 101; ++i) EXPECT_EQ(epoch[static_cast<size_t>(i)], i);
  }
}

TEST(Dataset, samples_do_not_depend_on_how_a_step_is_divided) {
  ScratchFolder folder;
  DataOptions options = tokens_of(folder.write("t.bin", counting(1000)), 9);
  options.order = "shuffle";
  Dataset data(options);
  Samples whole = fill(data, 9, 17, 12, 0, 12);
  for (int64_t ranks : {1, 2, 3, 4, 12}) {
    Samples parts;
    for (int64_t r = 0; r < ranks; ++r) {
      Samples part = fill(data, 9, 17, 12, r * 12 / ranks, 12 / ranks);
      parts.ids.insert(parts.ids.end(), part.ids.begin(), part.ids.end());
      parts.targets.insert(parts.targets.end(), part.targets.begin(), part.targets.end());
    }
    EXPECT_EQ(parts.ids, whole.ids) << ranks;
    EXPECT_EQ(parts.targets, whole.targets) << ranks;
  }
  EXPECT_EQ(fill(data, 9, 0, 34, 17 * 2, 0).ids.size(), 0u);
  EXPECT_EQ(fill(data, 9, 1, 204, 0, 12).ids,
            whole.ids);  // the same global indices under another global batch
}

TEST(Dataset, streams_join_the_parts_of_the_files) {
  ScratchFolder folder;
  folder.write("d/b.txt", "BBBBBBBBBB");     // 10: 8 + 2
  folder.write("d/a.txt", "abcdefghijklm");  // 13: 10 + 3 (2.6 rounded)
  folder.write("d/c/x.txt", "z");            // 1: 1 + 0
  DataOptions options{.paths = {folder.path("d")}, .order = "sequential", .validation = 0.2, .context = 4};
  Dataset data(options);
  EXPECT_EQ(data.tokens(), 19);
  EXPECT_EQ(data.validation_tokens(), 5);
  Samples s = fill(data, 4, 0, 4, 0, 4);
  EXPECT_EQ(std::string(s.ids.begin(), s.ids.end()), "abcdefghijBBBBBB");
  EXPECT_EQ(std::string(s.targets.begin(), s.targets.end()), "bcdefghijBBBBBBB");
  ASSERT_EQ(data.validation_sequences(), 1);
  std::vector<int32_t> ids(4), targets(4);
  data.fill_validation(0, 1, ids.data(), targets.data());
  EXPECT_EQ(std::string(ids.begin(), ids.end()), "klmB");
  EXPECT_EQ(std::string(targets.begin(), targets.end()), "lmBB");
}

TEST(Dataset, bytes_above_127_are_tokens_above_127) {
  ScratchFolder folder;
  Dataset data({.paths = {folder.write("t.txt", "\xff\x80\xe4 ok")}, .order = "sequential", .context = 3});
  Samples s = fill(data, 3, 0, 1, 0, 1);
  EXPECT_EQ(s.ids, (std::vector<int32_t>{255, 128, 228}));
  EXPECT_EQ(s.targets, (std::vector<int32_t>{128, 228, 32}));
}

TEST(Dataset, uint32_tokens_and_the_header_format) {
  ScratchFolder folder;
  DataOptions wide = tokens_of(folder.write("wide.bin", std::vector<uint32_t>{70000, 1, 2, 99999, 5}), 2);
  wide.dtype = "uint32";
  wide.vocab = 100000;
  Samples s = fill(Dataset(wide), 2, 0, 2, 0, 2);
  EXPECT_EQ(s.ids, (std::vector<int32_t>{70000, 1, 2, 99999}));
  EXPECT_EQ(s.targets, (std::vector<int32_t>{1, 2, 99999, 5}));

  std::vector<int32_t> header(256, 0);
  header[0] = 20240520, header[1] = 1, header[2] = 7;
  std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
  std::vector<uint16_t> tokens{9, 8, 7, 6, 5, 4, 65535};
  bytes.append(reinterpret_cast<const char*>(tokens.data()), 14);
  Dataset data(tokens_of(folder.write("h.bin", bytes), 3));
  EXPECT_EQ(data.tokens(), 7);
  s = fill(data, 3, 0, 2, 0, 2);
  EXPECT_EQ(s.ids, (std::vector<int32_t>{9, 8, 7, 6, 5, 4}));
  EXPECT_EQ(s.targets, (std::vector<int32_t>{8, 7, 6, 5, 4, 65535}));
}

TEST(Dataset, file_on_disk_reads_like_one_in_memory) {
  ScratchFolder folder;
  const int64_t tokens = 700001;  // 1.4 MB: not kept in memory
  std::vector<uint16_t> values(static_cast<size_t>(tokens));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(i * 40503u >> 3);
  Dataset data(tokens_of(folder.write("t.bin", values), 100));
  ASSERT_EQ(data.sequences(), 7000);
  for (int64_t g : {int64_t{0}, int64_t{1}, int64_t{3333}, int64_t{6999}, int64_t{7000}}) {
    Samples s = fill(data, 100, g, 1, 0, 1);
    for (int64_t k = 0; k < 100; ++k) {
      EXPECT_EQ(s.ids[static_cast<size_t>(k)], values[static_cast<size_t>(g % 7000 * 100 + k)]);
      EXPECT_EQ(s.targets[static_cast<size_t>(k)], values[static_cast<size_t>(g % 7000 * 100 + k + 1)]);
    }
  }
}

TEST(Dataset, fingerprint_follows_content_and_names_but_not_the_folder) {
  ScratchFolder folder;
  auto of = [&](const std::string& path) { return Dataset({.paths = {path}, .context = 2}).fingerprint(); };
  std::string a = of(folder.write("one/t.txt", "some text"));
  EXPECT_EQ(a.size(), 32u);
  EXPECT_EQ(of(folder.write("two/t.txt", "some text")), a);
  EXPECT_NE(of(folder.write("two/u.txt", "some text")), a);
  EXPECT_NE(of(folder.write("two/t.txt", "some tex")), a);
  EXPECT_NE(of(folder.write("two/t.txt", "some texs")), a);
  EXPECT_NE(of(folder.write("two/t.txt", "Some text")), a);
}

TEST(Dataset, fingerprint_is_of_every_byte) {
  ScratchFolder folder;
  std::string text(3 << 20, 'a');
  auto of = [&] { return Dataset({.paths = {folder.write("t.txt", text)}, .context = 2}); };
  const std::string before = of().fingerprint();
  EXPECT_EQ(of().read_as(), "read whole");
  for (size_t at : {size_t{70000}, text.size() / 2, text.size() - 70000}) {
    text[at] = 'b';
    EXPECT_NE(of().fingerprint(), before) << at;
    text[at] = 'a';
  }
  EXPECT_EQ(of().fingerprint(), before);
  const DataFile file = of().contents().at(0);
  EXPECT_EQ(file.name, "t.txt");
  EXPECT_EQ(file.tokens, 3 << 20);
  EXPECT_EQ(file.fingerprint.size(), 16u);
}

// What was found is kept by path, inode, size and times; whatever of these is another makes the file be read
// again.
TEST(Dataset, a_file_is_read_once_until_it_changes) {
  ScratchFolder folder;
  const std::string path = folder.write("t.bin", counting(3 << 20)), cache = folder.path("cache/data");
  auto age =
      [](const std::string& file) {  // what was written just now is read again anyway, so it is made older
        timespec times[2] = {{1000000000, 7}, {1000000000, 7}};
        ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
      };
  int64_t read = 0;
  auto found = [&](const std::string& file, int64_t stride = 0) {
    read = 0;
    return scan_once(Source::stored(file, 2), {stride}, cache, read);
  };
  age(path);
  const Scan first = found(path);
  EXPECT_EQ(read, 6 << 20);
  EXPECT_EQ(first.largest, 65535u);
  EXPECT_EQ(first.at, 65535);
  found(path);
  EXPECT_EQ(read, 6 << 20) << "its inode was touched just now, so nothing was kept";
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  found(path);
  EXPECT_EQ(read, 6 << 20);
  const Scan again = found(path);
  EXPECT_EQ(read, 0);
  EXPECT_EQ(again.content, first.content);
  EXPECT_EQ(again.at, first.at);
  EXPECT_NE(found(path, 16 << 20).content, first.content) << "read in blocks it is another question";

  for (const auto& entry : std::filesystem::directory_iterator(cache)) {
    struct stat info{};
    ASSERT_EQ(::stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    EXPECT_EQ(::truncate(entry.path().c_str(), info.st_size - 3), 0);  // torn
  }
  EXPECT_EQ(found(path).content, first.content);
  EXPECT_EQ(read, 6 << 20);
  found(path);
  EXPECT_EQ(read, 0);
  auto changed = counting(3 << 20);
  changed[1 << 20] ^= 1;
  folder.write("t.bin", changed);  // the same inode and size
  age(path);                       // and the same time of writing
  EXPECT_NE(found(path).content, first.content);
  std::filesystem::create_directories(folder.path("open"));
  std::filesystem::permissions(folder.path("open"), std::filesystem::perms::all);
  read = 0;
  scan_once(Source::stored(path, 2), {}, folder.path("open/data"), read);
  EXPECT_EQ(read, 6 << 20) << "a folder that others may write is done without";
  EXPECT_FALSE(std::filesystem::exists(folder.path("open/data")));
}

TEST(Dataset, the_largest_token_of_each_width_and_behind_a_header) {
  ScratchFolder folder;
  const Scan text = scan(Source::text(folder.write("t.txt", "abzc")), {});
  EXPECT_EQ(text.largest, 'z');
  EXPECT_EQ(text.at, 2);
  const Scan wide = scan(
      Source::stored(folder.write("w.bin", std::vector<uint32_t>{1, 0xfffffff0u, 7, 0xfffffff0u}), 4), {});
  EXPECT_EQ(wide.largest, 0xfffffff0u);
  EXPECT_EQ(wide.at, 1);
  std::vector<int32_t> header(256, 0);
  header[0] = 20240520, header[1] = 1, header[2] = 3;
  std::vector<uint16_t> tokens{5, 9, 2};
  const std::string file = std::string(reinterpret_cast<const char*>(header.data()), 1024) +
                           std::string(reinterpret_cast<const char*>(tokens.data()), 6);
  const Scan behind = scan(Source::stored(folder.write("h.bin", file), 2), {});
  EXPECT_EQ(behind.largest, 9u);
  EXPECT_EQ(behind.at, 1);
  const Scan none = scan(Source::stored(folder.write("z.bin", std::vector<uint16_t>{0, 0}), 2), {});
  EXPECT_EQ(none.largest, 0u);
  EXPECT_EQ(none.at, 0);
  EXPECT_EQ(scan_plan(int64_t{1} << 40, int64_t{16} << 30).text(),
            "read in blocks of 64.00 KiB every 16.00 MiB");
  EXPECT_EQ(scan_plan(int64_t{1} << 44, int64_t{16} << 30).text(),
            "read in blocks of 64.00 KiB every 256.00 MiB");
  EXPECT_EQ(scan_plan(10, 10).text(), "read whole");
}

TEST(Dataset, fortunes_are_read_once) {
  const std::string fortunes = "/usr/share/games/fortunes";
  if (!std::filesystem::is_directory(fortunes)) GTEST_SKIP() << "package fortunes is not installed";
  int64_t bytes = 0;  // the text files: neither links nor indices
  for (const auto& entry : std::filesystem::directory_iterator(fortunes))
    if (!entry.is_symlink() && entry.path().extension() != ".dat")
      bytes += static_cast<int64_t>(entry.file_size());
  Dataset data({.paths = {fortunes}, .validation = 0.05, .context = 128});
  EXPECT_EQ(data.tokens() + data.validation_tokens(), bytes);
  EXPECT_NEAR(static_cast<double>(data.validation_tokens()), 0.05 * static_cast<double>(bytes), 50);
}

}  // namespace
}  // namespace lockstep::launcher::data
