// What shells, man and editors are given: completion, the manual page, the JSON Schema of configs.
#include <regex>

#include "core/base/json.h"
#include "launcher/config/config.h"
#include "tests/support/real_run.h"

namespace lockstep::tests {
namespace {

class ShellWords : public RealRun {
 protected:
  std::string said(const std::vector<std::string>& words) {
    auto result = trainrun(words);
    EXPECT_EQ(result.code, kExitOk) << join(words, " ") << "\n" << result.output;
    return result.output;
  }
  // What bash offers behind a line of words, the last of which is being written.
  std::string offered(const std::vector<std::string>& words) {
    scratch_.write("completion", said({"completion", "bash"}));
    std::string quoted;
    for (const auto& word : words) quoted += str(" '", word, "'");
    scratch_.write("ask.sh", str("source ./completion\nCOMP_WORDS=(", quoted,
                                 ")\nCOMP_CWORD=", words.size() - 1, "\nCOMP_LINE='", join(words, " "),
                                 "'\nCOMP_POINT=${#COMP_LINE}\n_trainrun\n", "echo \"${COMPREPLY[@]}\"\n"));
    Process bash({"/bin/bash", "ask.sh"}, scratch_.path("out"));
    EXPECT_EQ(bash.wait(30), 0) << bash.output();
    return trim(bash.output());
  }
};

TEST_F(ShellWords, BashOffersCommandsFlagsKeysAndFiles) {
  EXPECT_EQ(offered({"trainrun", "pl"}), "plan");
  EXPECT_EQ(offered({"trainrun", "--max"}), "--max-restarts");
  EXPECT_EQ(offered({"trainrun", "plan", "--optim.schedule.w"}), "--optim.schedule.warmup=");
  EXPECT_EQ(offered({"trainrun", "ckpt", "ver"}), "verify");
  scratch_.write("first.json", std::string("{}"));
  EXPECT_EQ(offered({"trainrun", "show", "fir"}), "first.json");
}

TEST_F(ShellWords, OtherShells) {
  EXPECT_HAS(said({"completion", "zsh"}), "bashcompinit");
  const std::string fish = said({"completion", "fish"});
  EXPECT_HAS(fish, "complete -c trainrun -n __fish_use_subcommand -a plan -d ");
  EXPECT_HAS(fish, "complete -c trainrun -l optim.lr -r -d ");
  auto result = trainrun({"completion", "tcsh"});
  EXPECT_EQ(result.code, kExitUser);
  EXPECT_EQ(result.output, "trainrun: completion: there is no shell \"tcsh\"; write bash, zsh or fish\n");
}

TEST_F(ShellWords, TheManualPageHasCommandsKeysAndVariables) {
  const std::string page = said({"man"});
  EXPECT_EQ(page.rfind(".TH TRAINRUN 1 ", 0), 0u);
  EXPECT_HAS(page, "\n.ad l\n");  // a line of a long list, which cannot be adjusted, would be warned of
  for (const char* part : {".SS trainrun plan", ".SS trainrun ckpt verify", ".B \\-\\-max\\-restarts",
                           ".B optim.lr\n", ".B LOCKSTEP_CACHE\n", "Exit codes"})
    EXPECT_HAS(page, part);
  for (const auto& line : split(page, '\n'))
    if (!line.empty() && (line[0] == '.' || line[0] == '\'')) {
      EXPECT_TRUE(std::regex_search(line, std::regex("^\\.(TH|ad|SH|SS|TP|B|nf|fi)( |$)"))) << line;
    }
}

TEST_F(ShellWords, TheSchemaHasEveryKeyAsTheReferenceHasIt) {
  const Json schema = Json::parse(said({"show", "--schema"}));
  for (const auto& key : launcher::config_keys()) {
    Json node = schema;
    for (const auto& part : split(key.path, '.')) node = node.at("properties").at(part);
    EXPECT_EQ(node.at("default"), key.fallback) << key.path;
    if (node.contains("enum") && !key.fallback.is_array()) {
      EXPECT_NE(std::find(node["enum"].begin(), node["enum"].end(), key.fallback), node["enum"].end())
          << key.path;
    }
    if (node.contains("pattern")) {
      EXPECT_TRUE(
          std::regex_match(key.fallback.get<std::string>(), std::regex(node["pattern"].get<std::string>())))
          << key.path;
    }
    EXPECT_HAS(node.at("description").get<std::string>(), key.help);
  }
  const Json& device = schema["properties"]["train"]["properties"]["device"];
  const std::regex pattern(device["pattern"].get<std::string>());
  for (const char* good : {"auto", "cuda:3", "plugin:./libx.so"})
    EXPECT_TRUE(std::regex_match(good, pattern)) << good;
  for (const char* bad : {"gpu", "cuda:", "cuda:x"}) EXPECT_FALSE(std::regex_match(bad, pattern)) << bad;
  EXPECT_EQ(schema["additionalProperties"], false);
}

TEST_F(ShellWords, AConfigMayNameItsSchemaAndHaveComments) {
  write_tiny();
  std::string text = file_text("c.json");
  text.replace(text.find('{'), 1, "{\n  \"$schema\": \"lockstep.schema.json\",  // for the editor\n");
  scratch_.write("d.json", text);
  EXPECT_HAS(said({"show", "d.json"}), "\"name\": ");
}

}  // namespace
}  // namespace lockstep::tests
