// Finding data files (folders, patterns, links), telling text from binary, and the permutation of samples.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "launcher/data/files.h"
#include "launcher/data/order.h"
#include "launcher/data/source.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::data {
namespace {

using Names = std::vector<std::string>;

Names names_of(const ScratchFolder& folder, const FileList& list) {
  Names out;
  for (const auto& file : list.files)
    out.push_back(std::filesystem::path(file).lexically_relative(folder.path("")).string());
  return out;
}
Names find(const ScratchFolder& folder, const Names& relative, const std::string& extension = "") {
  Names paths;
  for (const auto& path : relative) paths.push_back(folder.path(path));
  return names_of(folder, find_files(paths, extension));
}

struct Tree : ScratchFolder {
  Tree() {
    for (const char* name : {"b.txt", "a.txt", "note.md", "sub/c.txt", "sub/deep/d.txt", "sub/deep/e.bin",
                             ".hidden", ".git/f.txt"})
      write(name, "text");
  }
};

TEST(FindFiles, folder_is_taken_recursively_in_the_order_of_paths) {
  Tree tree;
  EXPECT_EQ(find(tree, {""}),
            (Names{"a.txt", "b.txt", "note.md", "sub/c.txt", "sub/deep/d.txt", "sub/deep/e.bin"}));
  EXPECT_EQ(find(tree, {"sub"}, ".bin"), (Names{"sub/deep/e.bin"}));
  EXPECT_EQ(find(tree, {".hidden"}), (Names{".hidden"}));  // named, so taken
  EXPECT_EQ(find_files({tree.path("")}, "").hidden, 2);
}

TEST(FindFiles, entries_keep_their_order_and_a_file_is_taken_once) {
  Tree tree;
  EXPECT_EQ(find(tree, {"sub/c.txt", "a.txt", "sub", "a.txt"}),
            (Names{"sub/c.txt", "a.txt", "sub/deep/d.txt", "sub/deep/e.bin"}));
  EXPECT_EQ(find_files({tree.path("a.txt"), tree.path("sub/../a.txt")}, "").duplicates, 1);
}

TEST(FindFiles, patterns) {
  Tree tree;
  EXPECT_EQ(find(tree, {"*.txt"}), (Names{"a.txt", "b.txt"}));
  EXPECT_EQ(find(tree, {"?.txt"}), (Names{"a.txt", "b.txt"}));
  EXPECT_EQ(find(tree, {"[b-z].txt"}), (Names{"b.txt"}));
  EXPECT_EQ(find(tree, {"**/*.txt"}), (Names{"a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"}));
  EXPECT_EQ(find(tree, {"sub/**/d.txt"}), (Names{"sub/deep/d.txt"}));
  EXPECT_EQ(find(tree, {"sub/**"}), (Names{"sub/c.txt", "sub/deep/d.txt", "sub/deep/e.bin"}));
  EXPECT_EQ(find(tree, {"s*/deep"}),
            (Names{"sub/deep/d.txt", "sub/deep/e.bin"}));  // a folder that matches is taken recursively
  EXPECT_EQ(find(tree, {"*/*/*.bin"}), (Names{"sub/deep/e.bin"}));
  EXPECT_EQ(find(tree, {".*"}), (Names{".git/f.txt", ".hidden"}));
}

TEST(FindFiles, a_list_stands_for_its_lines) {
  Tree tree;
  const std::string list = tree.write(
      "all.list", tree.path("b.txt") + "\n\n  " + tree.path("sub/*.txt") + "\r\n" + tree.path("a.txt"));
  EXPECT_EQ(names_of(tree, find_files({"@" + list, tree.path("note.md")}, "")),
            (Names{"b.txt", "sub/c.txt", "a.txt", "note.md"}));
}

TEST(FindFiles, existing_name_is_no_pattern) {
  ScratchFolder folder;
  folder.write("a*.txt", "text");
  folder.write("ab.txt", "text");
  EXPECT_EQ(find(folder, {"a*.txt"}), (Names{"a*.txt"}));
}

TEST(FindFiles, links_lead_to_a_file_once_and_never_in_circles) {
  ScratchFolder folder;
  folder.write("text/art", "text");
  std::filesystem::create_symlink("art", folder.path("text/art.u8"));
  std::filesystem::create_directory_symlink("..", folder.path("text/up"));
  std::filesystem::create_symlink("nowhere", folder.path("text/dangling"));
  FileList list = find_files({folder.path("text")}, "");
  EXPECT_EQ(names_of(folder, list), (Names{"text/art"}));
  EXPECT_EQ(list.duplicates, 1);
  EXPECT_EQ(list.others, 1);
  EXPECT_EQ(find(folder, {"**/art"}), (Names{"text/art"}));
  EXPECT_EQ(find(folder, {"text/art.u8"}), (Names{"text/art.u8"}));
}

bool binary(const std::string& bytes) {
  return looks_binary(reinterpret_cast<const std::byte*>(bytes.data()), static_cast<int64_t>(bytes.size()));
}

TEST(LooksBinary, text_of_any_eight_bit_encoding_is_text) {
  EXPECT_FALSE(binary(""));
  EXPECT_FALSE(binary("plain\r\n\ttext\f\v"));
  EXPECT_FALSE(
      binary("gr\xc3\xbc\xc3\x9f"
             "e \xe2\x82\xac"));  // UTF-8
  EXPECT_FALSE(
      binary("gr\xfc\xdf"
             "e"));                                     // Latin-1
  EXPECT_FALSE(binary("_\b_\b \x1b[1mbold\x1b[0m"));    // overstrike and escapes
  EXPECT_FALSE(binary(std::string(19, 'a') + '\x01'));  // one control byte in 20
}

TEST(LooksBinary, nul_or_many_control_bytes_in_the_first_block) {
  EXPECT_TRUE(binary(std::string("a\0b", 3)));
  EXPECT_TRUE(binary(std::string(18, 'a') + '\x01'));
  EXPECT_TRUE(binary(std::string(8191, 'a') + std::string(1, '\0')));
  EXPECT_FALSE(binary(std::string(8192, 'a') + std::string(1, '\0')));  // beyond the block
}

TEST(Permuted, is_a_bijection_for_every_count) {
  for (int64_t count : {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 63, 64, 65, 100, 257, 1000, 4097})
    for (int64_t epoch : {0, 1, 12345}) {
      std::vector<bool> seen(static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i) {
        int64_t to = permuted(i, count, 42, epoch);
        ASSERT_GE(to, 0);
        ASSERT_LT(to, count);
        ASSERT_FALSE(seen[static_cast<size_t>(to)]) << count << " " << epoch << " " << i;
        seen[static_cast<size_t>(to)] = true;
      }
    }
}

TEST(Permuted, large_counts_stay_in_range_and_apart) {
  for (int64_t count : {int64_t{1} << 32, (int64_t{1} << 40) + 1, int64_t{1} << 62}) {
    std::set<int64_t> seen;
    for (int64_t i = 0; i < 1000; ++i) {
      int64_t to = permuted(count - 1 - i, count, 1, 0);
      EXPECT_TRUE(to >= 0 && to < count && seen.insert(to).second);
    }
  }
}

TEST(Permuted, every_arrangement_of_three_occurs_about_equally_often) {
  std::map<std::vector<int64_t>, int> times;
  for (uint64_t seed = 0; seed < 600; ++seed)
    ++times[{permuted(0, 3, seed, 0), permuted(1, 3, seed, 0), permuted(2, 3, seed, 0)}];
  EXPECT_EQ(times.size(), 6u);
  for (const auto& [order, count] : times) EXPECT_NEAR(count, 100, 50);
}

TEST(Permuted, seed_and_epoch_change_the_order) {
  auto order = [](uint64_t seed, int64_t epoch) {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < 50; ++i) out.push_back(permuted(i, 50, seed, epoch));
    return out;
  };
  EXPECT_EQ(order(1, 2), order(1, 2));
  EXPECT_NE(order(1, 2), order(1, 3));
  EXPECT_NE(order(1, 2), order(2, 2));
  EXPECT_FALSE(std::is_sorted(order(1, 2).begin(), order(1, 2).end()));
}

TEST(SequenceOf, pins_the_order_of_a_run) {  // a change here changes the data order of every resumed run
  std::vector<int64_t> order;
  for (int64_t g = 0; g < 12; ++g) order.push_back(sequence_of(g, 6, true, 1337));
  EXPECT_EQ(order, (std::vector<int64_t>{3, 1, 5, 4, 0, 2, 5, 2, 0, 4, 3, 1}));
  for (int64_t g = 0; g < 12; ++g) EXPECT_EQ(sequence_of(g, 5, false, 1337), g % 5);
}

}  // namespace
}  // namespace lockstep::launcher::data
