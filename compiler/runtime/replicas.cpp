// Finds the ranks that store the same part, and compares their checksums.
#include "compiler/runtime/replicas.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace lockstep::compiler {

int64_t replica_word(const std::vector<Replica>& replicas, const std::vector<uint64_t>& sums) {
  uint64_t word = 0;
  for (size_t r = 0; r < replicas.size(); ++r) {
    const Replica& one = replicas[r];
    const uint64_t mixed = hash64(str(one.name, " ", one.part), sums[r]);
    word += one.index == 0 ? mixed * static_cast<uint64_t>(one.count - 1) : ~mixed + 1;
  }
  return static_cast<int64_t>(word);
}

std::string replica_difference(const std::vector<Replica>& replicas, const std::vector<uint64_t>& sums,
                               Group& world) {
  Json mine = Json::array();
  for (size_t r = 0; r < replicas.size(); ++r) mine.push_back({replicas[r].name, replicas[r].part, sums[r]});
  const auto texts = all_gather_text(world, mine.dump());
  std::vector<std::string> order;  // of tensors, in rank 0's order
  // tensor -> part -> checksum -> ranks
  std::map<std::string, std::map<std::string, std::map<uint64_t, std::vector<int>>>> held;
  for (int rank = 0; rank < static_cast<int>(texts.size()); ++rank)
    for (const Json& one : Json::parse(texts[rank])) {
      const std::string tensor = one[0];
      if (!held.count(tensor)) order.push_back(tensor);
      held[tensor][one[1].get<std::string>()][one[2].get<uint64_t>()].push_back(rank);
    }
  std::string out;
  int others = 0;
  for (const std::string& tensor : order)
    for (const auto& [part, by_sum] : held[tensor]) {
      if (by_sum.size() < 2) continue;
      if (!out.empty()) {
        ++others;
        continue;
      }
      const auto most = std::max_element(by_sum.begin(), by_sum.end(), [](const auto& a, const auto& b) {
        return a.second.size() < b.second.size();
      });
      const size_t ranks_alike = most->second.size();
      const bool clear = std::count_if(by_sum.begin(), by_sum.end(), [&](const auto& one) {
                           return one.second.size() == ranks_alike;
                         }) == 1;
      auto ranks_text = [](const std::vector<int>& ranks) {
        std::vector<std::string> words;
        for (int rank : ranks) words.push_back(str(rank));
        return str(ranks.size() == 1 ? "rank " : "ranks ", join(words, ", "));
      };
      std::vector<int> odd;
      for (const auto& [sum, ranks] : by_sum)
        if (!clear || sum != most->first) odd.insert(odd.end(), ranks.begin(), ranks.end());
      std::sort(odd.begin(), odd.end());
      out = clear ? str(tensor, " on ", ranks_text(odd), " is not what it is on ", ranks_text(most->second))
                  : str(tensor, " is not the same on ", ranks_text(odd),
                        ", and there are too few ranks to tell which is wrong");
    }
  if (others) out += str(", and so with ", others, " more tensor", others == 1 ? "" : "s");
  return out;
}

}  // namespace lockstep::compiler
