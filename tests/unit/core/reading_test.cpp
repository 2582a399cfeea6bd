// Bounded readers: JSON in a time that grows with the text, pipes that give their bytes once, numbers,
// sentences.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>

#include "core/base/text.h"
#include "core/reading/given_text.h"
#include "core/reading/json_text.h"
#include "core/reading/one_line.h"
#include "core/reading/sentence.h"
#include "core/reading/whole_number.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

TEST(JsonReading, KeepsOrderAndTellsDoubledKeys) {
  const JsonText read =
      read_json(R"({"b": [1, -2, 2.5, true, null, "x"], "a": {"c": {}}, "b": 7, "d": 18446744073709551615})");
  ASSERT_TRUE(read.readable);
  EXPECT_EQ(read.value.dump(), R"({"b":7,"a":{"c":{}},"d":18446744073709551615})");
  EXPECT_EQ(read.errors, std::vector<std::string>{"key \"b\" is given twice in one section; keep one"});
  EXPECT_EQ(read_sorted_json(R"({"b": 1, "a": 2, "b": 3})").value.dump(), R"({"a":2,"b":3})");
  for (const char* alone : {"3", "-0.5", "\"x\"", "null", "[]", "{}", "[[],[{}]]"})
    EXPECT_EQ(bounded_json(alone).dump(), alone);
}

TEST(JsonReading, Bounds) {
  auto first = [](const std::string& text, const JsonBounds& bounds = {}) {
    const JsonText read = read_json(text, Comments::refused, bounds);
    EXPECT_FALSE(read.readable) << read.value.dump();
    return read.errors.empty() ? "" : split(read.errors[0], '\n')[0];
  };
  EXPECT_EQ(first(std::string(100000, '[')), "line 1, column 65: nested deeper than 64 lists and sections");
  EXPECT_EQ(first("[1, 1e999]"), "line 1, column 5: 1e999 is beyond the largest number, 1.8e308");
  EXPECT_EQ(first("[1, " + std::string(401, '1') + "]"),
            "line 1, column 5: a number of 401 characters; at most 400 are read");
  EXPECT_EQ(first("[1, 2]", {.bytes = 5}), "a text of 6 B; at most 5 B are read");
  EXPECT_EQ(first("\"\xff\"").substr(0, 37), "line 1, column 2: this is not JSON: i");
  EXPECT_TRUE(bounded_json("{\"a\": 1, \"b\": 2}", {.members = 1}).is_discarded());
  EXPECT_EQ(
      read_json("{\"a\": 1, \"b\": [2], \"c\": {\"d\": 1}}", Comments::refused, {.members = 1}).value.dump(),
      "{\"a\":1}");
  for (const char* small : {"1e-999", "-0.5E-400"})
    EXPECT_EQ(first(str("[1, ", small, "]")),
              str("line 1, column 5: ", small,
                  " is below the smallest number, 4.9e-324; write 0 if that is meant"));
  for (const char* zero : {"0e-999", "-0.0", "0.000e5"})
    EXPECT_EQ(bounded_json(zero).get<double>(), 0.0) << zero;
  EXPECT_EQ(bounded_json("5e-324").get<double>(), 5e-324);
}

// 300,000 members: seconds where each were looked for among the others, hours where one is copied with its
// like.
TEST(JsonReading, TakesATimeThatGrowsWithTheText) {
  std::string text = "{";
  for (int i = 0; i < 300000; ++i) text += str(i ? "," : "", "\"name.", i, "\":{\"at\":[", i, "]}");
  text += "}";
  const std::clock_t began = std::clock();
  const JsonText read = read_json(text, Comments::refused, {.members = kAllMembers});
  EXPECT_LT(static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC, 4);
  EXPECT_EQ(read.value.size(), 300000u);
  EXPECT_TRUE(read.errors.empty());
}

TEST(GivenTexts, PipesGiveTheirTextAsOftenAsItIsAskedFor) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "{\"name\": 1}", 11), 11);
  ::close(ends[1]);
  const std::string path = str("/dev/fd/", ends[0]);
  for (int again = 0; again < 3; ++again) EXPECT_EQ(read_given(path, 100).text, "{\"name\": 1}");
  ::close(ends[0]);
}

TEST(GivenTexts, WhatIsNone) {
  ScratchFolder folder;
  EXPECT_EQ(read_given(folder.path("none"), 9).problem, "it is not there");
  EXPECT_EQ(read_given(folder.path(""), 9).problem, "it is a folder");
  ASSERT_EQ(::mkfifo(folder.path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(read_given(folder.path("fifo"), 9).problem, "it is a FIFO");  // at once
  folder.write("f", "0123456789");
  EXPECT_EQ(read_given(folder.path("f"), 9).problem, "it has 10 B, and at most 9 B are read");
  EXPECT_EQ(read_given(folder.path("f"), 10).text, "0123456789");
  EXPECT_EQ(read_given("/dev/zero", 9).problem, "it has more than 9 B, and at most 9 B are read");
  EXPECT_EQ(read_given("/dev/null", 9).text, "");
  EXPECT_EQ(read_given("/dev/null", 9).problem, "");
}

TEST(Numbers, AreWholeOrNone) {
  EXPECT_EQ(whole_number("-12"), -12);
  EXPECT_EQ(whole_number("9223372036854775807"), 9223372036854775807);
  for (const char* none : {"", " 1", "1 ", "+1", "1.0", "0x1", "9223372036854775808", "1e3", "-"})
    EXPECT_FALSE(whole_number(none)) << none;
  EXPECT_FALSE(whole_number<uint64_t>("-1"));
}

TEST(Sentences, AreFoundWithTheirGaps) {
  const auto found =
      find_sentence("x process rank 12 with PID 7 on node h-1.b exited", "rank # with PID # on node @ ");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->gaps, (std::vector<std::string>{"12", "7", "h-1.b"}));
  EXPECT_EQ(found->begin, 10u);
  EXPECT_FALSE(find_sentence("rank x with", "rank # with"));
  EXPECT_FALSE(find_sentence("rank ", "rank #"));
  EXPECT_TRUE(find_sentence("code:    3", "code: #"));
  EXPECT_EQ(find_sentence("step 1, step 2", "step #", 3)->gaps[0], "2");
  // What follows a gap is no part of it.
  EXPECT_EQ(find_sentence("node h-1.b: gone", "node @: gone")->gaps[0], "h-1.b");
  EXPECT_EQ(find_sentence("at [::1]:80, then", "at @:#, then")->gaps,
            (std::vector<std::string>{"[::1]", "80"}));
  EXPECT_EQ(find_sentence("port 8080 is taken", "port #0 is")->gaps[0], "808");
  EXPECT_EQ(find_sentence("(a, b)", "(@, @)")->gaps, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(find_sentence("node : gone", "node @: gone"));
  EXPECT_FALSE(find_sentence("node a gone", "node @: gone"));
  // A regular expression would call itself a million times.
  const std::string long_word(1 << 20, 'x');
  EXPECT_EQ(find_sentence("on node " + long_word + " ended", "on node @ ended")->gaps[0].size(),
            long_word.size());
}

TEST(OneLine, WritesLineEndsOut) {
  EXPECT_EQ(one_line("a\nb\tc\rd"), "a\\nb\\tc\\x0dd");
  EXPECT_EQ(one_line("\x1b[2J\x7f\xff"), printable("\x1b[2J\x7f\xff"));
}

}  // namespace
}  // namespace lockstep
