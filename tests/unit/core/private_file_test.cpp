// Private files and trusted paths: modes under any umask, links, owners, pipes; as root also files of another
// user.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <map>

#include "core/files/linked_file.h"
#include "core/files/plain_file.h"
#include "core/files/private_file.h"
#include "core/files/shared_file.h"
#include "core/files/temporary_folder.h"
#include "core/files/trusted_path.h"
#include "tests/support/own_process.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

constexpr uid_t kNobody = 65534;

mode_t mode_of(const std::string& path) {
  struct stat at{};
  EXPECT_EQ(lstat(path.c_str(), &at), 0) << path;
  return at.st_mode & 07777;
}
std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}
bool put(const Descriptor& file, const std::string& text) {
  return file && write_fully(file.get(), text) == 0;
}

class WithUmask {
 public:
  explicit WithUmask(mode_t mask) : before_(umask(mask)) {}
  ~WithUmask() { umask(before_); }

 private:
  mode_t before_;
};

TEST(private_file, has_its_mode_under_every_umask) {
  for (mode_t mask : {0000, 0022, 0027, 0777}) {
    ScratchFolder folder;
    WithUmask with(mask);
    ASSERT_EQ(make_private_folders(folder.path("a/b/c/")), 0);
    ASSERT_TRUE(put(create_private(folder.path("a/new")), "1"));
    ASSERT_TRUE(append_private(folder.path("a/log"), "1"));
    ASSERT_TRUE(replace_private(folder.path("a/whole"), "1"));
    EXPECT_EQ(made_private(folder.path("a/made")), folder.path("a/made"));
    for (const char* name : {"a", "a/b", "a/b/c"})
      EXPECT_EQ(mode_of(folder.path(name)), 0700u) << name << " under " << mask;
    for (const char* name : {"a/new", "a/log", "a/whole", "a/made"})
      EXPECT_EQ(mode_of(folder.path(name)), 0600u) << name << " under " << mask;
  }
}

// What is made for others is as wide as the umask lets it be, and never goes through a link either.
TEST(shared_file, follows_the_umask) {
  for (mode_t mask : {0000, 0022, 0027, 0077}) {
    ScratchFolder folder;
    WithUmask with(mask);
    ASSERT_EQ(make_shared_folder(folder.path("a")), 0);
    EXPECT_EQ(make_shared_folder(folder.path("a")), -1);
    folder.write("theirs", std::string("kept"));
    ASSERT_EQ(symlink("../theirs", folder.path("a/new").c_str()), 0);
    ASSERT_TRUE(put(create_shared(folder.path("a/new")).fd, "1"));
    EXPECT_EQ(mode_of(folder.path("a")), 0777u & ~mask);
    EXPECT_EQ(mode_of(folder.path("a/new")), 0666u & ~mask);
    EXPECT_EQ(std::filesystem::file_size(folder.path("theirs")), 4u);
  }
  EXPECT_EQ(create_shared("/").why, "it is a folder, not a plain file");
}

// A link in a stranger's folder: within it, into the blobs of a cache, or anywhere else.
TEST(linked_file, is_told_where_it_leads_out) {
  ScratchFolder folder;
  folder.write("hub/blobs/1234", std::string("x"));
  folder.write("hub/other/1234", std::string("x"));
  folder.write("secret", std::string("x"));
  folder.write("hub/snapshots/abc/sub/plain", std::string("x"));
  const std::string at = folder.path("hub/snapshots/abc/");
  for (const auto& [name, to] : std::map<std::string, std::string>{{"blob", "../../blobs/1234"},
                                                                   {"within", "sub/plain"},
                                                                   {"chain", "blob"},
                                                                   {"nowhere", "../none"},
                                                                   {"out", "../../../secret"},
                                                                   {"near", "../../other/1234"},
                                                                   {"absolute", folder.path("secret")}})
    std::filesystem::create_symlink(to, at + name);
  std::filesystem::create_symlink("../../../blobs/1234", at + "sub/blob");
  for (const char* name : {"blob", "within", "chain", "nowhere", "sub/plain", "sub/blob", "none"})
    EXPECT_EQ(linked_away(at + name, at), "") << name;
  const std::string real = std::filesystem::canonical(folder.path("")).string();
  EXPECT_EQ(linked_away(at + "out", at), real + "/secret");
  EXPECT_EQ(linked_away(at + "absolute", at), real + "/secret");
  EXPECT_EQ(linked_away(at + "near", at), real + "/hub/other/1234");
  // A folder on the way is one, too; the folder that the user named may be a link.
  std::filesystem::create_directory_symlink("../../other", at + "away");
  std::filesystem::create_directory_symlink("sub", at + "inner");
  EXPECT_EQ(linked_away(at + "away/1234", at), real + "/hub/other/1234");
  EXPECT_EQ(linked_away(at + "inner/plain", at), "");
  EXPECT_EQ(linked_away(at + "away/1234", at + "away"), "");
}

TEST(private_file, keeps_what_exists_as_it_is) {
  ScratchFolder folder;
  ASSERT_EQ(mkdir(folder.path("a").c_str(), 0755), 0);
  ASSERT_EQ(make_private_folders(folder.path("a/b")), 0);
  EXPECT_EQ(mode_of(folder.path("a")), 0755u);
  folder.write("log", std::string("one "));
  chmod(folder.path("log").c_str(), 0644);
  ASSERT_TRUE(append_private(folder.path("log"), "two"));
  EXPECT_EQ(text_of(folder.path("log")), "one two");
  EXPECT_EQ(mode_of(folder.path("log")), 0644u);
  EXPECT_EQ(make_private_folders(folder.path("log/b")), -1);
  EXPECT_EQ(errno, ENOTDIR);
}

TEST(private_file, writes_through_no_link) {
  ScratchFolder folder;
  folder.write("foreign", std::string("precious"));
  for (const char* link : {"new", "log", "whole.lockstep-draft", "whole", "made"})
    ASSERT_EQ(symlink(folder.path("foreign").c_str(), folder.path(link).c_str()), 0);
  EXPECT_TRUE(put(create_private(folder.path("new")), "mine"));  // the link goes
  EXPECT_EQ(text_of(folder.path("new")), "mine");
  EXPECT_FALSE(append_private(folder.path("log"), "mine"));
  EXPECT_EQ(errno, ELOOP);
  EXPECT_TRUE(replace_private(folder.path("whole"), "mine"));
  EXPECT_EQ(text_of(folder.path("whole")), "mine");
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(folder.path("whole.lockstep-draft"))));
  (void)made_private(folder.path("made"));
  EXPECT_EQ(text_of(folder.path("foreign")), "precious");
}

TEST(private_file, leaves_a_file_that_is_named_as_others_name_drafts) {
  ScratchFolder folder;
  for (const char* name : {"whole.tmp", "whole.part", "whole~"}) folder.write(name, std::string("precious"));
  folder.write("whole.lockstep-draft", std::string("of a process that was killed"));
  EXPECT_TRUE(replace_private(folder.path("whole"), "mine"));
  EXPECT_EQ(text_of(folder.path("whole")), "mine");
  for (const char* name : {"whole.tmp", "whole.part", "whole~"})
    EXPECT_EQ(text_of(folder.path(name)), "precious") << name;
  EXPECT_FALSE(std::filesystem::exists(folder.path("whole.lockstep-draft")));
}

TEST(private_file, never_waits_for_a_pipe) {
  ScratchFolder folder;
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  alarm(20);
  for (int flags : {O_WRONLY | O_APPEND, O_RDWR}) {
    EXPECT_FALSE(open_private(folder.path("pipe"), flags));
    EXPECT_EQ(errno, EINVAL);
    EXPECT_FALSE(create_private(folder.path("pipe"), flags)) << "what is no file is not removed";
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_FALSE(replace_private(folder.path("pipe"), "mine"));
  EXPECT_EQ(errno, EINVAL);
  EXPECT_FALSE(std::filesystem::exists(folder.path("pipe.lockstep-draft")));
  EXPECT_TRUE(std::filesystem::is_fifo(folder.path("pipe")));
  TrustedOpen opened = open_trusted_file(folder.path("pipe"));
  EXPECT_TRUE(opened.distrusted());
  expect_words(opened.why, {folder.path("pipe"), " is a pipe, not a file"});
  EXPECT_FALSE(open_private(folder.path(""), O_RDWR));
  alarm(0);
}

TEST(temporary_folder, of_a_killed_process_goes_with_the_next) {
  ScratchFolder folder;
  const std::string temporary = folder.path("");
  auto names = [&] {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(temporary))
      out.push_back(entry.path().filename());
    return out;
  };
  in_own_process({{"TMPDIR", temporary}}, [] {
    auto* left = new TemporaryFolder("kernels");  // as kill -9 leaves it
    return left->path();
  });
  ASSERT_EQ(names().size(), 1u);
  const std::string left = names()[0];
  EXPECT_EQ(left.rfind("lockstep-scratch-kernels-", 0), 0u) << left;
  EXPECT_EQ(mode_of(folder.path(left)), 0700u);
  folder.write(left + "/unit0.cpp", std::string("text"));
  folder.write("lockstep-scratch-kernels-mine", std::string("a file of that name"));
  auto makes_one = [&] {
    return in_own_process({{"TMPDIR", temporary}}, [&] {
      TemporaryFolder made("kernels");
      return str(names().size());
    });
  };
  EXPECT_EQ(makes_one(), "3") << "a folder of this minute may be one that its maker has not locked yet";
  std::filesystem::last_write_time(folder.path(left),
                                   std::filesystem::file_time_type::clock::now() - std::chrono::seconds(61));
  const std::string seen = in_own_process({{"TMPDIR", temporary}}, [&] {
    TemporaryFolder first("kernels");
    std::string out = str(names().size());  // what was left has gone; this one and the file are there
    TemporaryFolder second("kernels");
    out += str(" ", names().size());  // that of a living process stays
    TemporaryFolder other("replay");
    return out + str(" ", names().size());
  });
  EXPECT_EQ(seen, "2 3 4");
  EXPECT_EQ(names(), std::vector<std::string>{"lockstep-scratch-kernels-mine"});
  expect_words(
      in_own_process({{"TMPDIR", folder.path("none")}}, [] { return TemporaryFolder("kernels").path(); }),
      {"UserError: cannot make a folder for temporary files", "set TMPDIR to a folder with space"});
  chmod(temporary.c_str(), 0777);
  expect_words(in_own_process({{"TMPDIR", temporary}}, [] { return TemporaryFolder("kernels").path(); }),
               {"UserError: cannot make a folder for temporary files in " + temporary + ": " + temporary +
                    " is writable for every user",
                "set TMPDIR to a folder of your own"});
  chmod(temporary.c_str(), 0700);
}

// Each maker looks for what was left while the others make, lock and remove theirs.
TEST(temporary_folder, of_many_makers_at_once_stays_with_its_maker) {
  ScratchFolder folder;
  const std::string seen = in_own_process({{"TMPDIR", folder.path("")}}, [] {
    constexpr int kMakers = 4, kFolders = 50;
    std::vector<std::future<int>> makers;
    for (int i = 0; i < kMakers; ++i)
      makers.push_back(std::async(std::launch::async, [] {
        int kept = 0;
        for (int j = 0; j < kFolders; ++j) {
          TemporaryFolder made("kernels");
          kept += std::ofstream(made.path() + "/unit0.cpp").is_open();
        }
        return kept;
      }));
    int kept = 0;
    for (auto& maker : makers) kept += maker.get();
    return str(kept);
  });
  EXPECT_EQ(seen, "200");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("")));
}

TEST(trusted_path, opens_what_is_ours) {
  ScratchFolder folder;
  folder.write("a/b/file", std::string("text"));
  std::filesystem::create_symlink("b", folder.path("a/link"));
  std::filesystem::create_symlink(folder.path("a"), folder.path("far"));
  for (const char* way : {"a/b/file", "a/./b//file", "a/b/../b/file", "a/link/file", "far/link/file"}) {
    TrustedOpen opened = open_trusted_file(folder.path(way));
    ASSERT_TRUE(opened) << opened.why;
    EXPECT_EQ(opened.resolved, folder.path("a/b/file"));
    char text[8] = "";
    EXPECT_EQ(read(opened.file.get(), text, sizeof text), 4);
  }
  EXPECT_EQ(open_trusted_file(folder.path("a/none")).error, ENOENT);
  EXPECT_EQ(open_trusted_file(folder.path("a/b/file/x")).error, ENOTDIR);
  EXPECT_EQ(open_trusted_file("").error, ENOENT);
  std::filesystem::create_symlink("turn", folder.path("turn"));
  EXPECT_EQ(open_trusted_folder(folder.path("turn")).error, ELOOP);
  WithUmask with(0);
  TrustedOpen made = open_trusted_folder(folder.path("new/deep"), true);
  ASSERT_TRUE(made) << made.why;
  EXPECT_EQ(mode_of(folder.path("new/deep")), 0700u);
  EXPECT_EQ(made.resolved, folder.path("new/deep"));
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path("a"));
  EXPECT_TRUE(open_trusted_file("b/file"));
  std::filesystem::current_path(before);
}

TEST(trusted_path, refuses_what_others_may_write) {
  ScratchFolder folder;
  folder.write("open/inner/file", std::string("text"));
  chmod(folder.path("open").c_str(), 0777);
  TrustedOpen opened = open_trusted_file(folder.path("open/inner/file"));
  EXPECT_TRUE(opened.distrusted());
  expect_words(opened.why, {folder.path("open"), " is writable for every user", "mode 0777", "chmod go-w"});
  chmod(folder.path("open").c_str(), 01777);  // sticky, as /tmp
  EXPECT_TRUE(open_trusted_file(folder.path("open/inner/file")));
  chmod(folder.path("open/inner/file").c_str(), 0622);
  expect_words(open_trusted_file(folder.path("open/inner/file")).why,
               {"file is writable for every user", "mode 0622"});
  chmod(folder.path("open/inner/file").c_str(), 0600);
  ASSERT_EQ(symlink("file", folder.path("open/inner/link").c_str()), 0);
  expect_words(open_trusted_file(folder.path("open/inner/link")).why,
               {"is a symbolic link to file", "name the file itself"});
  if (geteuid() != 0) GTEST_SKIP() << "another group's folder and another user's files need root";
  ASSERT_EQ(chown(folder.path("open").c_str(), 0, kNobody), 0);
  chmod(folder.path("open").c_str(), 0770);
  expect_words(open_trusted_file(folder.path("open/inner/file")).why,
               {"open is writable for its group", "mode 0770"});
  ASSERT_EQ(chown(folder.path("open").c_str(), 0, 0), 0);  // the user's own group
  EXPECT_TRUE(open_trusted_file(folder.path("open/inner/file")));
}

TEST(trusted_path, refuses_what_another_user_owns) {
  if (geteuid() != 0) GTEST_SKIP() << "files of another user need root";
  ScratchFolder folder;
  folder.write("theirs/file", std::string("text"));
  folder.write("mine/file", std::string("text"));
  ASSERT_EQ(chown(folder.path("theirs").c_str(), kNobody, kNobody), 0);
  TrustedOpen opened = open_trusted_file(folder.path("theirs/file"));
  EXPECT_TRUE(opened.distrusted());
  expect_words(opened.why, {folder.path("theirs"), " belongs to nobody (uid 65534), mode 0755",
                            "this process is of root (uid 0)"});
  ASSERT_EQ(chown(folder.path("mine/file").c_str(), kNobody, kNobody), 0);
  expect_words(open_trusted_file(folder.path("mine/file")).why, {"mine/file belongs to nobody"});
  // A link of theirs in a folder that all may write into leads nowhere; a link of ours is followed.
  ASSERT_EQ(mkdir(folder.path("all").c_str(), 0700), 0);
  chmod(folder.path("all").c_str(), 01777);
  ASSERT_EQ(symlink("../mine", folder.path("all/link").c_str()), 0);
  EXPECT_TRUE(open_trusted_folder(folder.path("all/link")));
  ASSERT_EQ(lchown(folder.path("all/link").c_str(), kNobody, kNobody), 0);
  expect_words(open_trusted_folder(folder.path("all/link")).why, {"all/link belongs to nobody"});
}

TEST(trusted_path, of_a_user_that_is_not_root) {
  if (geteuid() != 0) GTEST_SKIP() << "becoming another user needs root";
  ScratchFolder folder;
  folder.write("home/file", std::string("text"));
  ASSERT_EQ(chmod(folder.path("").c_str(), 0755), 0);
  ASSERT_EQ(chown(folder.path("home").c_str(), kNobody, kNobody), 0);
  ASSERT_EQ(chown(folder.path("home/file").c_str(), kNobody, kNobody), 0);
  folder.write("roots/file", std::string("text"));
  const std::string seen = in_own_process({}, [&] {
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) return std::string("cannot become nobody");
    return str(open_trusted_file(folder.path("home/file")).why, "|",
               open_trusted_file(folder.path("roots/file")).why, "|",
               open_trusted_folder(folder.path("home/new/deep"), true).why, "|",
               open_trusted_folder(folder.path("roots/new"), true).why);
  });
  EXPECT_EQ(seen, str("|||", folder.path("roots/new"), ": Permission denied"));
}

// A file for others: whole, or the older one as it was.
TEST(SharedFiles, AreWrittenWholeOrNotAtAll) {
  ScratchFolder folder;
  const std::string path = folder.write("a.svg", std::string("older"));
  EXPECT_EQ(write_shared(path,
                         [](const Descriptor& file) {
                           EXPECT_EQ(write_fully(file.get(), "half of"), 0);
                           return ENOSPC;
                         }),
            "No space left on device");
  EXPECT_EQ(text_of(path), "older");
  EXPECT_EQ(write_shared(path, [](const Descriptor& file) { return write_fully(file.get(), "newer"); }), "");
  EXPECT_EQ(text_of(path), "newer");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path("")), {}), 1) << "no draft is left";
  EXPECT_EQ(write_shared("/", [](const Descriptor&) { return 0; }), "it is a folder, not a plain file");
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(write_shared(folder.path("pipe"), [](const Descriptor&) { return 0; }),
            create_shared(folder.path("pipe")).why);
  EXPECT_NE(create_shared(folder.path("pipe")).why, "");
}

}  // namespace
}  // namespace lockstep
