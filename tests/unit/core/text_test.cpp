// Texts: what may go to a terminal, how long a name may be shown, and globs in a bounded number of steps.
#include <gtest/gtest.h>

#include <chrono>

#include "core/base/near_word.h"
#include "core/base/text.h"
#include "tests/support/slowness.h"

namespace lockstep {
namespace {

TEST(Printable, ControlsAreShownAndLineEndsStay) {
  EXPECT_EQ(printable("plain\ttext\n"), "plain\ttext\n");
  EXPECT_EQ(printable("\x1b[2Jgone\r\b\a"), "\\x1b[2Jgone\\x0d\\x08\\x07");
  EXPECT_EQ(printable(std::string("a\0b\x7f", 4)), "a\\x00b\\u007f");
  EXPECT_EQ(printable("gr\xc3\xb6\xc3\x9f\x65, \xe2\x82\xac, \xf0\x9f\x98\x80"),
            "gr\xc3\xb6\xc3\x9f\x65, \xe2\x82\xac, \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\u009b2J");  // CSI as one C1 character
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "txt"),
            "\\u202etxt");                                                    // right to left from here on
  EXPECT_EQ(printable("\x9b\xff\xc3"), "\\x9b\\xff\\xc3");                    // no UTF-8, and a cut character
  EXPECT_EQ(printable("\xc0\xaf\xed\xa0\x80"), "\\xc0\\xaf\\xed\\xa0\\x80");  // overlong, a surrogate
}

TEST(Printable, Utf8) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("\xf4\x8f\xbf\xbf"));
  EXPECT_FALSE(is_utf8("\xf4\x90\x80\x80"));
  EXPECT_FALSE(is_utf8("a\x80"));
}

TEST(Shortened, CutsBetweenCharacters) {
  EXPECT_EQ(shortened("short", 5), "short");
  EXPECT_EQ(shortened("longer", 5), "longe... (1 more)");
  EXPECT_EQ(shortened("\xc3\xb6\xc3\xb6", 3), "\xc3\xb6... (2 more)");
}

TEST(Glob, PartsAndAlternatives) {
  EXPECT_TRUE(glob_match("", ""));
  EXPECT_FALSE(glob_match("", "a"));
  EXPECT_TRUE(glob_match("blocks.*.mlp.{up,gate}.weight", "blocks.11.mlp.gate.weight"));
  EXPECT_FALSE(glob_match("blocks.*.weight", "blocks.1.up.weight"));
  EXPECT_TRUE(glob_match("blocks.**.weight", "blocks.1.up.weight"));
  EXPECT_TRUE(glob_match("**", "a.b.c"));
  EXPECT_TRUE(glob_match("{*.up,head}.{weight,bias}", "a.up.bias"));
  EXPECT_TRUE(glob_match("{a,b}{c,}", "a"));
  EXPECT_FALSE(glob_match("{a,b}{c,}", "ab"));
  EXPECT_TRUE(glob_match("w{*}x", "wabcx"));
  EXPECT_TRUE(glob_match("a{b", "a{b"));
  EXPECT_TRUE(glob_match("a,b}", "a,b}"));
  EXPECT_FALSE(glob_match("*", "a.b"));
  EXPECT_TRUE(glob_match("***", "a.b"));
}

// 2^1000 ways to read a pattern, and one pass through the text.
TEST(Glob, HostilePatternsTakeNoTime) {
  const auto start = std::chrono::steady_clock::now();
  std::string stars, braces;
  for (int i = 0; i < 1000; ++i) stars += "*a", braces += "{a,aa}";
  EXPECT_TRUE(glob_match(std::string(2000, '*'), "blocks.0.weight"));
  EXPECT_FALSE(glob_match(std::string(2000, '*') + "x", "blocks.0.weight"));
  EXPECT_FALSE(glob_match(stars + "b", std::string(1500, 'a')));
  EXPECT_FALSE(glob_match(braces + "b", std::string(1500, 'a')));
  EXPECT_TRUE(glob_match(braces, std::string(1500, 'a')));
  EXPECT_LT(std::chrono::steady_clock::now() - start, kSlowness * std::chrono::seconds(5));
}

// Only what a slip of the fingers makes of a word is near it.
TEST(Text, NearWord) {
  const std::vector<std::string> known = {"softmax", "convert", "schedule", "run", "runs"};
  EXPECT_EQ(near_word("softmx", known), "softmax");
  EXPECT_EQ(near_word("sofmtax", known), "softmax");
  EXPECT_EQ(near_word("shedule", known), "schedule");
  EXPECT_EQ(near_word("rum", known), "run");
  EXPECT_EQ(near_word("urn", known), "run");
  EXPECT_EQ(near_word("runs", known), "runs");
  for (const char* far : {"conv2d", "zebrafish", "ru", "x", ""}) EXPECT_EQ(near_word(far, known), "") << far;
  EXPECT_EQ(near_word(std::string(1 << 20, 'r'), known), "");
}

// Letters that changed places are one slip for both.
TEST(Text, NearestTakesWhatIsFurtherByTheSameDistance) {
  EXPECT_EQ(edit_distance("urn", "run"), 1u);
  EXPECT_EQ(edit_distance("", "run"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  const std::vector<std::string> known = {"run", "ru", "stop"};
  EXPECT_EQ(nearest("urn", {"bun", "run"}), "run");
  EXPECT_EQ(nearest("rxyz", known), "") << "three letters of four";
  EXPECT_EQ(near_word("rxx", known), "");
  EXPECT_EQ(nearest("rxx", known), "run");
}

}  // namespace
}  // namespace lockstep
