// A shared library of ops from outside the tree: its laws hold, a program trains with it alone and on two
// ranks with the same bits, ranks with other code do not start, and what is no such library is refused.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "compiler/laws/check_op.h"
#include "core/base/error.h"
#include "core/table/op_library.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

struct Ran {
  int status = 0;
  std::string output;
};
Ran run(const ScratchFolder& folder, const std::string& command) {
  const std::string file = folder.path("output");
  const int status =
      std::system(str("cd ", folder.path(""), " && timeout 100 ", command, " > ", file, " 2>&1").c_str());
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return {WEXITSTATUS(status), text.str()};
}
std::vector<std::string> step_lines(const Ran& ran) {
  EXPECT_EQ(ran.status, 0) << ran.output;
  std::vector<std::string> lines;
  for (const auto& line : split(ran.output, '\n'))
    if (line.rfind("step ", 0) == 0) lines.push_back(line);
  return lines;
}

TEST(OpLibrary, OneAndTwoRanksTrainWithTheSameBits) {
  ScratchFolder folder;
  const auto one = step_lines(run(folder, str(PROGRAM, " ", LIBRARY)));
  const auto two = step_lines(run(folder, str(TRAINRUN, " --nproc 2 ", PROGRAM, " ", LIBRARY)));
  ASSERT_EQ(one.size(), 13u);
  EXPECT_EQ(one, two);
}
TEST(OpLibrary, RanksWithOtherCodeDoNotStart) {
  ScratchFolder folder;
  const Ran ran = run(folder, str(TRAINRUN, " --nproc 2 ", PROGRAM, " ", LIBRARY, " differs"));
  EXPECT_EQ(ran.status, 2) << ran.output;
  for (const char* words : {"mine::more", "every rank must register the same ops from the same code"})
    EXPECT_NE(ran.output.find(words), std::string::npos) << ran.output;
}
TEST(OpLibrary, ItsOpsObeyTheLaws) {
  load_ops(LIBRARY);
  load_ops(LIBRARY);  // once
  for (const char* name : {"mine::cube", "mine::scan"}) {
    const compiler::OpCheck check = compiler::check_op(name);
    EXPECT_TRUE(check.ok()) << check.text();
    EXPECT_GE(check.laws.size(), 6u) << check.text();
  }
}

std::string refused(const std::string& path) {
  try {
    load_ops(path);
  } catch (const UserError& error) { return error.what(); }
  return "opened";
}
void expect_words(const std::string& text, const std::string& words) {
  EXPECT_NE(text.find(words), std::string::npos) << text;
}
TEST(OpLibrary, WhatIsNoneIsRefused) {
  ScratchFolder folder;
  expect_words(refused(""), "[load_ops] the path of the library is empty");
  expect_words(refused("libmine.so"),
               "[load_ops] libmine.so names no place, and a library's owner is checked before "
               "it is opened; write a path, as in ./libmine.so or /usr/lib/libmine.so");
  expect_words(refused(folder.path("none.so")), "none.so: No such file");
  const std::string text = folder.write("text.so", std::string("no library"));
  expect_words(refused(text), "file too short");
  chmod(text.c_str(), 0666);
  expect_words(refused(text), "is writable for every user");
  expect_words(refused(NO_OPS), "has no entry \"lockstep_op_library\"; is it a library of ops?");
  expect_words(refused(OLD_OPS),
               "was built against \"lockstep ops 0, gcc 1\", this program is \"lockstep ops 1, gcc ");
  expect_words(refused(APART),
               "has an op table of its own, so that this program would not see its ops; build the "
               "program with its symbols exported");
}

}  // namespace
}  // namespace lockstep
