// Answers: compares the answers of ranks that computed the same thing twice, and finds the wrong ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::launcher {

struct Judgement {
  struct Wrong {
    int rank = 0;
    bool lasting = false;  // also wrong the second time: persistent; else transient
  };
  std::vector<Wrong> wrong;  // ascending; the candidates if it is not decided
  bool decided = true;
};
// Takes each rank's first and second answer. If all are equal, no rank is wrong. The answer of most ranks is
// right. In a tie, a rank whose two answers differ is wrong if all the others agree.
Judgement judge(const std::vector<uint64_t>& first, const std::vector<uint64_t>& again);

// "5f1c0a2b77aa01f3 on rank 1, 9a… on ranks 0 and 2", the fewest first.
std::string answers_text(const std::vector<uint64_t>& answers);
bool all_equal(const std::vector<uint64_t>& answers);
// "rank 1", "ranks 0, 2 and 3".
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace lockstep::launcher
