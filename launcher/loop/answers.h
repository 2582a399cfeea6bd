// Answers: what ranks said that computed the same, twice, and which of them are wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::launcher {

struct Judgement {
  struct Wrong {
    int rank = 0;
    bool lasting = false;  // wrong when it was asked again, too: persistent, else transient
  };
  std::vector<Wrong> wrong;  // ascending; who may be wrong, where it is not decided
  bool decided = true;
};
// Of each rank its answer, and its answer when all were asked again; equal ones are right, or nobody is to be
// heard. What most ranks ever said is right; where no answer has more ranks than any other, who contradicts
// himself is wrong, if the others agree with one another.
Judgement judge(const std::vector<uint64_t>& first, const std::vector<uint64_t>& again);

// "5f1c0a2b77aa01f3 on rank 1, 9a… on ranks 0 and 2", the fewest first.
std::string answers_text(const std::vector<uint64_t>& answers);
bool all_equal(const std::vector<uint64_t>& answers);
// "rank 1", "ranks 0, 2 and 3".
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace lockstep::launcher
