// FileStorage: short and interrupted calls, errors with their bytes, folders, and real failures of the
// system.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "checkpoint/storage/file_storage.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {

using namespace checkpoint;

namespace {

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const StorageError& e) { return e.what(); }
  return "no error";
}

// Hands over at most three bytes a call, and is interrupted every other time.
class SlowStorage : public FileStorage {
 public:
  int64_t write_some(int fd, const void* data, size_t bytes, int64_t offset) override {
    if (calls++ % 2) return errno = EINTR, -1;
    return FileStorage::write_some(fd, data, std::min<size_t>(bytes, 3), offset);
  }
  int64_t read_some(int fd, void* out, size_t bytes, int64_t offset) override {
    if (calls++ % 2) return errno = EINTR, -1;
    return FileStorage::read_some(fd, out, std::min<size_t>(bytes, 3), offset);
  }
  int calls = 0;
};

TEST(FileStorage, ShortAndInterruptedCallsAreContinued) {
  ScratchFolder folder;
  SlowStorage slow;
  std::string text = "the quick brown fox jumps over the lazy dog";
  write_text(slow, folder.path("f"), text);
  EXPECT_GT(slow.calls, 20);
  EXPECT_EQ(read_text(slow, folder.path("f"), 100), text);
  EXPECT_EQ(read_text(file_storage(), folder.path("f"), 100), text);
  char four[4];
  slow.open(folder.path("f"))->read(4, four, 4);
  EXPECT_EQ(std::string(four, 4), "quic");
}

// From several threads, behind one another and before; what nobody wrote is zero.
TEST(FileStorage, PlacesAreWrittenInAnyOrder) {
  ScratchFolder folder;
  SlowStorage slow;
  auto file = slow.create(folder.path("f"));
  ASSERT_TRUE(file->anywhere());
  file->write("head", 4);
  file->write_at(10, "tail", 4);
  EXPECT_EQ(file->bytes(), 14);
  file->write_at(4, "mid", 3);
  EXPECT_EQ(file->bytes(), 14);
  file->sync();
  file->close();
  EXPECT_EQ(read_text(file_storage(), folder.path("f"), 100), std::string("headmid\0\0\0tail", 14));
}

class BrokenStorage : public FileStorage {
 public:
  int64_t write_some(int fd, const void* data, size_t bytes, int64_t offset) override {
    if (left <= 0) return errno = code, -1;
    int64_t n = FileStorage::write_some(fd, data, std::min<size_t>(bytes, static_cast<size_t>(left)), offset);
    left -= n;
    return n;
  }
  int64_t read_some(int, void*, size_t, int64_t) override { return errno = EIO, -1; }
  int64_t left = 10;
  int code = EIO;
};

TEST(FileStorage, ErrorsNameFileAndBytes) {
  ScratchFolder folder;
  BrokenStorage broken;
  std::string path = folder.path("f");
  std::string said = error_of([&] { write_text(broken, path, std::string(25, 'x')); });
  EXPECT_EQ(said, "cannot write " + path + ": Input/output error at byte 10 (15 bytes of this piece left)");
  broken.left = 3;
  said = error_of([&] { broken.create(path)->write_at(100, "0123456789", 10); });
  EXPECT_EQ(said, "cannot write " + path + ": Input/output error at byte 103 (7 bytes of this piece left)");
  broken.left = 0;
  broken.code = ENOSPC;
  said = error_of([&] { write_text(broken, path, "x"); });
  EXPECT_NE(said.find("No space left on device at byte 0"), std::string::npos) << said;
  EXPECT_NE(said.find("are free there; free some space or save elsewhere"), std::string::npos) << said;
  folder.write("g", "0123456789");
  char out[8];
  EXPECT_EQ(error_of([&] { broken.open(folder.path("g"))->read(2, out, 8); }),
            "cannot read " + folder.path("g") + ", 8 bytes at offset 2: Input/output error");
  EXPECT_EQ(error_of([&] { file_storage().open(folder.path("g"))->read(4, out, 8); }),
            "cannot read " + folder.path("g") + ", 2 bytes at offset 10: the file ends there");
  EXPECT_EQ(error_of([&] { read_text(file_storage(), folder.path("g"), 9); }),
            folder.path("g") + " has 10 bytes; at most 9 are read");
  EXPECT_NE(error_of([&] { file_storage().open(folder.path("none")); }).find("No such file"),
            std::string::npos);
  EXPECT_NE(error_of([&] { file_storage().open(folder.path("")); }).find("it is a folder, not a plain file"),
            std::string::npos);
  EXPECT_NE(error_of([&] { file_storage().create(folder.path("no/f")); }).find("cannot create"),
            std::string::npos);
  EXPECT_NE(error_of([&] { file_storage().list(folder.path("no")); }).find("cannot list"), std::string::npos);
  EXPECT_NE(error_of([&] { file_storage().make_folders(folder.path("g/h")); }).find("cannot make folder"),
            std::string::npos);
  EXPECT_NE(
      error_of([&] { file_storage().rename(folder.path("no"), folder.path("yes")); }).find("cannot rename"),
      std::string::npos);
  EXPECT_NE(error_of([&] { file_storage().remove(folder.path("no")); }).find("cannot remove"),
            std::string::npos);
}

// Neither read nor written, and never waited for: a FIFO without another end, a device, a socket, a folder, a
// link in the place of a file.
TEST(FileStorage, WhatIsNoPlainFileIsRefusedAtOnce) {
  ScratchFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("fifo", folder.path("link"));
  std::filesystem::create_symlink("target", folder.path("dangling"));
  auto opened = [&](const std::string& path) { return error_of([&] { file_storage().open(path); }); };
  auto created = [&](const std::string& path) { return error_of([&] { file_storage().create(path); }); };
  EXPECT_EQ(opened(folder.path("fifo")),
            "cannot open " + folder.path("fifo") + ": it is a FIFO, not a plain file");
  EXPECT_EQ(opened(folder.path("link")),
            "cannot open " + folder.path("link") + ": it is a FIFO, not a plain file");
  EXPECT_EQ(opened("/dev/zero"), "cannot open /dev/zero: it is a device, not a plain file");
  EXPECT_EQ(created(folder.path("fifo")),
            "cannot create " + folder.path("fifo") + ": it is a FIFO, not a plain file");
  file_storage().create(folder.path("dangling"));  // in the place of the link, not where it points
  EXPECT_FALSE(std::filesystem::exists(folder.path("target")));
  EXPECT_EQ(created("/dev/full"), "cannot create /dev/full: it is a device, not a plain file");
  EXPECT_EQ(created(folder.path("")),
            "cannot create " + folder.path("") + ": it is a folder, not a plain file");
  ASSERT_EQ(::mkfifo(folder.path(".lock").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { file_storage().lock(folder.path("")); }),
            folder.path(".lock") + " is not a plain file; remove it");
  std::filesystem::remove(folder.path(".lock"));
  folder.write("theirs", std::string());  // an empty file would do for a lock
  std::filesystem::create_symlink("theirs", folder.path(".lock"));
  EXPECT_EQ(error_of([&] { file_storage().lock(folder.path("")); }),
            folder.path(".lock") + " is a link, behind which nothing is locked or written; remove it");
}

// A real limit in the middle of a file: the write that crosses it is short, the next one fails.
TEST(FileStorage, AFileSizeLimit) {
  ScratchFolder folder;
  pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::string said =
        error_of([&] { write_text(file_storage(), folder.path("f"), std::string(1500, 'x')); });
    ::_exit(said.find("File too large at byte 1000 (500 bytes of this piece left)") != std::string::npos ? 0
                                                                                                         : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(FileStorage, Folders) {
  ScratchFolder folder;
  Storage& storage = file_storage();
  std::string deep = folder.path("a/b/c");
  storage.make_folders(deep);
  storage.make_folders(deep);
  EXPECT_TRUE(storage.exists(deep));
  write_text(storage, deep + "/z", "1");
  write_text(storage, deep + "/y", "2");
  auto entries = storage.list(deep);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "y");
  EXPECT_FALSE(entries[0].folder);
  EXPECT_TRUE(storage.list(folder.path("a"))[0].folder);
  storage.rename(deep, folder.path("a/d"));
  storage.sync_folder(folder.path("a"));
  EXPECT_FALSE(storage.exists(deep));
  remove_folder(storage, folder.path("a"));
  EXPECT_FALSE(storage.exists(folder.path("a")));
  EXPECT_EQ(parent_folder("a/b"), "a");
  EXPECT_EQ(parent_folder("a/b/"), "a");
  EXPECT_EQ(parent_folder("b"), ".");
  EXPECT_EQ(parent_folder("/b"), "/");
  EXPECT_EQ(last_part("a/b/"), "b");
  EXPECT_EQ(last_part("b"), "b");
}

}  // namespace
}  // namespace lockstep
