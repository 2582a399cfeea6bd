// Bytes against time: which values of compile.memory_budget are planned, and the table of them.
#include <gtest/gtest.h>

#include "core/base/bytes.h"
#include "core/base/text.h"
#include "launcher/memory/needs.h"
#include "launcher/plan/budgets.h"

namespace lockstep {

using namespace launcher;

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// A step whose arena may be anything from 20 to 120 MiB, in steps of `step`.
PlanBudget planned(const std::string& word, int64_t step = 1) {
  const int64_t asked = word == "none"   ? 120 * kMiB
                        : word == "full" ? 20 * kMiB
                                         : parse_bytes(word).value() / (step * kMiB) * step * kMiB;
  const auto more = static_cast<double>(120 * kMiB - asked) / static_cast<double>(100 * kMiB);
  return {word, asked + 1000 * kMiB, asked, 0.1 * (1 + 0.25 * more), (120 * kMiB - asked) / kMiB, 0.3 * more};
}
template <class Plan>
std::vector<PlanBudget> each(const std::vector<std::string>& words, Plan plan) {
  std::vector<PlanBudget> out;
  for (const std::string& word : words) out.push_back(plan(word));
  return out;
}
std::vector<std::string> words(const std::vector<PlanBudget>& budgets) {
  std::vector<std::string> out;
  for (const PlanBudget& budget : budgets) out.push_back(budget.word);
  return out;
}

TEST(Budgets, EvenDistancesBetweenNoneAndFull) {
  int turns = 0;
  const auto all = plan_budgets([&](const std::vector<std::string>& words) {
    EXPECT_EQ(words.size(), ++turns == 1 ? 2u : 4u) << "both ends, then all between them";
    return each(words, [](const std::string& word) { return planned(word); });
  });
  EXPECT_EQ(words(all), (std::vector<std::string>{"none", "100MiB", "80MiB", "60MiB", "40MiB", "full"}));
  EXPECT_EQ(budgets_text(all),
            "\nbytes against time, by compile.memory_budget\n"
            "  memory_budget  a rank takes       arena    step           computed again\n"
            "  none               1.09 GiB  120.00 MiB  100 ms           nothing\n"
            "  100MiB             1.07 GiB  100.00 MiB  105 ms   +5.0 %  20 values, +6.0 % flops\n"
            "  80MiB              1.05 GiB   80.00 MiB  110 ms  +10.0 %  40 values, +12.0 % flops\n"
            "  60MiB              1.04 GiB   60.00 MiB  115 ms  +15.0 %  60 values, +18.0 % flops\n"
            "  40MiB              1.02 GiB   40.00 MiB  120 ms  +20.0 %  80 values, +24.0 % flops\n"
            "  full            1020.00 MiB   20.00 MiB  125 ms  +25.0 %  100 values, +30.0 % flops\n");
}
// Choices are few: a value that gives what the row above it has, or the last one, is no row.
TEST(Budgets, EqualPlansAreOneRow) {
  const auto all = plan_budgets([](const std::vector<std::string>& words) {
    return each(words, [](const std::string& word) { return planned(word, 45); });
  });
  EXPECT_EQ(words(all), (std::vector<std::string>{"none", "100MiB", "80MiB", "full"}));
}
TEST(Budgets, MomentsOnTheHostAreARowOfTheirOwn) {
  PlanBudget here = planned("none"), away = here;
  away.offload = true, away.bytes -= 500 * kMiB, away.step_s = 0.15;
  EXPECT_EQ(budgets_text({here, away}),
            "\nbytes against time, by compile.memory_budget\n"
            "  memory_budget        a rank takes       arena    step           computed again\n"
            "  none                     1.09 GiB  120.00 MiB  100 ms           nothing\n"
            "  none, optim.offload    620.00 MiB  120.00 MiB  150 ms  +50.0 %  nothing\n"
            "  a full recomputation takes no less\n");
}
TEST(Budgets, WhatWaitsOnTheHostHasAColumn) {
  PlanBudget all = planned("none"), again = planned("100MiB"), copies = again;
  copies.copies = true, copies.values = 0, copies.step_s = 0.101, copies.away = 7,
  copies.away_bytes = 9 * kMiB;
  const auto row = [](const char* left, const char* again, const char* away) {
    return str("  ", left, "  ", again, "  ", away, "\n");
  };
  EXPECT_EQ(budgets_text({all, again, copies}),
            "\nbytes against time, by compile.memory_budget\n" +
                row("memory_budget                        a rank takes       arena    step        ",
                    "computed again         ", "waits on the host") +
                row("none                                     1.09 GiB  120.00 MiB  100 ms        ",
                    "nothing                ", "nothing") +
                row("100MiB                                   1.07 GiB  100.00 MiB  105 ms  +5.0 %",
                    "20 values, +6.0 % flops", "nothing") +
                row("100MiB, compile.offload_activations      1.07 GiB  100.00 MiB  101 ms  +1.0 %",
                    "nothing                ", "7 values, 9.00 MiB"));
}
TEST(Budgets, NothingToGive) {
  const auto all = plan_budgets([](const std::vector<std::string>& words) {
    return each(words, [](const std::string& word) {
      PlanBudget one = planned("none");
      one.word = word, one.step_s = 0;
      return one;
    });
  });
  EXPECT_EQ(words(all), std::vector<std::string>{"none"});
  EXPECT_EQ(budgets_text(all),
            "\nbytes against time, by compile.memory_budget\n"
            "  memory_budget  a rank takes       arena  step    computed again\n"
            "  none               1.09 GiB  120.00 MiB     -    nothing\n"
            "  a full recomputation takes no less\n");
}
TEST(Budgets, Words) {
  EXPECT_EQ(budget_word(int64_t{33282} * kMiB), "32.5GiB");
  EXPECT_EQ(budget_word(4096 * kMiB - 1), "4095MiB");
  EXPECT_EQ(budget_word(26 * kMiB + 5), "26MiB");
  EXPECT_EQ(budget_word(16 * kMiB - 1), "16383KiB");
  EXPECT_EQ(budget_word(5), "1KiB");
  for (int64_t bytes : {int64_t{33282} * kMiB, 26 * kMiB + 5, int64_t{5000}})
    EXPECT_LE(parse_bytes(budget_word(bytes)).value(), bytes);
}

}  // namespace
}  // namespace lockstep
