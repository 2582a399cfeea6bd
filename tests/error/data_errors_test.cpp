// Bad data: each is one UserError that names the file, both values and the way out.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "core/base/error.h"
#include "launcher/data/dataset.h"
#include "launcher/data/source.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::data {
namespace {

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const UserError& error) { return error.what(); } catch (const std::exception& error) {
    return str("not a UserError: ", error.what());
  }
  return "no error";
}
std::string error_of(const DataOptions& options) {
  return error_of([&] { Dataset data(options); });
}
std::string text_error(const std::string& path) { return error_of({.paths = {path}, .context = 4}); }
std::string tokens_error(const std::string& path, const std::string& dtype = "uint16") {
  return error_of({.kind = "tokens", .paths = {path}, .dtype = dtype, .vocab = 100, .context = 4});
}
// Passes if the message holds the words.
testing::AssertionResult says(const std::string& message, const std::string& words) {
  if (message.find(words) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << message << "\" does not say \"" << words << "\"";
}
#define EXPECT_SAYS(message, words) EXPECT_TRUE(says(message, words))

std::string header_file(const ScratchFolder& folder, int32_t version, int32_t count, size_t tokens) {
  std::vector<int32_t> header(256, 0);
  header[0] = 20240520, header[1] = version, header[2] = count;
  return folder.write("h.bin", std::string(reinterpret_cast<const char*>(header.data()), 1024) +
                                   std::string(2 * tokens, '\1'));
}

TEST(DataErrors, words_of_options) {
  EXPECT_EQ(error_of({.kind = "txt"}), "data.kind: \"txt\" is none of text, tokens; nearest: text");
  EXPECT_EQ(error_of({.order = "shufle"}),
            "data.order: \"shufle\" is none of shuffle, sequential; nearest: shuffle");
  EXPECT_SAYS(error_of({.kind = "tokens", .dtype = "uint8"}),
              "data.dtype: \"uint8\" is none of uint16, u16, uint32, u32");
  EXPECT_SAYS(error_of({.tokenizer = "gpt2"}), "data.tokenizer: cannot read gpt2: ");
  EXPECT_SAYS(error_of({.validation = 1.0}), "data.validation: 1 is not in [0, 1)");
  EXPECT_SAYS(error_of({.validation = -0.1}), "data.validation: -0.1 is not in [0, 1)");
  EXPECT_SAYS(error_of({.vocab = 0}), "model.vocab: 0 is not positive");
  EXPECT_SAYS(error_of({.context = 0}), "model.context: 0 is not positive");
}

TEST(DataErrors, nothing_named) {
  EXPECT_SAYS(error_of({.paths = {}}), "data.paths is empty; name files, folders or patterns");
  EXPECT_SAYS(text_error(""), "data.paths holds an empty path");
}

TEST(DataErrors, list_of_paths_that_is_not_there) {
  EXPECT_SAYS(
      text_error("@/no/such.list"),
      "data.paths: @/no/such.list names a list of paths, and /no/such.list cannot be read: No such file");
  ScratchFolder folder;
  EXPECT_SAYS(text_error("@" + folder.write("empty.list", "\n")), "data.paths is empty");
}

TEST(DataErrors, missing_path_names_its_nearest_sibling) {
  ScratchFolder folder;
  folder.write("corpus/train.txt", "text");
  EXPECT_EQ(text_error(folder.path("corpus/trian.txt")),
            str("data.paths: ", folder.path("corpus/trian.txt"),
                " does not exist; nearest: ", folder.path("corpus/train.txt")));
  EXPECT_EQ(text_error(folder.path("corpsu/train.txt")),
            str("data.paths: ", folder.path("corpsu/train.txt"),
                " does not exist; nearest: ", folder.path("corpus")));
  EXPECT_SAYS(text_error(folder.path("corpus/zzzzzzzzzzzzzz")),
              str("does not exist; nothing in ", folder.path("corpus"), " has a name like zzzzzzzzzzzzzz"));
  EXPECT_SAYS(text_error(folder.path("corpus/train.txt/x")),
              str(folder.path("corpus/train.txt"), " is a file, not a folder"));
  EXPECT_SAYS(text_error("no-such-file-here-at-all.txt"),
              "data.paths: no-such-file-here-at-all.txt does not exist");
  EXPECT_SAYS(text_error("/usr/share/no-such-text"),
              "; files below /usr come with packages (the quickstart's text with Debian's fortunes)");
}

TEST(DataErrors, pattern_without_a_match) {
  ScratchFolder folder;
  folder.write("a.txt", "text");
  EXPECT_SAYS(text_error(folder.path("*.md")), str("data.paths: no file matches ", folder.path("*.md")));
  EXPECT_SAYS(text_error(folder.path("none/**")), "no file matches");
  EXPECT_SAYS(text_error(folder.path("a.txt/*")), "no file matches");
}

TEST(DataErrors, no_text_to_read) {
  ScratchFolder folder;
  std::filesystem::create_directory(folder.path("d"));
  EXPECT_SAYS(text_error(folder.path("d")), str("data.paths: no text file in ", folder.path("d")));
  folder.write("d/a.dat", std::string("\0\0\0\2", 4));
  folder.write("d/b.dat", std::string("\0\0\0\2", 4));
  EXPECT_SAYS(text_error(folder.path("d")),
              "(skipped: 2 binary files); for stored tokens use data.kind tokens");
  EXPECT_SAYS(text_error(folder.write("empty.txt", "")), "(skipped: 1 empty file)");
}

TEST(DataErrors, no_token_file_in_a_folder) {
  ScratchFolder folder;
  folder.write("d/tokenizer.json", "{}");
  EXPECT_SAYS(tokens_error(folder.path("d")),
              str("data.paths: no *.bin file in ", folder.path("d"), " (skipped: 1 other name)"));
}

TEST(DataErrors, too_short_for_one_sequence) {
  ScratchFolder folder;
  EXPECT_SAYS(text_error(folder.write("t.txt", "four")), "data.paths: 4 training bytes in ");
  EXPECT_SAYS(text_error(folder.path("t.txt")),
              "but one sequence needs model.context + 1 = 5; give more data or a smaller model.context");
  folder.write("t.txt", "123456789");
  EXPECT_SAYS(error_of({.paths = {folder.path("t.txt")}, .validation = 0.5, .context = 4}),
              "4 training bytes in ");
  EXPECT_SAYS(error_of({.paths = {folder.path("t.txt")}, .validation = 0.5, .context = 4}),
              "(5 more kept for validation)");
  EXPECT_EQ(text_error(folder.write("t.txt", "five.")), "no error");
}

TEST(DataErrors, validation_too_short_is_said_and_skipped) {
  ScratchFolder folder;
  testing::internal::CaptureStderr();
  Dataset data({.paths = {folder.write("t.txt", "123456789")}, .validation = 0.2, .context = 4});
  EXPECT_SAYS(testing::internal::GetCapturedStderr(),
              "warning: data.validation: 0.2 keeps 2 bytes, but one sequence needs model.context + 1 = 5: "
              "there will be no validation loss");
  EXPECT_EQ(data.validation_sequences(), 0);
  EXPECT_EQ(data.validation_tokens(), 2);
}

// Whatever kind of data it would be.
TEST(DataErrors, pointers_of_git_lfs) {
  ScratchFolder folder;
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
  for (const char* name : {"a.bin", "a.txt"}) {
    const std::string path = folder.write(name, pointer);
    const std::string words =
        str("data.paths: ", path,
            " is a pointer of git-lfs, and the file that it represents is not here; fetch it "
            "with git lfs pull");
    EXPECT_EQ(tokens_error(path), words);
    EXPECT_EQ(text_error(path), words);
  }
}

TEST(DataErrors, token_files) {
  ScratchFolder folder;
  EXPECT_EQ(tokens_error(folder.write("e.bin", "")), str("data.paths: ", folder.path("e.bin"), " is empty"));
  EXPECT_SAYS(tokens_error(folder.write("o.bin", "12345")),
              "o.bin has 5 bytes, which is not a multiple of 2 (data.dtype uint16)");
  EXPECT_SAYS(tokens_error(folder.write("o.bin", "123456"), "uint32"),
              "o.bin has 6 bytes, which is not a multiple of 4 (data.dtype uint32)");
}

TEST(DataErrors, header) {
  ScratchFolder folder;
  EXPECT_SAYS(tokens_error(header_file(folder, 2, 10, 10)), "h.bin has header version 2; version 1 is read");
  EXPECT_SAYS(tokens_error(header_file(folder, 1, 11, 10)),
              "h.bin has 1044 bytes, but its header counts 11 tokens, which makes 1046");
  EXPECT_SAYS(tokens_error(header_file(folder, 1, 9, 10)),
              "h.bin has 1044 bytes, but its header counts 9 tokens, which makes 1042");
  EXPECT_SAYS(tokens_error(header_file(folder, 1, -1, 10)), "its header counts -1 tokens");
  EXPECT_SAYS(tokens_error(header_file(folder, 1, 10, 10), "uint32"),
              "which means uint16 tokens, but data.dtype is uint32");
  EXPECT_SAYS(tokens_error(header_file(folder, 1, 10, 10)),
              "token id 257 at ");  // the header is read, and then the tokens
  std::filesystem::resize_file(folder.path("h.bin"), 1000);
  EXPECT_SAYS(tokens_error(folder.path("h.bin")),
              "h.bin has 1000 bytes, but its magic 20240520 announces a header of 1024");
}

TEST(DataErrors, token_beyond_the_vocabulary) {
  ScratchFolder folder;
  std::vector<int32_t> ids(4), targets(4);
  auto first_step = [&](const DataOptions& options) {
    return error_of([&] { Dataset(options).fill(0, 1, 0, 1, ids.data(), targets.data()); });
  };
  DataOptions options{.kind = "tokens",
                      .paths = {folder.write("x.bin", std::vector<uint16_t>{1, 2, 3, 60000, 4, 5})},
                      .order = "sequential",
                      .vocab = 50304,
                      .context = 4};
  EXPECT_EQ(first_step(options), str("token id 60000 at ", folder.path("x.bin"),
                                     ", token 3 (byte 6) >= model.vocab 50304; set model.vocab and "
                                     "data.dtype (of a TokenFile .vocab and .dtype) to "
                                     "those of the file"));
  folder.write("x.bin", std::vector<uint32_t>{
                            1, 2, 3, 4, 0xffffffffu});  // the last target counts too, and no id is negative
  options.dtype = "uint32";
  EXPECT_SAYS(first_step(options), "token id 4294967295 at ");
  EXPECT_SAYS(first_step(options), "token 4 (byte 16) >= model.vocab 50304");
  std::string h = header_file(folder, 1, 10, 10);  // tokens 0x0101 = 257
  EXPECT_SAYS(first_step({.kind = "tokens", .paths = {h}, .order = "sequential", .vocab = 257, .context = 4}),
              "token 0 (byte 1024) >= model.vocab 257");
  EXPECT_EQ(first_step({.kind = "tokens", .paths = {h}, .vocab = 258, .context = 4}), "no error");
  folder.write("t.txt",
               "abc\xe4"
               "efg");
  EXPECT_SAYS(
      first_step({.paths = {folder.path("t.txt")}, .order = "sequential", .vocab = 128, .context = 4}),
      "t.txt, token 3 (byte 3) >= model.vocab 128; set model.vocab to 256 for bytes");
}

TEST(DataErrors, token_beyond_the_vocabulary_in_validation) {
  ScratchFolder folder;
  EXPECT_SAYS(error_of({.paths = {folder.write("t.txt", "abcdefgh\xe4\xe4\xe4\xe4")},
                        .validation = 0.33,
                        .vocab = 128,
                        .context = 3}),
              "token id 228 at ");
}

// Read in blocks, as data of terabytes is: what lies between them is found when a step reads it.
TEST(DataErrors, token_beyond_the_vocabulary_between_the_blocks) {
  ScratchFolder folder;
  std::vector<uint16_t> tokens(size_t{10} << 20, 1);
  tokens[5 << 20] = 300;
  DataOptions options{.kind = "tokens",
                      .paths = {folder.write("x.bin", tokens)},
                      .order = "sequential",
                      .vocab = 256,
                      .context = 1 << 20};
  EXPECT_SAYS(error_of(options), "token id 300 at ");
  options.read_whole = 1;
  testing::internal::CaptureStderr();
  Dataset data(options);
  EXPECT_SAYS(testing::internal::GetCapturedStderr(),
              "data: 20.00 MiB are more than data.fingerprint, 1 B: files are read in blocks of 64.00 KiB "
              "every 16.00 MiB; a change or a token "
              "beyond model.vocab between the blocks is not found now");
  std::vector<int32_t> ids(1 << 20), targets(1 << 20);
  EXPECT_SAYS(error_of([&] { data.fill(5, 1, 0, 1, ids.data(), targets.data()); }), "token id 300 at ");
  tokens.back() = 301;  // the last block is always read
  folder.write("x.bin", tokens);
  EXPECT_SAYS(error_of(options), "token id 301 at ");
}

TEST(DataErrors, records_are_not_text) {
  ScratchFolder folder;
  const std::string row = "{\"text\": \"once upon a time\"}\n";
  folder.write("d/a.jsonl", row + row);
  folder.write("d/b.jsonl", row);
  EXPECT_EQ(text_error(folder.path("d")),
            str("data.paths: ", folder.path("d/a.jsonl"),
                " (and 1 file more) is JSON lines, a record to a line, and data.kind text trains on the "
                "bytes of files as they are, names and "
                "punctuation of the records with them: read them with data.kind jsonl, or make token files "
                "and use data.kind tokens; to train on the bytes all the "
                "same, say so with data.raw=true"));
  EXPECT_EQ(error_of({.paths = {folder.path("d")}, .context = 4, .raw = true}), "no error");
  EXPECT_SAYS(text_error(folder.write("renamed.txt", row + row)),
              "renamed.txt is JSON lines, a record to a line");
  EXPECT_SAYS(text_error(folder.write("t.csv", "a,b\n1,2\n")), "t.csv is a table, and data.kind text");
  EXPECT_SAYS(text_error(folder.write("T.PARQUET", std::string("PAR1\0\0\0\0", 8))),
              "T.PARQUET is a Parquet table");
  EXPECT_SAYS(
      text_error(folder.write("t.txt.gz", "\x1f\x8b")),
      "t.txt.gz is compressed, and data.kind text trains on the bytes of files as they are: unpack it first");
  for (const char* text :
       {"{\"text\": 1}\nand then prose", "{ a set }\n{ of braces }\n", "plain words\n{\"a\": 1}\n"})
    EXPECT_EQ(text_error(folder.write("plain.txt", text)), "no error") << text;
}

TEST(DataErrors, a_header_of_another_format) {
  ScratchFolder folder;
  std::vector<int32_t> header(256, 0);
  header[0] = 20240801, header[1] = 7, header[2] = 10;
  std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
  EXPECT_SAYS(tokens_error(folder.write("other.bin", bytes + std::string(40, '\1'))),
              "other.bin begins with what looks like a header of magic 20240801; a header of magic 20240520 "
              "(uint16 tokens) is read");
  header[100] = 5;  // no header has words there
  bytes.assign(reinterpret_cast<const char*>(header.data()), 1024);
  EXPECT_SAYS(tokens_error(folder.write("other.bin", bytes)), "token id ");
}

TEST(DataErrors, what_the_system_refuses) {
  ScratchFolder folder;
  std::filesystem::create_symlink("loop", folder.path("loop"));
  EXPECT_SAYS(text_error(folder.path("loop")),
              str("data.paths: cannot read ", folder.path("loop"), ": Too many levels of symbolic links"));
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(text_error(folder.path("pipe")),
            str("data.paths: ", folder.path("pipe"), " is neither a file nor a folder"));

  std::string locked = folder.write("locked.txt", "some text");
  ::chmod(folder.path("").c_str(), 0755);
  ::chmod(locked.c_str(), 0);
  const bool root = ::geteuid() == 0;
  if (root && ::seteuid(65534) != 0) GTEST_SKIP() << "root cannot become another user here";
  std::string message = text_error(locked);
  ASSERT_TRUE(!root || ::seteuid(0) == 0);
  EXPECT_EQ(message, str("data.paths: cannot read ", locked, ": Permission denied"));
}

TEST(DataErrors, file_that_changes_under_the_reader) {
  EXPECT_SAYS(error_of([] { FileBytes("/no/such/file"); }),
              "data.paths: cannot read /no/such/file: No such file or directory");
  EXPECT_SAYS(error_of([] { FileBytes("/"); }),
              "data.paths: cannot read /: it is a folder, not a plain file");
  const std::string page =
      "/sys/devices/system/cpu/online";  // says 4096 bytes and gives a few, as a file that was cut does
  if (!std::filesystem::is_regular_file(page)) GTEST_SKIP() << page << " is not here";
  EXPECT_SAYS(text_error(page),
              " of 4096 bytes; it became shorter while it was read: put it back and start again");
}

// truncate -s 0, cp over it, rm: an error with both sizes for the first, nothing for a file that has another
// name's place or none.
TEST(DataErrors, file_that_shrinks_under_a_run) {
  ScratchFolder folder;
  std::vector<uint16_t> tokens(1 << 20);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint16_t>(i % 50);
  const std::string path = folder.write("big.bin", tokens);
  Dataset data({.kind = "tokens", .paths = {path}, .order = "sequential", .vocab = 50, .context = 100});
  std::vector<int32_t> ids(100), targets(100);
  auto fill = [&](int64_t step) {
    return error_of([&] { data.fill(step, 1, 0, 1, ids.data(), targets.data()); });
  };
  EXPECT_EQ(fill(10000), "no error");
  EXPECT_EQ(data.changed(), std::vector<std::string>{});
  std::filesystem::resize_file(path, 1000000);
  EXPECT_EQ(fill(0), "no error");
  EXPECT_EQ(fill(10000), str("data.paths: cannot read ", path,
                             ": it ended after 1000000 of 2097152 bytes; it became shorter while it was "
                             "read: put it back and start again"));
  std::filesystem::resize_file(path, 0);
  EXPECT_SAYS(fill(0), "it ended after 0 of 2097152 bytes; it became shorter while it was read");
  EXPECT_EQ(data.changed(), std::vector<std::string>{path});

  folder.write("big.bin", tokens);
  Dataset kept({.kind = "tokens", .paths = {path}, .order = "sequential", .vocab = 50, .context = 100});
  std::filesystem::remove(path);
  folder.write("big.bin", "other");
  kept.fill(7, 1, 0, 1, ids.data(), targets.data());
  EXPECT_EQ(ids[3], 703 % 50);
}

// More files than a process may have open: the limit is raised where the system lets it, else said.
TEST(DataErrors, more_files_than_descriptors) {
  ScratchFolder folder;
  for (int i = 0; i < 60; ++i)
    std::filesystem::resize_file(folder.write(str("d/", i, ".bin"), ""), int64_t{1} << 20);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 40;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  EXPECT_EQ(tokens_error(folder.path("d")), "no error");
  pid_t child = ::fork();
  if (child == 0) {
    small.rlim_cur = small.rlim_max = 40;
    ::setrlimit(RLIMIT_NOFILE, &small);
    const std::string said = tokens_error(folder.path("d"));
    ::_exit(said.find("Too many open files: each file of 1 MiB or more is held open; give fewer, larger "
                      "files, or raise the limit (ulimit -n)") == std::string::npos);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace lockstep::launcher::data
