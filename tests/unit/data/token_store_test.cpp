// Tokens of files, kept: the same whether made, kept or in memory; made anew when the file or the tokenizer
// is another.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "launcher/data/dataset.h"
#include "launcher/data/token_store.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::data {
namespace {

const std::string kTokenizer =
    R"({"added_tokens": [{"id": 3, "content": "</s>", "special": true, "normalized": false}],
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})";

std::vector<std::vector<uint32_t>> documents(const TokenStore& store) {
  std::vector<std::vector<uint32_t>> out;
  const auto starts = store.starts();
  for (int64_t i = 0; i < store.documents; ++i) {
    out.emplace_back(static_cast<size_t>(starts[i + 1] - starts[i]));
    store.read(starts[i], out.back());
  }
  return out;
}
void age(const std::string& path) {
  std::filesystem::last_write_time(path,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
}

class Stores : public testing::Test {
 protected:
  TokenStore open(const std::string& path, const std::string& how, const std::string& cache) {
    return token_store(
        FileBytes(path), path, how, cache,
        [&](TokenWriter& writer) {
          ++times_;
          for (const auto& document : wanted_) writer.document(document);
          writer.note(notes_);
        },
        made_);
  }
  ScratchFolder folder_;
  std::vector<std::vector<uint32_t>> wanted_ = {{1, 2, 3}, {}, {kCounts | 4, 5}};
  std::string notes_;
  int times_ = 0;
  int64_t made_ = 0;
};

TEST_F(Stores, AreTheSameInMemoryAndKept) {
  const std::string path = folder_.write("a.txt", "text");
  for (const std::string& cache : {std::string(), folder_.path("cache")})
    EXPECT_EQ(documents(open(path, "how", cache)), wanted_);
  wanted_.assign(3000, std::vector<uint32_t>(1001, 7));  // more than is written at once
  EXPECT_EQ(documents(open(path, "more", folder_.path("cache"))), wanted_);
  wanted_.clear();
  EXPECT_TRUE(documents(open(path, "none", "")).empty());
}

TEST_F(Stores, OfAFileWrittenMomentsAgoAreNotKept) {
  const std::string path = folder_.write("a.txt", "text");
  open(path, "how", folder_.path("cache")), open(path, "how", folder_.path("cache"));
  EXPECT_EQ(times_, 2);
  EXPECT_EQ(made_, 8);
}

// The time of a change (ctime) cannot be set back, so the wait is a real one.
TEST_F(Stores, AreMadeOnceUntilTheFileOrTheTokenizerIsAnother) {
  const std::string path = folder_.write("a.txt", "text"), cache = folder_.path("cache");
  ::usleep(2'100'000);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(documents(open(path, "how", cache)), wanted_);
  EXPECT_EQ(times_, 1);
  open(path, "otherwise", cache);
  EXPECT_EQ(times_, 2);
  folder_.write("a.txt", "other text");
  age(path);
  wanted_ = {{9}};
  EXPECT_EQ(documents(open(path, "how", cache)), wanted_);
  EXPECT_EQ(times_, 3);
  // A store that is torn reads as none.
  ::usleep(2'100'000);
  open(path, "how", cache);
  for (const auto& entry : std::filesystem::directory_iterator(cache))
    if (entry.path().extension() == ".tokens") std::filesystem::resize_file(entry.path(), 70);
  EXPECT_EQ(documents(open(path, "how", cache)), wanted_);
  EXPECT_EQ(times_, 5);
}

std::string store_in(const std::string& cache) {
  for (const auto& entry : std::filesystem::directory_iterator(cache))
    if (entry.path().extension() == ".tokens") return entry.path();
  return "";
}
void put_at(const std::string& path, int64_t at, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(at), file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void flip_at(const std::string& path, int64_t at) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(at);
  put_at(path, at, std::string(1, static_cast<char>(~file.get())));
}

TEST_F(Stores, KeepWhatIsToBeSaidOfTheFile) {
  const std::string path = folder_.write("a.txt", "text"), cache = folder_.path("cache");
  notes_ = std::string("a line\n\0b", 9);
  EXPECT_EQ(open(path, "how", "").notes(), notes_);
  ::usleep(2'100'000);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(open(path, "how", cache).notes(), notes_);
  EXPECT_EQ(times_, 2);
  std::filesystem::resize_file(store_in(cache), 64 + 24 + 4 * 8 + 8);  // a byte of them is lost
  EXPECT_EQ(documents(open(path, "how", cache)), wanted_);
  EXPECT_EQ(times_, 3);
}

// A byte anywhere: of the header, an id, the padding, a start.
TEST_F(Stores, ThatAreDamagedAreMadeAgainWithALineThatSaysSo) {
  const std::string path = folder_.write("a.txt", "text"), cache = folder_.path("cache");
  ::usleep(2'100'000);
  open(path, "how", cache);
  const std::string store = store_in(cache);
  ASSERT_EQ(std::filesystem::file_size(store), 64u + 24 + 4 * 8);
  for (int64_t at : {0, 17, 33, 41, 64, 71, 84, 88, 100, 119}) {
    flip_at(store, at);
    testing::internal::CaptureStderr();
    EXPECT_EQ(documents(open(path, "how", cache)), wanted_) << at;
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(store + ", kept tokens of " + path + ", is damaged; it is made again"),
              std::string::npos)
        << at << ": " << said;
    EXPECT_EQ(documents(open(path, "how", cache)), wanted_);
  }
  EXPECT_EQ(times_, 11);
  std::filesystem::resize_file(store, 10);
  EXPECT_EQ(documents(open(path, "how", cache)), wanted_);
  EXPECT_EQ(times_, 12);
}

TEST_F(Stores, OfAnEarlierVersionAreMadeAnewWithoutAWord) {
  const std::string path = folder_.write("a.txt", "text"), cache = folder_.path("cache");
  ::usleep(2'100'000);
  open(path, "how", cache);
  for (const char* version : {"LTOKENS2", "LTOKENS3"}) {
    put_at(store_in(cache), 0, version);
    testing::internal::CaptureStderr();
    EXPECT_EQ(documents(open(path, "how", cache)), wanted_);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  }
  EXPECT_EQ(times_, 3);
}

TEST_F(Stores, AreInMemoryWhereTheDiskDoesNotTakeThem) {
  wanted_.assign(3000, std::vector<uint32_t>(1001, 7));
  const std::string path = folder_.write("a.txt", "text"), cache = folder_.path("cache");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  testing::internal::CaptureStderr();
  const auto found = documents(open(path, "how", cache));
  const std::string said = testing::internal::GetCapturedStderr();
  setrlimit(RLIMIT_FSIZE, &before), std::signal(SIGXFSZ, ignored);
  EXPECT_EQ(found, wanted_);
  EXPECT_NE(said.find("data: tokens of " + path + " are not kept in " + cache +
                      ": File too large; they are made in every run, in memory. Make room, or name another "
                      "folder in LOCKSTEP_CACHE"),
            std::string::npos)
      << said;
  for (const auto& entry : std::filesystem::directory_iterator(cache))
    EXPECT_EQ(entry.path().extension(), ".lock");
}

TEST_F(Stores, TextOfATokenizerIsARowOfItsTokens) {
  folder_.write("d/a.txt", "ababa"), folder_.write("d/b.txt", "bb");
  Dataset data({.paths = {folder_.path("d")},
                .tokenizer = folder_.write("tokenizer.json", kTokenizer),
                .order = "sequential",
                .vocab = 4,
                .context = 6});
  EXPECT_EQ(data.tokens(), 7);  // ab ab a </s> b b </s>
  std::vector<int32_t> ids(6), targets(6);
  data.fill(0, 1, 0, 1, ids.data(), targets.data());
  EXPECT_EQ(ids, (std::vector<int32_t>{2, 2, 0, 3, 1, 1}));
  EXPECT_EQ(targets, (std::vector<int32_t>{2, 0, 3, 1, 1, 3}));
}

TEST_F(Stores, AnotherTokenizerIsAnotherFingerprint) {
  auto print = [&](const std::string& tokenizer, const std::string& eos) {
    return Dataset({.paths = {folder_.write("a.txt", "abababab")},
                    .tokenizer = folder_.write("t.json", tokenizer),
                    .vocab = 4,
                    .context = 2,
                    .eos = eos})
        .fingerprint();
  };
  const std::string one = print(kTokenizer, "auto");
  EXPECT_EQ(print(kTokenizer, "auto"), one);
  EXPECT_EQ(print(kTokenizer, "</s>"), one);
  EXPECT_NE(print(kTokenizer, "none"), one);
  EXPECT_NE(print(kTokenizer + " ", "auto"), one);
}

}  // namespace
}  // namespace lockstep::launcher::data
