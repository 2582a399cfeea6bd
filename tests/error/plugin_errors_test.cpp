// A plugin's library that is not opened, on its words: no place, not there, of another user, writable for
// others, a link.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/codegen/plugin.h"
#include "core/base/error.h"
#include "tests/support/own_process.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

std::string refused(const std::string& path) {
  try {
    compiler::load_plugin(path);
  } catch (const UserError& error) { return error.what(); }
  return "opened";
}

TEST(plugin_errors, say_what_is_wrong_with_the_path) {
  ScratchFolder folder;
  expect_words(refused(""), {"names no library; write plugin:PATH"});
  expect_words(refused("libfoo.so"), {"train.device plugin:libfoo.so names no place",
                                      "plugin:./libfoo.so or plugin:/usr/lib/libfoo.so"});
  expect_words(refused(folder.path("none.so")), {"train.device plugin:" + folder.path("none.so") + ": " +
                                                 folder.path("none.so") + ": No such file"});
  const std::string text = folder.write("text.so", std::string("no library"));
  expect_words(refused(text), {"train.device plugin:" + text + ": " + text + ": file too short"});
  EXPECT_EQ(refused(text).find("/proc/self"), std::string::npos);
}

TEST(plugin_errors, say_whose_it_is) {
  ScratchFolder folder;
  const std::string library = folder.write("a/lib.so", std::string("no library"));
  chmod(library.c_str(), 0666);
  expect_words(
      refused(library),
      {"train.device plugin:" + library + " is not opened: " + library + " is writable for every user",
       "mode 0666", "chmod go-w", "Its code would run as you: put it where only you or root can write"});
  chmod(library.c_str(), 0600);
  chmod(folder.path("a").c_str(), 0777);
  expect_words(refused(library), {" is not opened: " + folder.path("a") + " is writable for every user"});
  chmod(folder.path("a").c_str(), 0700);
  ASSERT_EQ(symlink("lib.so", folder.path("a/link.so").c_str()), 0);
  expect_words(refused(folder.path("a/link.so")), {"is a symbolic link to lib.so; name the file itself"});
  alarm(20);
  ASSERT_EQ(mkfifo(folder.path("a/pipe.so").c_str(), 0600), 0);
  expect_words(refused(folder.path("a/pipe.so")), {"is a pipe, not a file"});
  expect_words(refused(folder.path("a")), {"is a folder, not a file"});
  alarm(0);
  if (geteuid() != 0) GTEST_SKIP() << "files of another user need root";
  ASSERT_EQ(chown(library.c_str(), 65534, 65534), 0);
  expect_words(refused(library),
               {" is not opened: " + library +
                " belongs to nobody (uid 65534), mode 0600, and this process is of root (uid 0)"});
}

}  // namespace
}  // namespace lockstep
