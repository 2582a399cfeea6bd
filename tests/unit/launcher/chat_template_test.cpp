// The template of conversations in what is exported: written where it is missing, and left where it is there.
#include "launcher/hf/chat_template.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::hf {
namespace {

const Json kTrained = {{"name", "chatml"}, {"message_token", "<|im_start|>"}, {"jinja", "{{ ours }}"}};

TEST(ChatTemplateOfAnExport, IsWrittenBesideATokenizer) {
  ScratchFolder folder;
  const std::string at = folder.path("");
  EXPECT_FALSE(with_chat_template(at, kTrained));  // no tokenizer goes with it
  folder.write("tokenizer.json", "{}");
  EXPECT_FALSE(with_chat_template(at, Json()));  // trained on no conversations
  EXPECT_FALSE(with_chat_template(at, {{"name", "chatml"}, {"jinja", 5}, {"message_token", "a"}}));
  EXPECT_EQ(with_chat_template(at, kTrained)->dump(),
            R"({"tokenizer_class":"PreTrainedTokenizerFast","chat_template":"{{ ours }}"})");
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "X", "eos_token": "</s>"})");
  EXPECT_EQ(with_chat_template(at, kTrained)->dump(),
            R"({"tokenizer_class":"X","eos_token":"</s>","chat_template":"{{ ours }}"})");
  for (const std::string& none : {std::string("["), "{\"chat_template\": " + std::string(100000, '[')}) {
    folder.write("tokenizer_config.json", none);
    EXPECT_FALSE(with_chat_template(at, kTrained));
  }
}

TEST(ChatTemplateOfAnExport, OneWithTheSameTokenStays) {
  ScratchFolder folder;
  const std::string at = folder.path("");
  folder.write("tokenizer_config.json", R"({"chat_template": "{{ '<|im_start|>' + tools }}"})");
  EXPECT_FALSE(with_chat_template(at, kTrained));
  folder.write("tokenizer_config.json", R"({"chat_template": "[INST]"})");
  EXPECT_EQ((*with_chat_template(at, kTrained))["chat_template"], "{{ ours }}");
  // A file of its own is what transformers reads.
  folder.write("chat_template.jinja", "{{ '<|im_start|>' }}");
  EXPECT_FALSE(with_chat_template(at, kTrained));
  EXPECT_TRUE(std::filesystem::exists(folder.path("chat_template.jinja")));
  folder.write("chat_template.jinja", "[INST]");
  EXPECT_EQ((*with_chat_template(at, kTrained))["chat_template"], "{{ ours }}");
  EXPECT_FALSE(std::filesystem::exists(folder.path("chat_template.jinja")));
}

}  // namespace
}  // namespace lockstep::launcher::hf
