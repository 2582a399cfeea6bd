// Plugins of configs that a run or a checkpoint holds: what counts as stored, and what is refused in which
// words.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/error.h"
#include "launcher/config/stored.h"
#include "tests/support/own_process.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {

using namespace launcher;

namespace {

namespace fs = std::filesystem;

TEST(stored_config, is_what_lies_in_a_run_or_a_checkpoint) {
  ScratchFolder folder;
  const std::string json = "{}";
  auto stored = [&](const std::string& name) { return stored_in(folder.write(name, json)); };
  EXPECT_EQ(stored("runs/a/config.json"), folder.path("runs/a"));
  EXPECT_EQ(stored("runs/a/logs/config.json"), folder.path("runs/a"));
  folder.write("b/metrics.jsonl", json);
  EXPECT_EQ(stored("b/config.json"), folder.path("b"));
  folder.write("c/lock", json);
  EXPECT_EQ(stored("c/config.json"), "");
  EXPECT_EQ(stored("c/logs/config.json"), folder.path("c"));
  EXPECT_EQ(stored("c/config.json"), folder.path("c"));
  folder.write("d/ckpt/step-5/manifest.json", json);
  EXPECT_EQ(stored("d/config.json"), folder.path("d"));
  EXPECT_EQ(stored("d/ckpt/step-5/config.json"), folder.path("d/ckpt/step-5"));
  fs::create_symlink(folder.path("d/config.json"),
                     folder.path("mine.json"));  // a link to a stored one is one
  EXPECT_EQ(stored_in(folder.path("mine.json")), folder.path("d"));
  for (const char* own :
       {"config.json", "configs/gpt.json", "project/logs/config.json", "e/deep/er/config.json"})
    EXPECT_EQ(stored(own), "") << own;
  fs::create_directories(folder.path("project/ckpt"));  // of the project, two levels above
  EXPECT_EQ(stored("project/configs/config.json"), "");
  const fs::path before = fs::current_path();
  fs::current_path(folder.path("runs/a"));
  EXPECT_EQ(stored_in("config.json"), folder.path("runs/a"));
  fs::current_path(before);
}

std::string refusal(const std::string& device, const std::string& folder,
                    const std::vector<Override>& overrides = {}) {
  RunConfig config;
  config.train.device = device;
  try {
    refuse_stored_plugin(config, "runs/x/config.json", folder, overrides, "trainrun plan runs/x/config.json");
  } catch (const UserError& error) { return error.what(); }
  return "opened";
}

TEST(stored_config, opens_no_plugin_that_the_command_line_does_not_name) {
  expect_words(
      refusal("plugin:/evil/lib.so", "/runs/x"),
      {"runs/x/config.json names train.device \"plugin:/evil/lib.so\", a library whose code would run as you",
       "stored in /runs/x", "`trainrun plan runs/x/config.json --train.device=plugin:/evil/lib.so`",
       "--train.device=cpu"});
  expect_words(refusal("plugin:./evil.so", "/runs/x"),
               {"--train.device=plugin:" + (fs::current_path() / "evil.so").string()});
  const std::string raw = refusal("plugin:/evil/\x1b[2Jlib.so", "/runs/x");
  expect_words(raw, {"\\u001b[2Jlib.so", "--train.device=plugin:/PATH/OF/ITS/LIBRARY.so"});
  EXPECT_EQ(raw.find('\x1b'), std::string::npos);
  expect_words(refusal("plugin:./mine.so", "/runs/x", {{"train.device", "plugin:./mine.so"}}),
               {"a relative path", "runs/x/config.json",
                "--train.device=plugin:" + (fs::current_path() / "mine.so").string()});
  EXPECT_EQ(refusal("plugin:/mine.so", "/runs/x", {{"train.device", "plugin:/mine.so"}}), "opened");
  for (const char* device : {"cpu", "auto", "cuda", "cuda:1"})
    EXPECT_EQ(refusal(device, "/runs/x"), "opened");
  EXPECT_EQ(refusal("plugin:./mine.so", ""), "opened") << "a config of one's own";
}

TEST(stored_config, opens_no_library_of_ops_that_the_command_line_does_not_name) {
  auto refusal = [](const std::vector<std::string>& paths, const std::string& folder,
                    const std::vector<Override>& overrides = {}) -> std::string {
    RunConfig config;
    config.compile.load_ops = paths;
    try {
      refuse_stored_plugin(config, "runs/x/config.json", folder, overrides,
                           "trainrun plan runs/x/config.json");
    } catch (const UserError& error) { return error.what(); }
    return "opened";
  };
  expect_words(
      refusal({"/evil/a.so", "./b.so"}, "/runs/x"),
      {"runs/x/config.json names compile.load_ops \"/evil/a.so, ./b.so\", libraries whose code would "
       "run as you",
       "stored in /runs/x", "--compile.load_ops=[/evil/a.so," + (fs::current_path() / "b.so").string() + "]`",
       "or do without them: --compile.load_ops=[]"});
  const std::string raw = refusal({"/evil/\x1b[2Jlib.so"}, "/runs/x");
  expect_words(raw, {"\\u001b[2Jlib.so", "--compile.load_ops=[/PATH/OF/ITS/LIBRARY.so]"});
  EXPECT_EQ(raw.find('\x1b'), std::string::npos);
  const std::vector<Override> named = {{"compile.load_ops", "..."}};
  expect_words(refusal({"/mine.so", "./mine.so"}, "/runs/x", named), {"with a relative path"});
  EXPECT_EQ(refusal({"/mine.so"}, "/runs/x", named), "opened");
  EXPECT_EQ(refusal({}, "/runs/x"), "opened");
  EXPECT_EQ(refusal({"./mine.so"}, ""), "opened") << "a config of one's own";
}

TEST(stored_config, holds_an_absolute_path) {
  auto made = [](const std::string& device) {
    RunConfig config;
    config.train.device = device;
    make_plugin_absolute(config);
    return config.train.device;
  };
  EXPECT_EQ(made("plugin:./lib/../far.so"), "plugin:" + (fs::current_path() / "far.so").string());
  for (const char* same : {"plugin:/lib/far.so", "cpu", "auto"}) EXPECT_EQ(made(same), same);
  try {
    made("plugin:far.so");
    ADD_FAILURE() << "no UserError";
  } catch (const UserError& error) {
    expect_words(error.what(),
                 {"train.device plugin:far.so names no place", "plugin:./far.so or plugin:/usr/lib/far.so"});
  }
}

}  // namespace
}  // namespace lockstep
