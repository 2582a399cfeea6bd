// What a command is making when it fails or is ended.
#include "core/files/unfinished.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "launcher/supervise/worker/signals_apart.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

// By an exception, and by a signal in the order of a stack; what is kept stays.
TEST(Unfinished, IsUndone) {
  ScratchFolder folder;
  const auto exists = [&](const char* name) { return std::filesystem::exists(folder.path(name)); };
  const auto make = [&](Unfinished& made, const std::string& name) {
    made.add(Unfinished::Kind::entry, folder.path(name));
    folder.write(name, std::string("half"));
  };
  try {
    Unfinished kept, made;
    make(kept, "kept");
    kept.keep();
    made.add(Unfinished::Kind::entry, folder.path("out"));
    make(made, "out/one");
    throw std::runtime_error("the disk is full");
  } catch (const std::runtime_error&) {}
  EXPECT_TRUE(exists("kept"));
  EXPECT_FALSE(exists("out"));
  const pid_t child = fork();
  if (child == 0) {
    Unfinished made, all(Unfinished::Kind::tree, folder.path("tree"));
    folder.write("tree/a/b", std::string("half"));
    made.add(Unfinished::Kind::entry, folder.path("shared"));
    make(made, "shared/one");
    folder.write("shared/mine", std::string("mine"));
    launcher::undo_on_signals();
    folder.write("begun", std::string());
    for (;;) pause();
  }
  while (!exists("begun")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(child, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_FALSE(exists("tree"));
  EXPECT_FALSE(exists("shared/one"));
  EXPECT_TRUE(exists("shared/mine")) << "somebody else's";
}

}  // namespace
}  // namespace lockstep
