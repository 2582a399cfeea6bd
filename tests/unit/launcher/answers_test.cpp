// Who is wrong, by what all say to the same question twice.
#include "launcher/loop/answers.h"

#include <gtest/gtest.h>

namespace lockstep::launcher {
namespace {

std::string told(const std::vector<uint64_t>& first, const std::vector<uint64_t>& again) {
  const Judgement found = judge(first, again);
  std::string out = found.decided ? "" : "undecided:";
  for (const auto& [rank, lasting] : found.wrong)
    out += std::string(out.empty() ? "" : " ") + std::to_string(rank) + (lasting ? " lasting" : " once");
  return out;
}

TEST(Answers, MostOfThreeAreRight) {
  EXPECT_EQ(told({7, 7, 7}, {7, 7, 7}), "");
  EXPECT_EQ(told({7, 9, 7}, {7, 9, 7}), "1 lasting");
  EXPECT_EQ(told({7, 9, 7}, {7, 8, 7}), "1 lasting");
  EXPECT_EQ(told({7, 9, 7}, {7, 7, 7}), "1 once");
  EXPECT_EQ(told({7, 9, 7, 7}, {7, 7, 7, 5}), "1 once 3 lasting");
  EXPECT_EQ(told({7, 9, 8}, {7, 9, 7}), "1 lasting 2 once");
}

TEST(Answers, TwoCanTellWhoChangesHisMind) {
  EXPECT_EQ(told({7, 9}, {7, 7}), "1 once");
  EXPECT_EQ(told({9, 7}, {7, 7}), "0 once");
  EXPECT_EQ(told({7, 9}, {7, 8}), "1 lasting");  // it never says the same, and the other does
  EXPECT_EQ(told({7, 9}, {7, 9}), "undecided: 0 lasting 1 lasting");
  EXPECT_EQ(told({7, 9}, {6, 8}), "undecided: 0 lasting 1 lasting");
  EXPECT_EQ(told({7, 7, 9, 9}, {7, 7, 9, 9}), "undecided: 0 lasting 1 lasting 2 lasting 3 lasting");
}

TEST(Answers, InWords) {
  EXPECT_EQ(answers_text({7, 0xabcdef, 7}), "0000000000abcdef on rank 1, 0000000000000007 on ranks 0 and 2");
  EXPECT_EQ(answers_text({1, 1, 1, 2}), "0000000000000002 on rank 3, 0000000000000001 on ranks 0, 1 and 2");
  EXPECT_TRUE(all_equal({3, 3}));
  EXPECT_FALSE(all_equal({3, 4}));
}

}  // namespace
}  // namespace lockstep::launcher
