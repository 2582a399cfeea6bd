// The folder of the kernel cache: modes, key and seal, and every kind of entry or folder that is not ours.
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/codegen/cache/kernel_cache.h"
#include "core/base/log.h"
#include "tests/support/own_process.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

using compiler::cpu::KernelCache;
constexpr uid_t kNobody = 65534;

mode_t mode_of(const std::string& path) {
  struct stat at{};
  EXPECT_EQ(lstat(path.c_str(), &at), 0) << path;
  return at.st_mode & 07777;
}
std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What is warned of within a scope.
class Warnings {
 public:
  Warnings() {
    logs::set_sink([this](int, const std::string& line) { lines_ += line + "\n"; });
  }
  ~Warnings() { logs::set_sink({}); }
  std::string take() { return std::exchange(lines_, ""); }

 private:
  std::string lines_;
};

class kernel_cache_folder : public testing::Test {
 protected:
  std::string dir() const { return folder_.path("cache"); }
  std::string entry() const { return folder_.path("cache/e.kernels"); }
  void fill() { ASSERT_EQ(KernelCache(dir()).write("e.kernels", "machine code"), ""); }
  std::string read() { return KernelCache(dir()).read("e.kernels").value_or("absent"); }
  ScratchFolder folder_;
  Warnings warnings_;
};

TEST_F(kernel_cache_folder, is_private_under_every_umask) {
  for (mode_t mask : {0000, 0022, 0077}) {
    ScratchFolder folder;
    const mode_t before = umask(mask);
    EXPECT_EQ(KernelCache(folder.path("a/cache")).write("e.kernels", "machine code"), "");
    umask(before);
    for (const char* name : {"a", "a/cache"}) EXPECT_EQ(mode_of(folder.path(name)), 0700u) << mask;
    for (const char* name : {"a/cache/key", "a/cache/e.kernels"})
      EXPECT_EQ(mode_of(folder.path(name)), 0600u) << mask;
    EXPECT_EQ(std::filesystem::file_size(folder.path("a/cache/key")), 32u);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path("a/cache")), {}), 2)
        << "nothing but key and entry";
  }
}

TEST_F(kernel_cache_folder, takes_no_byte_that_it_did_not_seal) {
  fill();
  const std::string whole = text_of(entry());
  EXPECT_EQ(read(), "machine code");
  EXPECT_EQ(warnings_.take(), "");
  std::vector<std::string> damaged = {"", whole.substr(0, 5), whole.substr(0, whole.size() - 1), whole + "x",
                                      "x" + whole};
  for (size_t at = 0; at < whole.size(); ++at) {
    damaged.push_back(whole);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 4);
  }
  for (const auto& bytes : damaged) {
    folder_.write("cache/e.kernels", bytes);
    EXPECT_EQ(read(), "absent") << bytes.size();
    expect_words(warnings_.take(),
                 {"kernel cache: ", entry(),
                  " is damaged, or was made under another key; it is not used, and is made again"});
    EXPECT_FALSE(std::filesystem::exists(entry()));
  }
  folder_.write("cache/e.kernels", whole);
  EXPECT_EQ(read(), "machine code");
  folder_.write("cache/other.kernels", whole);  // sealed, but under another name
  EXPECT_FALSE(KernelCache(dir()).read("other.kernels"));
}

TEST_F(kernel_cache_folder, takes_nothing_from_another_cache) {
  fill();
  KernelCache(folder_.path("theirs")).write("e.kernels", "other code");
  std::filesystem::copy_file(folder_.path("theirs/e.kernels"), entry(),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(read(), "absent");
  expect_words(warnings_.take(), {"was made under another key"});
  fill();
}

// A folder of the user's own may hold a file of this name: its bytes stay.
TEST_F(kernel_cache_folder, leaves_a_foreign_file_named_key_as_it_is) {
  auto refused = [&](const std::string& content, mode_t mode, const std::string& why) {
    const std::string path = folder_.write("cache/key", content);
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    const std::string words = path + " " + why + ", and is not the key of a cache: ",
                      way = ". If nobody needs that file, remove it: kernels are then compiled again";
    try {
      KernelCache cache(dir());
      ADD_FAILURE() << "no UserError";
    } catch (const UserError& error) {
      EXPECT_EQ(error.what(),
                str("the kernel cache ", dir(), ", is not used: ", words, "name a folder of your own", way));
    }
    expect_words(in_own_process({{"LOCKSTEP_CACHE", dir()}}, [] { return KernelCache().dir(); }),
                 {"UserError: the kernel cache of LOCKSTEP_CACHE, " + dir() + ", is not used: " + words +
                  "set LOCKSTEP_CACHE to a folder of your own, or unset it" + way});
    EXPECT_EQ(text_of(path), content);
    EXPECT_EQ(mode_of(path), mode);
  };
  fill();
  refused("-----BEGIN PRIVATE KEY-----", 0600, "has 27 bytes, where a key has 32");
  refused("", 0600, "has 0 bytes, where a key has 32");
  refused(std::string(32, 'k'), 0644, "is readable for others");
}

TEST_F(kernel_cache_folder, is_tried_without_a_trace) {
  fill();
  folder_.write("cache/doctor", "mine");
  EXPECT_EQ(KernelCache(dir()).try_write(), "");
  EXPECT_EQ(text_of(folder_.path("cache/doctor")), "mine");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir()), {}), 3) << "key, entry, doctor";
}

TEST_F(kernel_cache_folder, opens_no_link_pipe_or_folder) {
  fill();
  const std::string whole = text_of(entry());
  folder_.write("elsewhere", whole);
  alarm(20);
  std::filesystem::remove(entry());
  std::filesystem::create_symlink(folder_.path("elsewhere"), entry());
  EXPECT_EQ(read(), "absent");
  expect_words(warnings_.take(), {entry(), " is a symbolic link to ", "; it is not used"});
  ASSERT_EQ(mkfifo(entry().c_str(), 0600), 0);
  EXPECT_EQ(read(), "absent");
  expect_words(warnings_.take(), {entry(), " is a pipe, not a file"});
  std::filesystem::create_directories(entry() + "/full");
  EXPECT_EQ(read(), "absent");
  expect_words(warnings_.take(), {entry(), " is a folder, not a file"});
  EXPECT_EQ(KernelCache(dir()).write("e.kernels", "machine code"), "Is a directory");
  EXPECT_EQ(text_of(folder_.path("elsewhere")), whole);
  alarm(0);
}

TEST_F(kernel_cache_folder, of_a_path_that_others_may_write_is_refused) {
  fill();
  chmod(folder_.path("").c_str(), 0777);
  try {
    KernelCache cache(dir());
    ADD_FAILURE() << "no UserError";
  } catch (const UserError& error) {
    expect_words(
        error.what(),
        {"the kernel cache " + dir() + ", is not used: " + folder_.path("") + " is writable for every user",
         "mode 0777", "chmod go-w", "Code out of it would run as you: name a folder of your own"});
  }
  expect_words(in_own_process({{"LOCKSTEP_CACHE", dir()}}, [] { return KernelCache().dir(); }),
               {"UserError: the kernel cache of LOCKSTEP_CACHE, ",
                "set LOCKSTEP_CACHE to a folder of your own, or unset it"});
  // The default folder is left alone, and the run goes on without one.
  expect_words(in_own_process({{"LOCKSTEP_CACHE", ""}, {"XDG_CACHE_HOME", folder_.path("x")}},
                              [] {
                                std::string said;
                                logs::set_sink([&](int, const std::string& line) { said += line; });
                                KernelCache cache, again;
                                return str(said, "|", cache.write("e.kernels", "code"), "|",
                                           cache.read("e.kernels").value_or("absent"));
                              }),
               {"x/lockstep is not used: ",
                "kernels are compiled in every run. Set LOCKSTEP_CACHE to a folder of your own||absent"});
  EXPECT_FALSE(std::filesystem::exists(folder_.path("x")));
  chmod(folder_.path("").c_str(), 0700);
}

TEST_F(kernel_cache_folder, without_a_home_is_nobody_elses) {
  if (geteuid() != 0) GTEST_SKIP() << "files of another user need root";
  ASSERT_EQ(chmod(folder_.path("").c_str(), 01777), 0);
  const std::string at = folder_.path(str("lockstep-cache-", getuid()));
  const std::vector<std::pair<std::string, std::string>> environment = {
      {"LOCKSTEP_CACHE", ""}, {"XDG_CACHE_HOME", ""}, {"HOME", ""}, {"TMPDIR", folder_.path("")}};
  auto used = [&] {
    return in_own_process(environment, [] {
      std::string said;
      logs::set_sink([&](int, const std::string& line) { said += line; });
      KernelCache cache;
      const std::string written = cache.write("e.kernels", "code");
      return str(cache.dir(), "|", said, "|", written, "|", cache.read("e.kernels").value_or("absent"));
    });
  };
  EXPECT_EQ(used(), at + "|||code");
  EXPECT_EQ(mode_of(at), 0700u);
  auto planted = [&](const std::string& words) {
    const std::string text = used();
    expect_words(text, {at + " is not used: " + at + words, "||absent"});
  };
  ASSERT_EQ(chown(at.c_str(), kNobody, kNobody), 0);  // made first by another user
  planted(" belongs to nobody (uid 65534), mode 0700");
  std::filesystem::rename(at, folder_.path("theirs"));
  ASSERT_EQ(symlink("theirs", at.c_str()), 0);
  ASSERT_EQ(lchown(at.c_str(), kNobody, kNobody), 0);
  planted(" belongs to nobody (uid 65534)");
  std::filesystem::remove(at);
  ASSERT_EQ(mkdir(at.c_str(), 0777), 0);
  ASSERT_EQ(chmod(at.c_str(), 0777), 0);
  planted(" is writable for every user");
  // An entry, and a key, of another user in a folder of ours.
  ASSERT_EQ(chmod(at.c_str(), 0700), 0);
  EXPECT_EQ(used(), at + "|||code");
  ASSERT_EQ(chown((at + "/e.kernels").c_str(), kNobody, kNobody), 0);
  const std::string text = in_own_process(environment, [] {
    std::string said;
    logs::set_sink([&](int, const std::string& line) { said += line; });
    return str(KernelCache().read("e.kernels").value_or("absent"), "|", said);
  });
  expect_words(text, {"absent|", "/e.kernels belongs to nobody (uid 65534), mode 0600"});
  ASSERT_EQ(chown((at + "/key").c_str(), kNobody, kNobody), 0);
  expect_words(used(), {" is not used: " + at + "/key belongs to nobody", "and is not the key of a cache",
                        "remove it: kernels are then compiled again||absent"});
}

TEST_F(kernel_cache_folder, of_root_holds_nothing_for_another_user) {
  if (geteuid() != 0) GTEST_SKIP() << "becoming another user needs root";
  fill();
  ASSERT_EQ(chmod(folder_.path("").c_str(), 0755), 0);
  ASSERT_EQ(chmod(dir().c_str(), 0755), 0);
  const std::string text = in_own_process({}, [&] {
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) return std::string("cannot become nobody");
    const KernelCache cache(dir());
    return str(cache.read("e.kernels").value_or("absent"), "|", cache.write("f.kernels", "code"));
  });
  EXPECT_EQ(text, str("absent|its key cannot be read: ", dir(), "/key: Permission denied"));
  EXPECT_EQ(warnings_.take(), "");
  EXPECT_EQ(read(), "machine code");
}

TEST_F(kernel_cache_folder, keeps_what_was_used_last) {
  ScratchFolder folder;
  const std::string dir = folder.path("cache");
  KernelCache cache(dir);
  auto age = [&](const std::string& name, int hours) {
    std::filesystem::last_write_time(
        dir + "/" + name, std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  for (const char* name : {"a.kernels", "b.kernels", "c.kernels"})
    ASSERT_EQ(cache.write(name, std::string(1000, 'x')), "");
  age("a.kernels", 3), age("b.kernels", 2), age("c.kernels", 1), age("key", 9);
  ASSERT_TRUE(cache.read("a.kernels"));  // used now
  const int64_t each = static_cast<int64_t>(std::filesystem::file_size(dir + "/a.kernels"));
  EXPECT_EQ(cache.prune(3 * each), 0);
  EXPECT_EQ(cache.prune(2 * each), each);
  EXPECT_FALSE(cache.read("b.kernels"));
  EXPECT_TRUE(cache.read("a.kernels"));
  EXPECT_TRUE(cache.read("c.kernels"));
  folder.write("cache/thesis.kernels", std::string("precious"));
  folder.write("cache/notes", std::string("precious"));
  EXPECT_EQ(cache.prune(0), 2 * each);
  for (const char* stays : {"/key", "/thesis.kernels", "/notes"})
    EXPECT_TRUE(std::filesystem::exists(dir + stays)) << stays;
}

TEST_F(kernel_cache_folder, has_a_limit_that_is_a_number) {
  for (const char* word : {"-5", "1e3", "100000000000000000000", "much"})
    EXPECT_EQ(in_own_process({{"LOCKSTEP_CACHE", dir()}, {"LOCKSTEP_CACHE_LIMIT", word}},
                             [] { return KernelCache().dir(); }),
              str("UserError: environment: LOCKSTEP_CACHE_LIMIT is \"", word,
                  "\"; give a number of MiB, or 0 for no limit"));
}

TEST_F(kernel_cache_folder, is_cut_to_its_limit_by_who_writes) {
  ScratchFolder folder;
  const std::string dir = folder.path("cache");
  KernelCache cache(dir);
  setenv("LOCKSTEP_CACHE_LIMIT", "1", 1);
  for (int i = 0; i < 130; ++i) ASSERT_EQ(cache.write(str(i, ".kernels"), std::string(20000, 'x')), "");
  int64_t total = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir))
    total += static_cast<int64_t>(entry.file_size());
  EXPECT_LT(total, (1 << 20) + 64 * 20100) << "looked at for each 64 files";
  setenv("LOCKSTEP_CACHE_LIMIT", "all", 1);
  try {
    cache.write("k", "x");
    ADD_FAILURE() << "taken";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "environment: LOCKSTEP_CACHE_LIMIT is \"all\"; give a number of MiB, or 0 for no limit");
  }
  unsetenv("LOCKSTEP_CACHE_LIMIT");
}

TEST_F(kernel_cache_folder, has_one_key_for_many_that_come_at_once) {
  const std::string text = in_own_process({}, [&] {
    std::vector<int> children;
    for (int i = 0; i < 8; ++i)
      if (pid_t child = fork(); child == 0) {
        KernelCache cache(dir());
        _exit(cache.write(str("e", i, ".kernels"), "code").empty() ? 0 : 1);
      } else {
        children.push_back(child);
      }
    int bad = 0, status = 0;
    for (int child : children) bad += waitpid(child, &status, 0) != child || status != 0;
    KernelCache cache(dir());
    for (int i = 0; i < 8; ++i) bad += cache.read(str("e", i, ".kernels")) != "code";
    return str(bad);
  });
  EXPECT_EQ(text, "0");
}

}  // namespace
}  // namespace lockstep
