// Chooses budgets between the arenas of "none" and "full", and prints their table.
#include "launcher/plan/budgets.h"

#include <algorithm>
#include <cstdio>

#include "core/base/text.h"
#include "launcher/memory/needs.h"
#include "launcher/plan/predict.h"

namespace lockstep::launcher {

namespace {
constexpr int64_t kBetween = 4;  // rows between the two ends
constexpr size_t kLeft = 5;      // first left-aligned column

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%+.1f %%", 100 * share);
  return text;
}
}  // namespace

std::vector<PlanBudget> plan_budgets(const PlanWords& planned) {
  std::vector<PlanBudget> out = planned({"none", "full"});
  const PlanBudget least = out.at(1);
  out.pop_back();
  const int64_t most = out[0].arena, saved = most - least.arena;
  if (saved <= 0) return out;
  std::vector<std::string> words;
  for (int64_t i = 1; i <= kBetween; ++i) {
    const std::string word = budget_word(most - saved * i / (kBetween + 1));
    if (word == budget_word(least.arena)) break;  // rounding would request less than the minimum
    words.push_back(word);
  }
  for (const PlanBudget& next : planned(words))
    if (next.arena < out.back().arena && next.arena > least.arena) out.push_back(next);
  out.push_back(least);
  return out;
}

std::string more_time(const PlanBudget& budget, const PlanBudget& first) {
  return first.step_s > 0 ? percent(budget.step_s / first.step_s - 1) : "-";
}

std::string away_words(const PlanBudget& budget) {
  return budget.away ? str(budget.away, " values, ", bytes_text(static_cast<double>(budget.away_bytes)))
                     : "nothing";
}

std::string budgets_text(const std::vector<PlanBudget>& budgets) {
  std::vector<std::vector<std::string>> rows{
      {"memory_budget", "a rank takes", "arena", "step", "", "computed again"}};
  const bool any_away =
      std::any_of(budgets.begin(), budgets.end(), [](const PlanBudget& budget) { return budget.away > 0; });
  if (any_away) rows[0].emplace_back("waits on the host");
  for (const PlanBudget& budget : budgets)
    rows.push_back(
        {budget.name(), bytes_text(static_cast<double>(budget.bytes)),
         bytes_text(static_cast<double>(budget.arena)), budget.step_s > 0 ? seconds_text(budget.step_s) : "-",
         budget.values || budget.away || budget.offload ? more_time(budget, budgets[0]) : "",
         budget.values ? str(budget.values, " values, ", percent(budget.more_flops), " flops") : "nothing"});
  for (size_t i = 0; any_away && i < budgets.size(); ++i) rows[i + 1].push_back(away_words(budgets[i]));
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string out = "\nbytes against time, by compile.memory_budget\n";
  for (const auto& row : rows) {
    std::string line = " ";
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string gap(widths[c] - row[c].size(), ' ');
      line += c == 0 || c >= kLeft ? str(" ", row[c], gap, " ") : str(" ", gap, row[c], " ");
    }
    while (line.back() == ' ') line.pop_back();
    out += line + "\n";
  }
  const auto on_device = std::count_if(budgets.begin(), budgets.end(),
                                       [](const PlanBudget& budget) { return budget.as_it_is(); });
  if (on_device == 1) out += "  a full recomputation takes no less\n";
  return out;
}

}  // namespace lockstep::launcher
