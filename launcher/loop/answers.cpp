// Answers: finds wrong ranks by majority, and describes them.
#include "launcher/loop/answers.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <set>

#include "core/base/text.h"

namespace lockstep::launcher {

namespace {
// The answer that more ranks gave, in either round, than any other answer.
std::optional<uint64_t> most_said(const std::vector<uint64_t>& first, const std::vector<uint64_t>& again) {
  std::map<uint64_t, std::set<size_t>> said;
  for (size_t r = 0; r < first.size(); ++r) said[first[r]].insert(r), said[again[r]].insert(r);
  std::optional<uint64_t> best;
  size_t most = 0;
  for (const auto& [answer, ranks] : said) {
    if (ranks.size() > most)
      best = answer, most = ranks.size();
    else if (ranks.size() == most)
      best.reset();
  }
  return best;
}

// The common answer of all ranks whose two answers agree, if some other ranks' answers do not.
std::optional<uint64_t> steady(const std::vector<uint64_t>& first, const std::vector<uint64_t>& again) {
  std::set<uint64_t> said;
  bool contradicted = false;
  for (size_t r = 0; r < first.size(); ++r) {
    if (first[r] == again[r])
      said.insert(first[r]);
    else
      contradicted = true;
  }
  return contradicted && said.size() == 1 ? std::optional(*said.begin()) : std::nullopt;
}
}  // namespace

Judgement judge(const std::vector<uint64_t>& first, const std::vector<uint64_t>& again) {
  // A majority over both rounds decides. Without one, for example with two ranks, a rank that contradicts
  // itself is wrong.
  auto right = most_said(first, again);
  if (!right) right = steady(first, again);
  Judgement out;
  out.decided = right.has_value();
  for (size_t r = 0; r < first.size(); ++r)
    if (!right || first[r] != *right || again[r] != *right)
      out.wrong.push_back({static_cast<int>(r), !right || again[r] != *right});
  return out;
}

bool all_equal(const std::vector<uint64_t>& answers) {
  return std::all_of(answers.begin(), answers.end(), [&](uint64_t one) { return one == answers[0]; });
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i)
    out += str(i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ", ranks[i]);
  return out;
}

std::string answers_text(const std::vector<uint64_t>& answers) {
  std::map<uint64_t, std::vector<int>> by_answer;
  for (size_t r = 0; r < answers.size(); ++r) by_answer[answers[r]].push_back(static_cast<int>(r));
  std::vector<std::pair<uint64_t, std::vector<int>>> sorted(by_answer.begin(), by_answer.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.size(), a.second[0]) < std::pair(b.second.size(), b.second[0]);
  });
  std::vector<std::string> words;
  for (const auto& [answer, ranks] : sorted) {
    char hex[20];
    std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(answer));
    words.push_back(str(hex, " on ", ranks_text(ranks)));
  }
  return join(words, ", ");
}

}  // namespace lockstep::launcher
