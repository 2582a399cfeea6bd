// Sources that cannot be mixed: each refusal names the source.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "launcher/data/kinds/mixture.h"
#include "launcher/data/kinds/open_samples.h"

namespace lockstep::launcher::data {
namespace {

std::string refusal(const std::vector<DataSource>& sources) {
  try {
    DataOptions options{.kind = "jsonl", .sources = sources};
    options.pack = "none";
    open_samples(options, {{"ids", DType::i32, {4}}, {"targets", DType::i32, {4}}});
  } catch (const UserError& error) { return error.what(); }
  return "no error";
}
void expect_words(const std::string& message, const std::string& words) {
  EXPECT_NE(message.find(words), std::string::npos) << message << "\ndoes not say: " << words;
}

TEST(MixtureErrors, Weights) {
  expect_words(refusal({{{"a"}, 1}, {{"b"}, 0}}),
               "data.sources[1]: weight is 0; give a number above 0, or leave the source out");
  expect_words(refusal({{{"a"}, -2}}), "data.sources[0]: weight is -2; give a number above 0");
  expect_words(
      refusal({{{"a"}, 1e9}, {{"b"}, 1}}),
      "data.sources[1]: weight is 1 of 1000000001 in all, less than one sample of 65536; raise it, or leave "
      "the source out");
}

TEST(MixtureErrors, WhatIsWrongWithASourceNamesIt) {
  expect_words(refusal({{{"/no/such/file.jsonl"}, 1}}), "data.sources[0]: data.paths: /no/such/file.jsonl");
}

}  // namespace
}  // namespace lockstep::launcher::data
