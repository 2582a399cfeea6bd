// Expecting an error of a kind whose message has all of some words.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

template <class Kind, class Fn>
std::string expect_error(Fn fn, const std::vector<std::string>& words) {
  try {
    fn();
  } catch (const Kind& error) {
    std::string text = error.what();
    for (const auto& word : words)
      EXPECT_NE(text.find(word), std::string::npos) << "\"" << word << "\" is missing in: " << text;
    return text;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another kind of error: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}
