// What tests of tokenizer files share: a small file, changed in one place, and what is said of it.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/error.h"
#include "launcher/data/dataset.h"
#include "launcher/data/tokenizer/tokenizer.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher::data {

using nlohmann::json;

class TokenizerErrors : public testing::Test {
 protected:
  // A whole tokenizer of characters a, b, ab.
  static json small() {
    return json::parse(
        R"({"added_tokens": [{"id": 3, "content": "<end>", "special": true, "normalized": false}],
      "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
      "model": {"type": "BPE", "unk_token": null, "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
  }
  std::string refusal(const json& file) { return refusal_of(folder_.write("t.json", file.dump())); }
  static std::string refusal_of(const std::string& path) {
    try {
      Tokenizer{path};
    } catch (const UserError& error) { return error.what(); }
    return "no error";
  }
  static std::string data_refusal(const DataOptions& options) {
    try {
      Dataset{options};
    } catch (const UserError& error) { return error.what(); }
    return "no error";
  }
  void expect_says(const json& file, const std::string& words) { expect_words(refusal(file), words); }
  static void expect_words(const std::string& message, const std::string& words) {
    EXPECT_NE(message.find(words), std::string::npos) << message << "\ndoes not say: " << words;
  }
  // The file with a member replaced: with("model/type", "Unigram").
  static json with(const std::string& at, const json& value) {
    json out = small();
    out[json::json_pointer("/" + at)] = value;
    return out;
  }
  ScratchFolder folder_;
};

}  // namespace lockstep::launcher::data
